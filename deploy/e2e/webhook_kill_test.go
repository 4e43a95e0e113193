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

// The tests here kill what runs, one after the other: none is parallel.

const (
	// chaosBlow is how many deliveries are accepted between two blows.
	chaosBlow = 500
	// Together they enqueue 400 a second at most.
	chaosProducers = 16
	chaosInterval  = 40 * time.Millisecond
	// chaosInFlight is what webhook-egress has on the wire or unsettled at most: what
	// may arrive twice when it dies. Of three replicas each may have more, so that two
	// keep up on a busy machine.
	chaosInFlight, egressInFlight = 32, 128
	// takeover is how long a dead replica's deliveries may wait for another: it is
	// struck off after three seconds, by a look each second, and the machine is busy.
	takeover = 20 * time.Second
)

// producers enqueue deliveries as careful customers do: each with an idempotency
// key, and again, elsewhere if there is an elsewhere, until there is an answer.
type producers struct {
	shops []client
	route string
	to    receiver
	keys  atomic.Int64 // used so far
	end   context.CancelFunc
	done  sync.WaitGroup

	mu       sync.Mutex
	accepted map[string]bool
	enough   chan struct{} // told when so many more are accepted that it is time for a blow
}

func produce(t *testing.T, to receiver, route string, shops ...client) *producers {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	p := &producers{shops: shops, route: route, to: to, end: end, accepted: map[string]bool{}, enough: make(chan struct{}, 1)}
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
	err := await(t.Context(), patience, func() error {
		a, err := p.shops[*try%len(p.shops)].try(t, http.MethodPost, p.route, p.to.deliver(object{"idempotency_key": key}))
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

// note keeps the id of an accepted delivery.
func (p *producers) note(answer []byte) error {
	var got accepted
	if err := json.Unmarshal(answer, &got); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted[got.ID] = true
	if len(p.accepted)%chaosBlow == 0 {
		select {
		case p.enough <- struct{}{}:
		default:
		}
	}
	return nil
}

// awaitEnough waits until it is time for a blow.
func (p *producers) awaitEnough(t *testing.T) {
	t.Helper()
	select {
	case <-p.enough:
	case <-soon():
		t.Fatal("too little is accepted")
	}
}

// finish ends the producers and compares what they were told with what came of it.
func (p *producers) finish(t *testing.T, webhooks client, blows, inFlight int) {
	t.Helper()
	p.end()
	p.done.Wait()
	if len(p.accepted) != int(p.keys.Load()) {
		t.Fatalf("%d deliveries have an id, want %d: an idempotency key gave two, or none", len(p.accepted), p.keys.Load())
	}
	// What the blows have held up goes to one target, whose share of the few slots
	// is eight: time for 100 a second.
	deadline := time.Now().Add(patience + time.Duration(len(p.accepted))*10*time.Millisecond)
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
	if twice > blows*inFlight {
		t.Errorf("%d arrived again, want %d at most: what was on the wire", twice, blows*inFlight)
	}
	t.Logf("%d deliveries, %d blows, %d arrived again", len(p.accepted), blows, twice)
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

// wantOneResult looks at a delivery that arrived more than once: the fence lets one
// attempt count, and any other that was recorded is late.
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

// often is how many times to strike: a few, or many with SOAK set.
func often(few, many int) int {
	if os.Getenv("SOAK") != "" {
		return many
	}
	return few
}

// kill -9 of webhook-egress amid deliveries loses none of them; a hundred times
// over with SOAK set.
func TestKillWebhookEgress(t *testing.T) {
	blows := often(1, 100)
	h := breakable.get(t)
	organization, to := unique("org"), h.receiver()
	to.answers(t, object{"delay_ms": 20}) // something is on the wire whenever the blow falls
	p := produce(t, to, deliveryRoute, h.customer(t, organization, "webhooks", "write"))
	for range blows {
		p.awaitEnough(t)
		if err := h.Kill(string(stack.WebhookEgress)); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context(), string(stack.WebhookEgress)); err != nil {
			t.Fatal(err)
		}
	}
	p.awaitEnough(t)
	p.finish(t, h.service(stack.WebhookEgress, organization), blows, chaosInFlight)
}

// Of three replicas on one database, one after the other is killed with -9 under
// load, and stays dead until the others have delivered all that had been accepted:
// what it held too. With SOAK set for many rounds.
func TestKillReplicasOfWebhookEgress(t *testing.T) {
	rounds := often(1, 20)
	h := threeEgresses.get(t)
	organization, to := unique("org"), h.receiver()
	to.answers(t, object{"delay_ms": 20})
	var members []string
	var shops []client
	for n := 1; n <= egresses; n++ {
		members = append(members, member(stack.WebhookEgress, n))
		shops = append(shops, h.service(stack.Service(members[n-1]), organization))
	}
	p := produce(t, to, deliveryPath, shops...)
	var slowest time.Duration
	last := time.Now()
	for blow := range rounds * egresses {
		victim, survivor := blow%egresses, (blow+1)%egresses
		p.awaitEnough(t)
		if err := h.Kill(members[victim]); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		p.awaitNoneLeft(t, shops[survivor], last, began)
		slowest, last = max(slowest, time.Since(began)), began
		if err := h.Restart(t.Context(), members[victim]); err != nil {
			t.Fatal(err)
		}
	}
	p.finish(t, shops[0], rounds*egresses, egressInFlight)
	t.Logf("what a dead replica held was delivered after %s at most", slowest.Round(time.Millisecond))
}
