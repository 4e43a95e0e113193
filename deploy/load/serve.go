package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/deploy/dev/port"
	"switchyard.dev/deploy/dev/process"
	"switchyard.dev/deploy/fakes/plain"
	"switchyard.dev/deploy/load/relay"
)

// serve runs the provider or the relay in its own process, so that its CPU time can be measured separately.
func serve(ctx context.Context, args []string) error {
	var config plain.Config
	set := flag.NewFlagSet("serve", flag.ContinueOnError)
	listen := set.String("listen", "", "address")
	upstream := set.String("relay", "", "relay to this URL instead of being the provider")
	reverse := set.String("reverse", "", "be httputil.ReverseProxy before this URL")
	receive := set.Bool("receiver", false, "be the receiver of webhooks instead")
	push := set.Bool("push", false, "be a push service instead")
	tools := set.Bool("tools", false, "be a server of tools instead")
	streams := set.Int("hold", 0, "number of inbox streams of notify at -relay to hold open; GET returns how many are")
	bearer := set.String("bearer", "", "the token that -hold shows")
	set.DurationVar(&config.Delay, "delay", 0, "time before an answer")
	set.IntVar(&config.Pieces, "pieces", 0, "pieces of a stream")
	set.DurationVar(&config.Pause, "pause", 0, "time between pieces")
	if err := set.Parse(args); err != nil {
		return err
	}
	handler := confirmCounts(plain.New(config))
	switch {
	case *receive:
		handler = &plain.Receiver{Delay: config.Delay}
	case *tools:
		handler = newToolServer()
	case *push:
		handler = &plain.PushService{}
	case *streams > 0:
		var err error
		if handler, err = hold(ctx, *upstream, *bearer, *streams); err != nil {
			return err
		}
	case *reverse != "":
		target, err := url.Parse(*reverse)
		if err != nil {
			return err
		}
		handler = relay.NewReverse(target)
	case *upstream != "":
		handler = relay.New(*upstream)
	}
	server := &http.Server{Addr: *listen, Handler: handler, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// confirmCounts makes next confirm counts as a service does; otherwise the edge logs an error for each call.
func confirmCounts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Count-Metric") != "" {
			w.Header().Set("X-Counted", "1")
		}
		next.ServeHTTP(w, r)
	})
}

// helper is a serving process that load started.
type helper struct {
	*process.Process
	url string
}

func startHelper(ctx context.Context, dir, name string, args ...string) (*helper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ports, err := port.Free(ctx, 1)
	if err != nil {
		return nil, err
	}
	address := port.At(ports[0])
	p, err := process.Start(process.Spec{
		Name: name, Path: self, Log: filepath.Join(dir, name+".log"), Env: os.Environ(),
		Args: append([]string{"serve", "-listen", address}, args...),
	})
	if err != nil {
		return nil, err
	}
	h := &helper{p, "http://" + address}
	err = p.Await(ctx, time.Minute, func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return h, nil
}
