package queuetest

import (
	"cmp"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
)

// Update accepts an update of a notification and returns it.
func (m *Memory) Update(of uuid.UUID) uuid.UUID {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var first *row
	for _, r := range m.rows {
		if r.Notification == of {
			first = r
		}
	}
	chain := m.chain(first)
	update := &row{channel: first.channel, due: now, number: len(chain), Leased: first.Leased}
	update.ID, update.Notification, update.Updates = int64(len(m.rows)+1), uuid.Must(uuid.NewV7()), &of
	update.Attempts, update.Fence, update.Doubtful, update.DeliveryID = 0, 0, false, ""
	for _, r := range chain {
		switch {
		case r.end.Ended:
		case r.sending || r.DeliveryID != "":
			update.after, update.due = r, r.due
		default:
			r.end = channel.Step{Ended: true}
		}
		update.Doubtful = update.Doubtful || r.end.Ended && !r.end.Delivered && r.Doubtful && first.reference == ""
	}
	m.rows = append(m.rows, update)
	return update.Notification
}

// chain returns the messages of the notification that a row belongs to, oldest first.
func (m *Memory) chain(of *row) []*row {
	var all []*row
	for _, r := range m.rows {
		if firstOf(r) == firstOf(of) {
			all = append(all, r)
		}
	}
	return all
}

func firstOf(r *row) uuid.UUID {
	if r.Updates != nil {
		return *r.Updates
	}
	return r.Notification
}

// describe sets what a lease says about the other messages of a notification.
func (m *Memory) describe(r *row) {
	chain := m.chain(r)
	r.Superseded, r.Held = chain[len(chain)-1] != r, false
	if r.Updates != nil {
		r.Reference = chain[0].reference
	}
	if r.after != nil {
		r.Held = !r.after.end.Ended
		r.Doubtful = r.Doubtful || r.after.end.Ended && !r.after.end.Delivered && r.after.Doubtful
	}
}

// follow stores where a settled message is, and makes due what waited for it. It reports whether it has ended the message
// as superseded.
func (m *Memory) follow(r *row) (superseded bool) {
	chain := m.chain(r)
	for _, t := range r.tries {
		r.reference = cmp.Or(r.reference, t.Outcome.Reference)
		chain[0].reference = cmp.Or(chain[0].reference, t.Outcome.Reference)
	}
	if !r.end.Ended && r.DeliveryID == "" && chain[len(chain)-1] != r {
		r.end, superseded = channel.Step{Ended: true}, true
	}
	for _, other := range chain {
		if r.end.Ended && other.after == r && !other.sending && !other.end.Ended {
			other.due = m.now()
		}
	}
	return superseded
}

// sent is the result of a message that arrived at ref.
func sent(l dispatch.Leased, ref string) dispatch.Result {
	o := channel.Delivered(0)
	o.Reference = ref
	try := dispatch.Try{Number: 1, Outcome: o, StartedAt: time.Now()}
	return dispatch.Result{Leased: l, Step: channel.Step{Ended: true, Delivered: true}, Attempts: 1, Tries: []dispatch.Try{try}}
}

// only takes the only due recipient, which must be that of a notification.
func (q Queue) only(t *testing.T, id uuid.UUID) dispatch.Leased {
	t.Helper()
	l := q.one(t)
	if l.Notification != id || l.Held || l.Superseded {
		t.Fatalf("took %+v, want %s to be sent", l, id)
	}
	return l
}

func (q Queue) none(t *testing.T) {
	t.Helper()
	if taken := q.take(t, 5); len(taken) != 0 {
		t.Errorf("taken: %+v", taken)
	}
}

// unsentSuperseded checks that an update goes instead of what was not sent, and as the first message.
func unsentSuperseded(t *testing.T, q Queue) {
	t.Helper()
	first := q.Add(t, channel.Email, "")
	one := q.Update(t, first)
	two := q.Update(t, first)
	l := q.only(t, two)
	if l.Updates == nil || *l.Updates != first || l.Reference != "" || l.Doubtful {
		t.Errorf("%s and %s: taken %+v", first, one, l)
	}
	q.settle(t, sent(l, "place"))
	q.Pass(t, 2*lease)
	q.none(t)
	if l = q.only(t, q.Update(t, first)); l.Reference != "place" {
		t.Errorf("the next update does not know where the message is: %+v", l)
	}
}

// updateWaits checks that an update waits for the message that is being sent, and that the last one wins.
func updateWaits(t *testing.T, q Queue) {
	t.Helper()
	first := q.Add(t, channel.Email, "")
	l := q.one(t)
	_ = q.Update(t, first)
	last := q.Update(t, first)
	q.none(t)
	q.settle(t, sent(l, "place"))
	if l = q.only(t, last); l.Reference != "place" || l.Doubtful {
		t.Errorf("taken %+v", l)
	}
	q.settle(t, sent(l, ""))
	q.Pass(t, 2*lease)
	q.none(t)
}

// refusedSuperseded checks that a message is not tried again once it has an update, which may be a duplicate if the
// message may have arrived.
func refusedSuperseded(t *testing.T, q Queue) {
	t.Helper()
	first := q.Add(t, channel.Email, "")
	l := q.one(t)
	update := q.Update(t, first)
	results := []dispatch.Result{{Leased: l, Step: channel.Step{Delay: time.Second}, Attempts: 1, Doubtful: true}}
	if _, err := q.Settle(t.Context(), channel.Email, results); err != nil || !results[0].Superseded || !results[0].Step.Ended {
		t.Errorf("settled %+v, %v", results[0], err)
	}
	if l = q.only(t, update); !l.Doubtful {
		t.Errorf("taken %+v", l)
	}
	q.settle(t, sent(l, "place"))
	q.Pass(t, 2*lease)
	q.none(t)
}

// lostSuperseded checks that the message of a sender that was lost is known as superseded, and that its update is held
// until that is settled.
func lostSuperseded(t *testing.T, q Queue) {
	t.Helper()
	first := q.Add(t, channel.Email, "")
	q.one(t)
	update := q.Update(t, first)
	q.Pass(t, lease+time.Second)
	var lost, held dispatch.Leased
	for _, l := range q.take(t, 5) {
		if l.Notification == first {
			lost = l
		} else {
			held = l
		}
	}
	if !lost.Lost || !lost.Superseded || held.Notification != update || !held.Held {
		t.Fatalf("taken %+v and %+v", lost, held)
	}
	q.settle(t, dispatch.Result{Leased: held, Step: channel.Step{Delay: time.Second}})
	q.settle(t, dispatch.Result{Leased: lost, Step: channel.Step{Ended: true}, Superseded: true, Attempts: 1, Doubtful: true})
	if l := q.only(t, update); !l.Doubtful || l.Attempts != 0 {
		t.Errorf("taken %+v", l)
	}
}

// handedStays checks that what another service delivers is followed to its end before the update.
func handedStays(t *testing.T, q Queue) {
	t.Helper()
	first := q.Add(t, channel.Email, "")
	q.settle(t, dispatch.Result{Leased: q.one(t), Step: channel.Step{Delay: 10 * time.Second}, DeliveryID: "dlv"})
	update := q.Update(t, first)
	q.none(t)
	q.Pass(t, 10*time.Second)
	for _, l := range q.take(t, 5) {
		if l.Notification == first {
			q.settle(t, sent(l, ""))
		} else if !l.Held {
			t.Errorf("taken %+v", l)
		}
	}
	q.Pass(t, lease+time.Second)
	if l := q.one(t); l.Notification != update || l.Held {
		t.Errorf("taken %+v", l)
	}
}
