package app

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Streams, whose connections net/http has let go of, end in the drain as whole
// answers, and the service isn't gone before the last of them has.
func TestStreamsEndInTheDrain(t *testing.T) {
	cfg, base := environ(t)
	if err := Migrate(t.Context(), cfg, io.Discard); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, cfg) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	waitReady(t, client, base, served)

	const streams = 200
	var opened, ended sync.WaitGroup
	opened.Add(streams)
	rests := make(chan error, streams)
	for range streams {
		ended.Go(func() { rests <- followToTheEnd(t, client, base, opened.Done) })
	}
	opened.Wait()
	stop()
	if err := <-served; err != nil { // Serve returns an error if its drain is cut off.
		t.Errorf("Serve ended with %v", err)
	}
	ended.Wait()
	for range streams {
		if err := <-rests; err != nil {
			t.Error(err)
		}
	}
}

// followToTheEnd reads a stream, and fails unless it says when to resume and ends
// with its last chunk.
func followToTheEnd(t *testing.T, client *http.Client, base string, opened func()) error {
	t.Helper()
	var once sync.Once
	defer once.Do(opened)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/notifications/stream?organization_id=acme&user_id=ann", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "retry: 2000\n" {
		return errors.Join(errors.New("no time to resume: "+line), err)
	}
	once.Do(opened)
	rest, err := io.ReadAll(lines)
	if err == nil && !strings.Contains(string(rest), "event: ready\n") {
		err = errors.New("no event: " + string(rest))
	}
	return err
}
