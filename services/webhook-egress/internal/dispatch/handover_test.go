package dispatch_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// A replica that is taken for dead while its request is under way must not
// count what comes of it: its answer, a failure, arrives while the next lease
// is still running.
func TestLostFence(t *testing.T) {
	t.Parallel()
	arrived, first, second := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	var requests atomic.Int32
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		n := requests.Add(1)
		arrived <- struct{}{}
		if n == 1 {
			<-first
			w.WriteHeader(http.StatusGone) // would end the delivery, were it counted
			return
		}
		<-second
	})
	w := newWorld(t, r)
	slow := w.start()
	id := w.enqueue(slow, request(r))
	<-arrived
	if err := w.store.Leave(t.Context(), slow.member.ID()); err != nil {
		t.Fatal(err)
	}
	w.start()
	<-arrived
	close(first)
	until(t, "the late answer is recorded", func() bool { return len(w.attempts(id)) == 1 })
	if a, record := w.attempts(id)[0], w.get(id); a.Outcome != delivery.OutcomeLate || record.Status != delivery.StatusDelivering || record.Attempts != 0 {
		t.Errorf("after the late answer: attempt %+v, record %+v", a, record)
	}
	close(second)
	w.untilStatus(id, delivery.StatusDelivered)
	if record := w.get(id); record.Attempts != 1 || len(w.attempts(id)) != 2 || requests.Load() != 2 {
		t.Errorf("record %+v after %d requests", record, requests.Load())
	}
}

func TestTwoReplicasShareABacklog(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	for i := range 10 {
		w.leave(30, "org-"+strconv.Itoa(i), r.URL)
	}
	w.start()
	w.start()
	until(t, "the queue is empty", func() bool { return w.count("SELECT count(*) FROM delivery_queue") == 0 })
	if got := w.count("SELECT count(*) FROM deliveries WHERE status = 'delivered' AND attempts = 1"); got != 300 {
		t.Errorf("%d delivered at the first attempt, want 300", got)
	}
	if got := w.count("SELECT count(*) FROM attempts"); got != 300 {
		t.Errorf("%d attempts, want 300", got)
	}
	for id, times := range r.perDelivery() {
		if times != 1 {
			t.Errorf("delivery %s arrived %d times", id, times)
		}
	}
}

// As after kill -9: nothing was given back, the heartbeat stops.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var hang sync.Map
	r := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
		if _, again := hang.LoadOrStore(q.Header.Get("X-Webhook-Id"), true); !again {
			<-release
		}
	})
	w := newWorld(t, r)
	victim := w.start()
	var ids []delivery.ID
	for range 10 {
		ids = append(ids, w.enqueue(victim, request(r)))
	}
	until(t, "all are under way", func() bool { return r.count() == 10 })
	victim.stop()
	w.exec("UPDATE replica SET seen_at = now() - interval '1 minute'")
	w.start()
	for _, id := range ids {
		w.untilStatus(id, delivery.StatusDelivered)
	}
	close(release)
}

func TestDrainFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
	w := newWorld(t, r)
	n := w.start()
	id := w.enqueue(n, request(r))
	<-arrived
	drained := make(chan error)
	go func() { drained <- n.engine.Drain(t.Context()) }()
	until(t, "nothing new is taken", func() bool {
		other := delivery.Flow{ID: 99, Organization: "x"}
		if n.engine.Lease().Reserve(other, 1) {
			n.engine.Return(other, 1)
			return false
		}
		return true
	})
	close(release)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if got := w.get(id).Status; got != delivery.StatusDelivered {
		t.Errorf("status = %s", got)
	}
	if n := w.count("SELECT count(*) FROM replica"); n != 0 {
		t.Errorf("%d replicas still listed", n)
	}
}

func TestDrainGivesBackTheRest(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
	w := newWorld(t, r)
	n := w.start()
	id := w.enqueue(n, request(r))
	<-arrived
	hurry, cancel := context.WithTimeout(t.Context(), time.Second) // less than what is kept for giving back
	defer cancel()
	if err := n.engine.Drain(hurry); err != nil {
		t.Fatal(err)
	}
	n.stop()
	close(release)
	record := w.get(id)
	if record.Status != delivery.StatusQueued || record.Attempts != 0 || len(w.attempts(id)) != 0 {
		t.Errorf("record = %+v", record)
	}
	if n := w.count("SELECT count(*) FROM delivery_queue WHERE leased_by IS NULL AND due_at <= now()"); n != 1 {
		t.Errorf("%d rows given back, want 1", n)
	}
}
