package dispatch_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// flaky is a target that fails until it is mended, and notes what it got when.
type flaky struct {
	*receiver

	mended   atomic.Bool
	inFlight atomic.Int32
	most     atomic.Int32
}

func newFlaky(t *testing.T) *flaky {
	t.Helper()
	f := &flaky{}
	f.receiver = newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		n := f.inFlight.Add(1)
		defer f.inFlight.Add(-1)
		for most := f.most.Load(); n > most && !f.most.CompareAndSwap(most, n); {
			most = f.most.Load()
		}
		if !f.mended.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return f
}

// broken opens the breaker of the target on a world of its own.
func broken(t *testing.T, shared bool) (*world, *flaky, *node) {
	t.Helper()
	target := newFlaky(t)
	w := newWorld(t, target.receiver)
	if shared {
		client := testkit.Redis(t)
		w.breakers, w.rates = redisdb.NewKV(client, "breaker"), redisdb.NewKV(client, "rate")
	}
	w.breaker.Failures, w.breaker.Pause, w.breaker.MaxPause = 3, 300*time.Millisecond, time.Minute
	n := w.start()
	w.enqueue(n, request(target.receiver))
	until(t, "the breaker opens", func() bool {
		return w.count("SELECT count(*) FROM flow WHERE state = 'open' AND parked_reason = 'breaker_open' AND opened > 0") == 1
	})
	return w, target, n
}

// An open breaker holds every delivery of its target back and uses up no attempt.
// One delivery tries it; when the target is well again all arrive, a few at first.
func TestBreaker(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"alone": false, "with Redis": true} {
		t.Run(name, func(t *testing.T) {
			w, target, n := broken(t, shared)
			second := w.start()
			var ids []delivery.ID
			for i := range 40 {
				ids = append(ids, w.enqueue([]*node{n, second}[i%2], request(target.receiver)))
			}
			failedBefore := target.count()
			until(t, "two tries have failed", func() bool { return target.count() >= failedBefore+2 })
			for _, id := range ids[5:] {
				if record := w.get(id); record.Attempts > 1 || record.Status.Ended() {
					t.Errorf("record %+v behind an open breaker", record)
				}
			}
			until(t, "the last delivery waits for the breaker", func() bool { // Not while another one tries the target.
				waiting := w.get(ids[39])
				return waiting.LastError == "breaker_open" && !waiting.NextAttempt.IsZero()
			})
			if made := w.count("SELECT count(*) FROM attempts"); made > 12 {
				t.Errorf("%d attempts at a target that is down", made)
			}
			target.most.Store(0)
			target.mended.Store(true)
			for _, id := range ids {
				w.untilStatus(id, delivery.StatusDelivered)
			}
			until(t, "the flow is closed", func() bool {
				return w.count("SELECT count(*) FROM flow WHERE state = 'closed' AND opened = 0 AND parked_until = '-infinity'") == 1
			})
			if shared && target.most.Load() > 16 {
				t.Errorf("%d at once while the target recovers", target.most.Load())
			}
			for id, times := range target.perDelivery() {
				record := w.count("SELECT attempts FROM deliveries WHERE id = $1", id)
				if record != times {
					t.Errorf("%s: %d requests, %d attempts", id, times, record)
				}
			}
		})
	}
}

// Another organization's deliveries to the same target, and this one's to another
// target, go on.
func TestBreakerIsOfOneTargetOfOneOrganization(t *testing.T) {
	t.Parallel()
	other := newReceiver(t, nil)
	target := newFlaky(t)
	w := newWorld(t, target.receiver, other)
	w.breaker.Failures, w.breaker.Pause = 3, time.Hour
	n := w.start()
	first := w.enqueue(n, request(target.receiver))
	until(t, "the breaker opens", func() bool { return w.get(first).LastError == "breaker_open" })
	target.mended.Store(true)
	q := request(target.receiver)
	q.Organization = "globex"
	globex := w.enqueue(n, q)
	w.untilStatus(w.enqueue(n, request(other)), delivery.StatusDelivered)
	until(t, "the other organization's arrives", func() bool {
		record, err := w.store.Get(t.Context(), "globex", "", globex, false)
		return err == nil && record.Status == delivery.StatusDelivered
	})
	if status := w.get(first).Status; status.Ended() {
		t.Errorf("%s behind an open breaker", status)
	}
}

