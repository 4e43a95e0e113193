package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/deploy/dev/stack"
)

// holders is the number of streams opened at a time.
const holders = 64

// measureStreams has another process hold streams open, each of its own inbox, and reads the service's memory once
// all are idle.
func (r *notifyRig) measureStreams(ctx context.Context, streams int, out *strings.Builder) error {
	// A new process, because memory left by other parts would hide what streams take.
	if err := r.stack.Restart(ctx, string(stack.Notify)); err != nil {
		return err
	}
	var err error
	if r.service, err = r.stack.PID(string(stack.Notify)); err != nil {
		return err
	}
	before, err := r.rss()
	if err != nil {
		return err
	}
	began := time.Now()
	holder, err := startHelper(ctx, r.dir, "holder", "-hold", strconv.Itoa(streams),
		"-relay", r.stack.URL(string(stack.Notify)), "-bearer", r.stack.Secrets().Service)
	if err != nil {
		return err
	}
	defer holder.Kill()
	opened := time.Since(began)
	const idle, looks = 40 * time.Second, 4
	var rss []float64
	spent := used([]int{r.service})
	for range looks {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(idle / looks):
		}
		now, err := r.rss()
		if err != nil {
			return err
		}
		rss = append(rss, now)
	}
	spent = used([]int{r.service}) - spent
	held, err := heldOpen(ctx, holder.url)
	if err != nil || held != streams {
		return fmt.Errorf("%d of %d streams are open: %w", held, streams, err)
	}
	last := rss[len(rss)-1]
	printf(out, "\n%d idle inbox streams, each of another inbox, opened in %s\n", streams, opened.Round(100*time.Millisecond))
	printf(out, "  RSS in MiB  %.0f before, then every %s %.0f: %.1f kB a stream\n", before, idle/looks, rss, (last-before)*(1<<20)/1000/float64(streams))
	printf(out, "  CPU         %.1f %% of a core while they are idle\n", 100*spent.Seconds()/idle.Seconds())
	return nil
}

func heldOpen(ctx context.Context, url string) (n int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = fmt.Fscan(answer.Body, &n)
	return n, err
}

// hold opens streams and reads what comes. It returns once all are open; its handler returns how many still are.
func hold(ctx context.Context, url, token string, streams int) (http.Handler, error) {
	address := strings.TrimPrefix(url, "http://")
	ended := make(chan struct{}, streams)
	group, opening := errgroup.WithContext(ctx)
	group.SetLimit(holders)
	for n := range streams {
		group.Go(func() error {
			if opening.Err() != nil {
				return opening.Err()
			}
			conn, err := openStream(ctx, address, token, n)
			if err != nil {
				return fmt.Errorf("stream %d: %w", n, err)
			}
			go func() { // ends with the process, or with the stream
				_, _ = io.Copy(io.Discard, conn)
				ended <- struct{}{}
			}()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, streams-len(ended))
	}), nil
}

// openStream opens one stream and waits for its first event.
func openStream(ctx context.Context, address, token string, n int) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "GET /v1/notifications/stream?user_id=holder-%d HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Organization-Id: %s\r\n\r\n",
		n, address, token, stack.Organization)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(conn, 1<<10)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case err != nil:
			return nil, err
		case strings.HasPrefix(line, "HTTP/1.1") && !strings.HasPrefix(line, "HTTP/1.1 200"):
			return nil, errors.New(strings.TrimSpace(line))
		case strings.HasPrefix(line, "event: ready"):
			return conn, nil
		}
	}
}
