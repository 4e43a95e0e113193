//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// The tests here kill what runs, one after the other: none is parallel.

const (
	// chaosBlow is how many deliveries are accepted between two blows.
	chaosBlow      = 500
	chaosProducers = 16
	// chaosInFlight is what webhook-egress has on the wire at most: what may
	// arrive twice when it dies.
	chaosInFlight = 32
)

// producer enqueues deliveries as a careful customer does: each with an
// idempotency key, and again until there is an answer.
type producer struct {
	shop  client
	to    receiver
	total int
	next  atomic.Int64 // number of the next delivery

	mu       sync.Mutex
	accepted map[string]bool
	noted    int
	enough   chan struct{} // told when so many more are accepted that it is time to kill
}

func (p *producer) run(t *testing.T) error {
	t.Helper()
	for {
		n := p.next.Add(1)
		if n > int64(p.total) {
			return nil
		}
		if err := p.enqueue(t, fmt.Sprint("delivery-", n)); err != nil {
			return err
		}
	}
}

func (p *producer) enqueue(t *testing.T, key string) error {
	t.Helper()
	var refusal error // that is final
	err := await(t.Context(), patience, func() error {
		a, err := p.shop.try(t, http.MethodPost, deliveryRoute, p.to.deliver(object{"idempotency_key": key}))
		switch {
		case err != nil:
			return err
		case a.status == http.StatusAccepted || a.status == http.StatusOK:
			refusal = p.note(a.body)
			return nil
		}
		err = fmt.Errorf("%s: answered %d: %s", key, a.status, shorten(a.body))
		if a.status >= http.StatusInternalServerError {
			return err // While the service is away, the edge answers 502 or 503.
		}
		refusal = err
		return nil
	})
	return errors.Join(err, refusal)
}

// note keeps the id of an accepted delivery.
func (p *producer) note(answer []byte) error {
	var got accepted
	if err := json.Unmarshal(answer, &got); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted[got.ID] = true
	if p.noted++; p.noted%chaosBlow == 0 {
		p.enough <- struct{}{}
	}
	return nil
}

// allDelivered waits for every accepted delivery. What the blows have held up goes
// to one target, whose share of the few slots is eight: time for 100 a second.
func (p *producer) allDelivered(t *testing.T, webhooks client) {
	t.Helper()
	deadline := time.Now().Add(patience + time.Duration(p.total)*10*time.Millisecond)
	for id := range p.accepted {
		waitFor(t, time.Until(deadline), "the end of delivery "+id, func() error {
			var d delivery
			webhooks.get(t, deliveryPath+"/"+id).into(t, http.StatusOK, &d)
			if d.Status != "delivered" {
				return fmt.Errorf("it is %s after %d attempts", d.Status, d.Attempts)
			}
			return nil
		})
	}
}

// kill -9 of webhook-egress amid deliveries loses none of them; a hundred times
// over with SOAK set.
func TestKillWebhookEgress(t *testing.T) {
	blows := 1
	if os.Getenv("SOAK") != "" {
		blows = 100
	}
	h := breakable.get(t)
	organization := unique("org")
	p := &producer{
		shop: h.customer(t, organization, "webhooks", "write"), to: h.receiver(),
		total: (blows + 1) * chaosBlow, accepted: map[string]bool{}, enough: make(chan struct{}, blows+1),
	}
	p.to.answers(t, object{"delay_ms": 20}) // something is on the wire whenever the blow falls

	var producers sync.WaitGroup
	failed := make(chan error, chaosProducers)
	for range chaosProducers {
		producers.Go(func() { failed <- p.run(t) })
	}
	for range blows {
		select {
		case <-p.enough:
		case <-soon():
			t.Error("too little is accepted")
		}
		if err := h.Kill(string(stack.WebhookEgress)); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context(), string(stack.WebhookEgress)); err != nil {
			t.Fatal(err)
		}
	}
	producers.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Error(err)
		}
	}
	if len(p.accepted) != p.total {
		t.Fatalf("%d deliveries have an id, want %d: an idempotency key gave two, or none", len(p.accepted), p.total)
	}

	p.allDelivered(t, h.service(stack.WebhookEgress, organization))
	times := map[string]int{}
	for _, a := range p.to.arrivals(t) {
		times[a.ID]++
	}
	twice := 0
	for id := range p.accepted {
		if times[id] == 0 {
			t.Errorf("%s never arrived", id)
		}
		twice += max(0, times[id]-1)
		delete(times, id)
	}
	if len(times) > 0 {
		t.Errorf("%d deliveries arrived that were never accepted", len(times))
	}
	if twice > blows*chaosInFlight {
		t.Errorf("%d arrived again, want %d at most: what was on the wire", twice, blows*chaosInFlight)
	}
	t.Logf("%d deliveries, %d blows, %d arrived again", p.total, blows, twice)
}

// killAmid has each client make one call after the other, kills a member when a
// quarter of them is answered, and starts it again. It tells how many were answered.
func (h *house) killAmid(t *testing.T, victim stack.Service, clients []client, calls int64) int64 {
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
	if err := h.Kill(string(victim)); err != nil {
		t.Fatal(err)
	}
	callers.Wait()
	if err := h.Restart(t.Context(), string(victim)); err != nil {
		t.Fatal(err)
	}
	return answered.Load()
}

// countAll waits until every answered call is counted, and wants no more than those
// and the ones that a kill cut short.
func (h *house) countAll(t *testing.T, organization string, answered, cut int64) (counted int64) {
	t.Helper()
	waitFor(t, patience, "the count of every answered call", func() error {
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

// kill -9 of the edge amid calls: every call that was answered is on the bill,
// once.
func TestKillEdge(t *testing.T) {
	h := breakable.get(t)
	organization := unique("org")
	ai := h.customer(t, organization, "ai", "read")
	callers := slices.Repeat([]client{ai}, 4)
	answered := h.killAmid(t, stack.Edge, callers, 80)
	// A call that was cut short may have been counted just before.
	counted := h.countAll(t, organization, answered, int64(len(callers)))

	// And the counters go on from there.
	ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	h.awaitCount(t, organization, "llm_requests", counted+1)
}

// kill -9 of the gateway amid a stream: nobody takes half an answer for a whole
// one, and the edge serves again as soon as there is a gateway.
func TestKillGateway(t *testing.T) {
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

// A terminated service finishes what it has begun.
func TestTerminateDuringAStream(t *testing.T) {
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
