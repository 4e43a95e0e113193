package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/testkit"
)

// dying loses every few results, as a replica does that ends after it has sent: their leases run out.
type dying struct {
	*postgres.Queue

	mu     sync.Mutex
	random *rand.Rand
}

func (d *dying) Settle(ctx context.Context, name channel.Name, results []dispatch.Result) ([]bool, error) {
	d.mu.Lock()
	lost := d.random.IntN(3) == 0
	d.mu.Unlock()
	if lost {
		return make([]bool, len(results)), nil
	}
	return d.Queue.Settle(ctx, name, results)
}

// screens hold what recipients see of each notification: the messages that arrived, in order.
type screens struct {
	mu     sync.Mutex
	random *rand.Rand
	shown  map[uuid.UUID][]string
	of     map[uuid.UUID]uuid.UUID
	// changed is closed when something is shown, and replaced.
	changed chan struct{}
}

// show delivers a message, refuses it once more, or delivers it without an answer.
func (s *screens) show(_ context.Context, t channel.Task) channel.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	fate := s.random.IntN(4)
	if fate == 0 {
		return channel.Retry(channel.ClassRate, 0, 0)
	}
	s.shown[s.of[t.Notification]] = append(s.shown[s.of[t.Notification]], string(t.Work))
	close(s.changed)
	s.changed = make(chan struct{})
	if fate == 1 {
		return channel.Lost(channel.ClassTimeout)
	}
	o := channel.Delivered(0)
	o.Reference = t.Notification.String()
	return o
}

// TestUpdatesArriveInOrder updates notifications while two replicas send, are refused, lose answers and die. What a
// recipient sees only ever becomes newer, and ends with the last update.
func TestUpdatesArriveInOrder(t *testing.T) {
	const notifications, updates = 12, 6
	pool := testkit.Postgres(t, migrations.FS)
	outbox, random := postgres.NewOutbox(pool), rand.New(rand.NewPCG(7, 7))
	s := &screens{random: rand.New(rand.NewPCG(1, 2)), shown: map[uuid.UUID][]string{}, of: map[uuid.UUID]uuid.UUID{}, changed: make(chan struct{})}
	for i := range uint64(2) {
		o := options(t, pool, &transport{do: s.show})
		o.Store = &dying{Queue: postgres.NewQueue(pool), random: rand.New(rand.NewPCG(i, i))}
		o.Lease, o.Policy.MaxAttempts = 300*time.Millisecond, 50
		start(t, o)
	}
	var ids []uuid.UUID
	var group errgroup.Group
	for range notifications {
		first, seed := uuid.Must(uuid.NewV7()), random.Uint64()
		ids = append(ids, first)
		group.Go(func() error { return talk(t.Context(), outbox, s, first, updates, rand.New(rand.NewPCG(seed, 1))) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		log := waitForUpdates(t, outbox, id)
		s.mu.Lock()
		shown := s.shown[id]
		s.mu.Unlock()
		last := ""
		for _, text := range shown {
			if text < last {
				t.Errorf("%s was shown after %s: %v", text, last, shown)
			}
			last = text
		}
		if end := log.Updates[updates-1]; last != fmt.Sprint(updates) || end.Status() != send.StatusDelivered {
			t.Errorf("at the end %v is shown, the last update is %s", shown, end.Status())
		}
	}
}

// await waits until a text of a notification is shown.
func (s *screens) await(ctx context.Context, first uuid.UUID, text string) error {
	for {
		s.mu.Lock()
		there, changed := slices.Contains(s.shown[first], text), s.changed
		s.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// talk accepts a notification and its updates: some at once, others when the one before is shown. Their texts are their
// numbers.
func talk(ctx context.Context, outbox *postgres.Outbox, s *screens, first uuid.UUID, updates int, random *rand.Rand) error {
	for number := range updates + 1 {
		a := acceptedUpdate(first, channel.Work{Channel: channel.Email, Body: []byte(fmt.Sprint(number)), Destination: "smtp://x"})
		accept := outbox.Update
		if number == 0 {
			a.ID, a.Message.Updates, accept = first, uuid.Nil, outbox.Accept
		}
		s.mu.Lock()
		s.of[a.ID] = first
		s.mu.Unlock()
		if _, err := accept(ctx, a); err != nil {
			return err
		}
		if random.IntN(2) == 0 {
			continue
		}
		if err := s.await(ctx, first, fmt.Sprint(number)); err != nil {
			return err
		}
	}
	return nil
}

// waitForUpdates returns the log of a notification once all of its updates have ended.
func waitForUpdates(t *testing.T, outbox *postgres.Outbox, id uuid.UUID) send.Log {
	t.Helper()
	var log send.Log
	for range 1500 {
		var err error
		if log, err = outbox.Log(t.Context(), send.LogQuery{ID: id, Organization: "acme", Limit: 1}); err != nil {
			t.Fatal(err)
		}
		pending := log.Status() == send.StatusPending
		for _, u := range log.Updates {
			pending = pending || u.Status() == send.StatusPending
		}
		if !pending {
			return log
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("updates do not end: %+v", log)
	return log
}
