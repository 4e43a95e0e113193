//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// killDuring makes each client call one time after the other, kills a member when a quarter of the calls is answered,
// and starts it again after the last call. It returns how many were answered.
func (h *harness) killDuring(t *testing.T, target stack.Service, clients []client, calls int64) int64 {
	t.Helper()
	var answered, begun atomic.Int64
	var callers sync.WaitGroup
	quarter := make(chan struct{})
	for _, c := range clients {
		callers.Go(func() {
			for begun.Add(1) <= calls {
				a, err := c.try(t, http.MethodPost, chatRoute, ask("sandbox", "hello"))
				if err == nil && a.status == http.StatusOK && answered.Add(1) == calls/4 {
					close(quarter)
				}
			}
		})
	}
	select {
	case <-quarter:
	case <-soon():
		t.Error("the first quarter is not answered")
	}
	if err := h.Kill(string(target)); err != nil {
		t.Fatal(err)
	}
	callers.Wait()
	if err := h.Restart(t.Context(), string(target)); err != nil {
		t.Fatal(err)
	}
	return answered.Load()
}

// countAll waits until every answered call is counted, and returns the count. No more may be counted than those and the
// calls that a kill cut off.
func (h *harness) countAll(t *testing.T, organization string, answered, cut int64) (counted int64) {
	t.Helper()
	waitFor(t, waitTimeout, "the count of every answered call", func() error {
		if counted = h.counted(t, organization, "llm_requests"); counted < answered {
			return fmt.Errorf("%d are counted, %d were answered", counted, answered)
		}
		return nil
	})
	if most := answered + cut; counted > most {
		t.Errorf("%d are counted, want %d to %d", counted, answered, most)
	}
	return counted
}

// kill -9 of the edge during calls: every answered call is billed, once.
func TestKillEdge(t *testing.T) {
	t.Parallel()
	h := breakable.get(t)
	organization := unique("org")
	ai := h.customer(t, organization, "ai", "read")
	callers := slices.Repeat([]client{ai}, 4)
	answered := h.killDuring(t, stack.Edge, callers, 80)
	// A call that was cut off may have been counted just before.
	counted := h.countAll(t, organization, answered, int64(len(callers)))

	// The counters continue from there.
	ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	h.awaitCount(t, organization, "llm_requests", counted+1)
}

// kill -9 of the gateway during a stream: the client can tell that the stream is incomplete, and the edge serves again
// as soon as there is a gateway.
func TestKillGateway(t *testing.T) {
	t.Parallel()
	h := breakable.get(t)
	h.script(t, stack.FakeProvider, rule{Match: stalling.match(), Action: object{"stall_after_chunks": 3}})
	ai := h.customer(t, unique("org"), "ai", "read")
	stream := ai.stream(t, chatRoute, ask(stalling.model, "hello", streamed))
	if _, ok := stream.next(t); !ok {
		t.Fatal("the stream is empty")
	}
	if err := h.Kill(string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	for stream.lines.Scan() {
		if strings.Contains(stream.lines.Text(), "[DONE]") {
			t.Error("the stream ends as if it were whole")
		}
	}
	if stream.lines.Err() == nil {
		t.Error("the connection of a stream that was cut ends in order")
	}
	f := ai.post(t, chatRoute, ask("sandbox", "hello")).refused(t, http.StatusServiceUnavailable, "upstream_unavailable", "")
	if !*f.Retryable {
		t.Error("not retryable")
	}
	if err := h.Restart(t.Context(), string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
}

// A service that gets SIGTERM finishes the streams that it has begun.
func TestTerminateDuringAStream(t *testing.T) {
	t.Parallel()
	h := breakable.get(t)
	for _, member := range []stack.Service{stack.Gateway, stack.Edge} {
		t.Run(string(member), func(t *testing.T) {
			h.script(t, stack.FakeProvider, rule{Match: draining.match(), Times: 1, Action: object{
				"slow_body_ms": 20, "answer": object{"text": strings.Repeat("word ", 40)},
			}})
			stream := h.customer(t, unique("org"), "ai", "read").stream(t, chatRoute, ask(draining.model, "hello", streamed))
			if _, ok := stream.next(t); !ok {
				t.Fatal("the stream is empty")
			}
			stopped := make(chan error, 1)
			go func() { stopped <- h.Terminate(context.WithoutCancel(t.Context()), string(member)) }()
			if all := stream.read(t); !all.done || all.failed != nil {
				t.Errorf("the stream ended with done %v, error %+v", all.done, all.failed)
			}
			if err := <-stopped; err != nil {
				t.Errorf("terminate: %v", err)
			}
			if err := h.Restart(t.Context(), string(member)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

var draining = addVendor(vendor{name: "draining", dialect: "openai", model: "draining"})