// Retry-After makes the pause longer and is stored with the attempt, however short the credentials are that its stored
// text must not contain.
func TestRetryAfterLengthensThePause(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]map[string]string{
		"no credential":        nil,
		"long credential":      {"X-Api-Key": "a-long-secret-0123456789"},
		"short credential":     {"X-Api-Key": "s3cret"},
		"one-digit credential": {"Authorization": "7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1800")
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			s := newSubscriber(t, r)
			s.breaker.Failures, s.breaker.Pause, s.breaker.MaxPause = 3, time.Second, time.Hour
			n := s.start()
			for range 3 {
				q := request(r)
				q.Headers = header
				s.enqueue(n, q)
			}
			until(t, "the circuit opens", func() bool {
				return s.count("SELECT count(*) FROM flow WHERE parked_reason = 'breaker_open'") == 1
			})
			if left := s.count("SELECT extract(epoch FROM parked_until - now())::int FROM flow"); left < 1700 {
				t.Errorf("parked for %d s, want the 1800 s of Retry-After", left)
			}
			if n := s.count("SELECT count(*) FROM attempts WHERE retry_after IS DISTINCT FROM '1800'"); n > 0 {
				t.Errorf("%d attempts without their Retry-After", n)
			}
		})
	}
}

// A replica that starts while Redis knows nothing finds the breaker in the flow
// row, and how often it has opened.
func TestBreakerOutlivesItsReplicas(t *testing.T) {
	t.Parallel()
	w, target, n := broken(t, false)
	n.stop()
	w.exec("UPDATE flow SET parked_until = now() + interval '1 second', ready_at = now() + interval '1 second', opened = 4")
	before := target.count()
	w.start()
	until(t, "one try is made", func() bool { return target.count() == before+1 })
	until(t, "it opens for longer", func() bool { return w.count("SELECT opened FROM flow") == 5 })
	if n := w.count("SELECT extract(epoch FROM parked_until - now())::int FROM flow"); n < 3 {
		t.Errorf("parked for %d s after five openings in a row", n)
	}
}

// Answers about the delivery, not the target, open nothing.
func TestRefusalsOpenNothing(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	w := newWorld(t, r)
	w.breaker.Failures = 2
	q := request(r)
	q.MaxAttempts = new(8)
	id := w.enqueue(w.start(), q)
	w.untilStatus(id, delivery.StatusFailed)
	if got := len(w.attempts(id)); got != 8 {
		t.Errorf("%d attempts, want 8", got)
	}
}

// A limited flow lets its deliveries out one by one, over both replicas.
func TestRateOfAFlow(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	client := testkit.Redis(t)
	w.rates = redisdb.NewKV(client, "rate")
	w.leave(12, "acme", r.URL)
	w.exec("UPDATE flow SET rate_per_second = 20")
	began := time.Now()
	w.start()
	w.start()
	until(t, "all have arrived", func() bool { return r.count() == 12 })
	if took := time.Since(began); took < 450*time.Millisecond {
		t.Errorf("12 deliveries at 20 a second took %s", took)
	}
	if times := r.perDelivery(); len(times) != 12 {
		t.Errorf("%d deliveries arrived", len(times))
	}
}

// If a host answers every request with an error, both of its two flows (here two endpoints) are parked, and later
// released.
func TestFlowsOfAHostThatAllFail(t *testing.T) {
	t.Parallel()
	target := newFlaky(t)
	w := newWorld(t, target.receiver)
	w.breaker.Failures, w.breaker.Pause = 3, 200*time.Millisecond
	w.leave(10, "acme", target.URL)
	w.exec("UPDATE flow SET endpoint_id = gen_random_uuid()")
	w.leave(10, "acme", target.URL)
	if n := w.count("SELECT count(*) FROM flow"); n != 2 {
		t.Fatalf("%d flows", n)
	}
	w.start()
	until(t, "both are parked", func() bool {
		return w.count("SELECT count(*) FROM flow WHERE parked_reason = 'breaker_open' AND NOT parked_by_host") == 2
	})
	target.mended.Store(true)
	until(t, "both are let out", func() bool { return w.count("SELECT count(*) FROM delivery_queue") == 0 })
	arrived := slices.Collect(func(yield func(int) bool) {
		for _, n := range target.perDelivery() {
			if !yield(n) {
				return
			}
		}
	})
	if len(arrived) != 20 {
		t.Errorf("%d deliveries arrived", len(arrived))
	}
}
