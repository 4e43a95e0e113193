//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

const (
	// chaosBatch is how many deliveries are accepted between two kills.
	chaosBatch = 500
	// Together they enqueue 400 a second at most.
	chaosProducers = 16
	chaosInterval  = 40 * time.Millisecond
	// chaosInFlight is the maximum of deliveries that webhook-egress has sent or not settled yet: those may arrive twice
	// when it is killed. Each of three replicas may have more (egressInFlight), so that two of them keep up on a busy
	// machine.
	chaosInFlight, egressInFlight = 32, 128
	// takeover is how long a dead replica's deliveries may wait for another replica: the others notice its death after
	// three seconds, by a check each second, and the machine is busy.
	takeover = 20 * time.Second
)

// producers enqueue deliveries as a careful customer does: each with an idempotency key, and again until there is an
// answer, at another replica where there is one.
type producers struct {
	clients []client
	route   string
	to      receiver
	keys    atomic.Int64 // used so far
	end     context.CancelFunc
	done    sync.WaitGroup

	mu       sync.Mutex
	accepted map[string]bool
	enough   chan struct{} // receives a value each time chaosBatch more are accepted
}

func produce(t *testing.T, to receiver, route string, clients ...client) *producers {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	p := &producers{clients: clients, route: route, to: to, end: end, accepted: map[string]bool{}, enough: make(chan struct{}, 1)}
	t.Cleanup(p.done.Wait)
	for n := range chaosProducers {
		p.done.Go(func() {
			ticker := time.NewTicker(chaosInterval)
			defer ticker.Stop()
			for try := n; ctx.Err() == nil; <-ticker.C {
				if err := p.enqueue(t, &try, fmt.Sprint("delivery-", p.keys.Add(1))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return p
}

func (p *producers) enqueue(t *testing.T, try *int, key string) error {
	t.Helper()
	var refusal error // that is final
	err := await(t.Context(), waitTimeout, func() error {
		a, err := p.clients[*try%len(p.clients)].try(t, http.MethodPost, p.route, p.to.deliver(object{"idempotency_key": key}))
		switch {
		case err != nil:
			*try++
			return err
		case a.status == http.StatusAccepted || a.status == http.StatusOK:
			refusal = p.note(a.body)
			return nil
		}
		err = fmt.Errorf("%s: answered %d: %s", key, a.status, shorten(a.body))
		if a.status >= http.StatusInternalServerError {
			*try++
			return err // While the service is away, the edge answers 502 or 503.
		}
		refusal = err
		return nil
	})
	return errors.Join(err, refusal)
}

// note records the id of an accepted delivery.
func (p *producers) note(answer []byte) error {
	var got accepted
	if err := json.Unmarshal(answer, &got); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted[got.ID] = true
	if len(p.accepted)%chaosBatch == 0 {
		select {
		case p.enough <- struct{}{}:
		default:
		}
	}
	return nil
}

// awaitEnough waits until enough deliveries are accepted for the next kill.
func (p *producers) awaitEnough(t *testing.T) {
	t.Helper()
	select {
	case <-p.enough:
	case <-soon():
		t.Fatal("too little is accepted")
	}
}

// finish stops the producers and compares the answers that they got with the deliveries that arrived.
func (p *producers) finish(t *testing.T, webhooks client, kills, inFlight int) {
	t.Helper()
	p.end()
	p.done.Wait()
	if len(p.accepted) != int(p.keys.Load()) {
		t.Fatalf("%d deliveries have an id, want %d: an idempotency key gave two, or none", len(p.accepted), p.keys.Load())
	}
	// The deliveries that the kills delayed go to one target, whose share of the few slots is eight: time for 100 a
	// second.
	deadline := time.Now().Add(waitTimeout + time.Duration(len(p.accepted))*10*time.Millisecond)
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
	times := map[string]int{}
	for _, a := range p.to.arrivals(t) {
		times[a.ID]++
	}
	twice := 0
	for id := range p.accepted {
		switch times[id] {
		case 0:
			t.Errorf("%s never arrived", id)
		case 1:
		default:
			twice += times[id] - 1
			wantOneResult(t, webhooks, id)
		}
		delete(times, id)
	}
	if len(times) > 0 {
		t.Errorf("%d deliveries arrived that were never accepted", len(times))
	}
	if twice > kills*inFlight {
		t.Errorf("%d arrived again, want at most %d, which were in flight", twice, kills*inFlight)
	}
	t.Logf("%d deliveries, %d kills, %d arrived again", len(p.accepted), kills, twice)
}

// awaitNoneLeft waits until all that was accepted between two moments has been delivered.
func (p *producers) awaitNoneLeft(t *testing.T, webhooks client, from, to time.Time) {
	t.Helper()
	query := url.Values{
		"status":        {"queued", "delivering", "retrying"},
		"created_after": {from.UTC().Format(time.RFC3339Nano)}, "created_before": {to.UTC().Format(time.RFC3339Nano)},
	}
	waitFor(t, takeover, "the others to take over", func() error {
		var page struct {
			Deliveries []delivery `json:"deliveries"`
		}
		webhooks.get(t, deliveryPath+"?"+query.Encode()).into(t, http.StatusOK, &page)
		if len(page.Deliveries) > 0 {
			return fmt.Errorf("%d and more are left, as %s", len(page.Deliveries), page.Deliveries[0].ID)
		}
		return nil
	})
}

// wantOneResult checks a delivery that arrived more than once: the fence lets one attempt count, and any other that was
// recorded is late.
func wantOneResult(t *testing.T, webhooks client, id string) {
	t.Helper()
	var d delivery
	webhooks.get(t, deliveryPath+"/"+id).into(t, http.StatusOK, &d)
	counted := 0
	for _, a := range attempts(t, webhooks, id) {
		if a.Outcome != "late" {
			counted++
		}
	}
	if counted != 1 || d.Attempts != 1 {
		t.Errorf("%s: %d attempts count, its record says %d, want 1", id, counted, d.Attempts)
	}
}

// repeats returns how many kills or rounds a test has: few, or many with SOAK set.
func repeats(few, many int) int {
	if os.Getenv("SOAK") != "" {
		return many
	}
	return few
}

// kill -9 of webhook-egress loses no delivery; with SOAK set it is killed a hundred times.
func TestKillWebhookEgress(t *testing.T) {
	t.Parallel()
	kills := repeats(1, 100)
	h := breakable.get(t)
	organization, to := unique("org"), h.receiver()
	to.answers(t, object{"delay_ms": 20}) // deliveries are in flight at each kill
	p := produce(t, to, deliveryRoute, h.customer(t, organization, "webhooks", "write"))
	for range kills {
		p.awaitEnough(t)
		if err := h.Kill(string(stack.WebhookEgress)); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context(), string(stack.WebhookEgress)); err != nil {
			t.Fatal(err)
		}
	}
	p.awaitEnough(t)
	p.finish(t, h.service(stack.WebhookEgress, organization), kills, chaosInFlight)
}

// Three replicas on one database are killed with -9 under load, one after the other. Each stays dead until the others
// have delivered everything that was accepted, also what the dead one held. With SOAK set there are many rounds.
func TestKillReplicasOfWebhookEgress(t *testing.T) {
	t.Parallel()
	rounds := repeats(1, 20)
	h := threeEgresses.get(t)
	organization, to := unique("org"), h.receiver()
	to.answers(t, object{"delay_ms": 20})
	var members []string
	var clients []client
	for n := 1; n <= egresses; n++ {
		members = append(members, member(stack.WebhookEgress, n))
		clients = append(clients, h.service(stack.Service(members[n-1]), organization))
	}
	p := produce(t, to, deliveryPath, clients...)
	var slowest time.Duration
	last := time.Now()
	for round := range rounds * egresses {
		killed, remaining := round%egresses, (round+1)%egresses
		p.awaitEnough(t)
		if err := h.Kill(members[killed]); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		p.awaitNoneLeft(t, clients[remaining], last, began)
		slowest, last = max(slowest, time.Since(began)), began
		if err := h.Restart(t.Context(), members[killed]); err != nil {
			t.Fatal(err)
		}
	}
	p.finish(t, clients[0], rounds*egresses, egressInFlight)
	t.Logf("what a dead replica held was delivered after %s at most", slowest.Round(time.Millisecond))
}
