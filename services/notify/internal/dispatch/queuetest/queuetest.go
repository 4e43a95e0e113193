// Package queuetest tests the contract of dispatch.Store and holds an in-memory store that fulfils it. It is for
// tests only: those of package dispatch use the in-memory store, those of internal/postgres run the suite over the
// real one.
package queuetest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
)

// Queue is a store under test, empty at the beginning.
type Queue struct {
	dispatch.Store

	// Add queues a recipient that is due now, in a lane or in none.
	Add func(t *testing.T, name channel.Name, lane string) uuid.UUID
	// Update accepts an update of a notification.
	Update func(t *testing.T, of uuid.UUID) uuid.UUID
	// Pass advances the store's clock.
	Pass func(t *testing.T, d time.Duration)
}

// lease is that of the suite's claims.
const lease = time.Minute

// Conform runs the suite; open returns a new queue.
func Conform(t *testing.T, open func(t *testing.T) Queue) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Queue){
		"the longest due first": longestDueFirst, "a lease is exclusive": exclusive, "a lease that ran out": lapsed,
		"a result is kept": kept, "an end is an end": ended, "channels are apart": apart, "takers share": shared,
		"an organization is passed over":               passedOver,
		"an update goes instead of what was not sent":  unsentSuperseded,
		"an update waits for what is being sent":       updateWaits,
		"what was refused is not sent after an update": refusedSuperseded,
		"nor what a lost sender had":                   lostSuperseded,
		"what was handed over comes first":             handedStays,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func (q Queue) take(t *testing.T, count int) []dispatch.Leased {
	t.Helper()
	taken, err := q.Take(t.Context(), dispatch.Claim{Channel: channel.Email, Count: count, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// one takes the only due recipient.
func (q Queue) one(t *testing.T) dispatch.Leased {
	t.Helper()
	taken := q.take(t, 2)
	if len(taken) != 1 {
		t.Fatalf("took %d, want one: %+v", len(taken), taken)
	}
	return taken[0]
}

func (q Queue) settle(t *testing.T, r dispatch.Result) (held bool) {
	t.Helper()
	all, err := q.Settle(t.Context(), channel.Email, []dispatch.Result{r})
	if err != nil || len(all) != 1 {
		t.Fatalf("settled %v, %v", all, err)
	}
	return all[0]
}

// nextDue checks that the next recipient is due in about d.
func (q Queue) nextDue(t *testing.T, d time.Duration) {
	t.Helper()
	const about = 10 * time.Second // a real database takes time
	next, err := q.NextDue(t.Context(), channel.Email)
	if err != nil || next > d || next < d-about {
		t.Errorf("the next is due in %v, %v; want %v", next, err, d)
	}
}

func longestDueFirst(t *testing.T, q Queue) {
	t.Helper()
	var want []uuid.UUID
	for range 3 {
		want = append(want, q.Add(t, channel.Email, ""))
		q.Pass(t, time.Second)
	}
	for i, l := range append(q.take(t, 2), q.take(t, 2)...) {
		if i >= len(want) || l.Notification != want[i] {
			t.Errorf("number %d is %s, want the order of %v", i+1, l.Notification, want)
		}
	}
}

func exclusive(t *testing.T, q Queue) {
	t.Helper()
	id := q.Add(t, channel.Email, "lane")
	l := q.one(t)
	want := l
	want.Notification, want.Organization, want.Lane, want.Sealed = id, "acme", "lane", []byte("work")
	want.Attempts, want.Lost, want.Granted, want.Doubtful = 0, false, false, false
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if l.Destination == "" {
		t.Error("it has no destination")
	}
	if !l.Deadline.After(l.AcceptedAt) {
		t.Errorf("the deadline %s is not after %s", l.Deadline, l.AcceptedAt)
	}
	if again := q.take(t, 2); len(again) != 0 {
		t.Errorf("taken twice: %+v", again)
	}
	q.nextDue(t, lease)
}

// lapsed checks that only the latest holder of a lease may settle.
func lapsed(t *testing.T, q Queue) {
	t.Helper()
	q.Add(t, channel.Email, "")
	first := q.one(t)
	q.Pass(t, lease+time.Second)
	second := q.one(t)
	if !second.Lost || second.Fence <= first.Fence {
		t.Errorf("first %+v, then %+v", first, second)
	}
	end := channel.Step{Ended: true, Delivered: true}
	if q.settle(t, dispatch.Result{Leased: first, Step: end, Attempts: 1}) {
		t.Error("the first holder settled")
	}
	if !q.settle(t, dispatch.Result{Leased: second, Step: end, Attempts: 1}) {
		t.Error("the second holder could not settle")
	}
	if q.settle(t, dispatch.Result{Leased: second, Step: end, Attempts: 1}) {
		t.Error("it settled twice")
	}
}

func kept(t *testing.T, q Queue) {
	t.Helper()
	q.Add(t, channel.Email, "lane")
	l := q.one(t)
	try := dispatch.Try{Number: 1, Outcome: channel.Lost(channel.ClassTimeout), StartedAt: time.Now(), Took: time.Millisecond}
	held := q.settle(t, dispatch.Result{
		Leased: l, Step: channel.Step{Delay: 30 * time.Second}, Attempts: 1, Doubtful: true, Granted: true, DeliveryID: "dlv", Tries: []dispatch.Try{try},
	})
	if !held {
		t.Error("not settled")
	}
	q.nextDue(t, 30*time.Second)
	if early := q.take(t, 1); len(early) != 0 {
		t.Errorf("taken before its time: %+v", early)
	}
	const late = 2 * time.Second
	q.Pass(t, 30*time.Second+late)
	l = q.one(t)
	want := l
	want.Attempts, want.Doubtful, want.Granted, want.DeliveryID, want.Lost = 1, true, true, "dlv", false
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if l.Late < late {
		t.Errorf("late by %s, want %s or more", l.Late, late)
	}
	q.settle(t, dispatch.Result{Leased: l, Attempts: 1}) // at once, and without a delivery id, so that the old one remains
	if l = q.one(t); l.DeliveryID != "dlv" || l.Granted || l.Doubtful {
		t.Errorf("taken %+v", l)
	}
}

func ended(t *testing.T, q Queue) {
	t.Helper()
	q.Add(t, channel.Email, "")
	q.settle(t, dispatch.Result{Leased: q.one(t), Step: channel.Step{Ended: true}, Attempts: 1})
	q.Pass(t, 2*lease)
	if left := q.take(t, 1); len(left) != 0 {
		t.Errorf("taken after its end: %+v", left)
	}
	q.nextDue(t, time.Hour)
}

func apart(t *testing.T, q Queue) {
	t.Helper()
	q.Add(t, channel.Slack, "")
	if taken := q.take(t, 1); len(taken) != 0 {
		t.Errorf("taken of another channel: %+v", taken)
	}
	q.nextDue(t, time.Hour)
}

func shared(t *testing.T, q Queue) {
	t.Helper()
	const recipients = 20
	for range recipients {
		q.Add(t, channel.Email, "")
	}
	var mu sync.Mutex
	seen := map[int64]int{}
	var takers sync.WaitGroup
	for range 4 {
		takers.Go(func() {
			for range recipients {
				taken, err := q.Take(t.Context(), dispatch.Claim{Channel: channel.Email, Count: 3, Lease: lease})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, l := range taken {
					seen[l.ID]++
				}
				mu.Unlock()
			}
		})
	}
	takers.Wait()
	for id, n := range seen {
		if n > 1 {
			t.Errorf("%d was taken %d times", id, n)
		}
	}
	if len(seen) != recipients {
		t.Errorf("%d of %d were taken", len(seen), recipients)
	}
}

// passedOver checks that skipped recipients stay unchanged and do not block others.
func passedOver(t *testing.T, q Queue) {
	t.Helper()
	q.Add(t, channel.Email, "")
	all, err := q.Take(t.Context(), dispatch.Claim{Channel: channel.Email, Count: 1, Lease: lease, PassOver: []string{"acme", "other"}})
	if err != nil || len(all) != 0 {
		t.Errorf("took %d of an organization that is passed over (%v), want none", len(all), err)
	}
	all, err = q.Take(t.Context(), dispatch.Claim{Channel: channel.Email, Count: 1, Lease: lease, PassOver: []string{"other"}})
	if err != nil || len(all) != 1 {
		t.Errorf("took %d while another organization is passed over (%v), want one", len(all), err)
	}
}
