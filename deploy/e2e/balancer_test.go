//go:build e2e

package e2e_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// balancer stands before the replicas of one service as a cluster's Service
// does: new connections go to ready replicas in turn, connections that stand are
// left alone, and readiness is known with a delay.
type balancer struct {
	listener net.Listener

	mu       sync.Mutex
	replicas []string // host:port
	ready    []string
	turn     int
	refused  atomic.Int64 // connections closed because no replica was ready or reachable
}

// probeEvery is how far a balancer's knowledge may be behind.
const probeEvery = 100 * time.Millisecond

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var work sync.WaitGroup
	work.Go(func() { b.probe(ctx) })
	work.Go(func() { b.accept(&work) })
	t.Cleanup(func() {
		stop()
		_ = listener.Close()
		work.Wait()
	})
	return b
}

func (b *balancer) url() string { return "http://" + b.listener.Addr().String() }

// before names the replicas.
func (b *balancer) before(replicas ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas, b.ready = replicas, slices.Clone(replicas)
}

func (b *balancer) probe(ctx context.Context) {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for tick := time.NewTicker(probeEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.mu.Lock()
		replicas := b.replicas
		b.mu.Unlock()
		var ready []string
		for _, replica := range replicas {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+replica+"/health/ready", nil)
			if err != nil {
				continue
			}
			if resp, err := client.Do(r); err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					ready = append(ready, replica)
				}
			}
		}
		b.mu.Lock()
		b.ready = ready
		b.mu.Unlock()
	}
}

func (b *balancer) pick() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return "", false
	}
	b.turn++
	return b.ready[b.turn%len(b.ready)], true
}

func (b *balancer) accept(work *sync.WaitGroup) {
	for {
		caller, err := b.listener.Accept()
		if err != nil {
			return
		}
		work.Go(func() { b.join(caller) })
	}
}

// join carries the bytes of one connection both ways, to the end of either side.
func (b *balancer) join(caller net.Conn) {
	defer func() { _ = caller.Close() }()
	replica, ok := b.pick()
	if !ok {
		b.refused.Add(1)
		return
	}
	server, err := net.Dial("tcp", replica)
	if err != nil {
		b.refused.Add(1)
		return
	}
	defer func() { _ = server.Close() }()
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{server, caller}, {caller, server}} {
		ways.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	ways.Wait()
}
