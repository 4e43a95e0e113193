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

// balancer is a TCP load balancer for the replicas of one service, which behaves as a cluster's Service does: new
// connections go to the ready replicas in turn, open connections stay where they are, and a change of readiness is
// noticed with a delay.
type balancer struct {
	listener net.Listener

	mu       sync.Mutex
	replicas []string // host:port
	ready    []string
	next     int
	refused  atomic.Int64 // connections closed because no replica was ready or reachable
}

// probeInterval is the time between two readiness probes of a replica, by which a balancer may be late.
const probeInterval = 100 * time.Millisecond

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

// setReplicas sets the replicas, all of which count as ready until the next probe.
func (b *balancer) setReplicas(replicas ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas, b.ready = replicas, slices.Clone(replicas)
}

func (b *balancer) probe(ctx context.Context) {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for tick := time.NewTicker(probeInterval); ; {
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
	b.next++
	return b.ready[b.next%len(b.ready)], true
}

func (b *balancer) accept(work *sync.WaitGroup) {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		work.Go(func() { b.proxy(conn) })
	}
}

// proxy copies the bytes of one connection in both directions, until both sides have ended.
func (b *balancer) proxy(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	replica, ok := b.pick()
	if !ok {
		b.refused.Add(1)
		return
	}
	upstream, err := net.Dial("tcp", replica)
	if err != nil {
		b.refused.Add(1)
		return
	}
	defer func() { _ = upstream.Close() }()
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{upstream, conn}, {conn, upstream}} {
		ways.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	ways.Wait()
}
