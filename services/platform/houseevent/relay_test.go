package houseevent_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outbox holds events in memory, and is webhook-egress, too.
type outbox struct {
	mu       sync.Mutex
	events   []houseevent.Event
	due      map[string]time.Time
	sent     []string
	received []string // organization and ID
	away     bool
	given    int
	purged   int
}

func newOutbox(events ...houseevent.Event) *outbox {
	return &outbox{events: events, due: map[string]time.Time{}}
}

func (o *outbox) with(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	do()
}

func (o *outbox) Take(_ context.Context, limit int, lease time.Duration) (taken []houseevent.Event, err error) {
	o.with(func() {
		for i := range o.events {
			if e := &o.events[i]; !slices.Contains(o.sent, e.ID) && !o.due[e.ID].After(time.Now()) && len(taken) < limit {
				e.Attempts++
				o.due[e.ID] = time.Now().Add(lease)
				taken = append(taken, *e)
			}
		}
	})
	return taken, nil
}

func (o *outbox) Sent(_ context.Context, ids []string) error {
	o.with(func() { o.sent = append(o.sent, ids...) })
	return nil
}

func (o *outbox) Postpone(_ context.Context, delays map[string]time.Duration) error {
	o.with(func() {
		for id, delay := range delays {
			o.due[id] = time.Now().Add(delay)
		}
	})
	return nil
}

func (o *outbox) GiveUp(context.Context, time.Duration) (int, error) { return o.given, nil }

func (o *outbox) Purge(context.Context, int) (int, error) {
	o.with(func() { o.purged++ })
	return 0, nil
}

func (o *outbox) Send(_ context.Context, e houseevent.Event) (err error) {
	o.with(func() {
		if o.away {
			err = errors.New("away")
			return
		}
		o.received = append(o.received, e.Organization+" "+e.ID)
	})
	return err
}

func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(houseevent.Event{ID: "1", Organization: "acme"}, houseevent.Event{ID: "2"})
		o.away = true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- houseevent.NewRelay(o, o, "ops", testkit.Logger(t)).Run(ctx) }()
		time.Sleep(10 * time.Minute)
		o.with(func() {
			if len(o.sent) != 0 {
				t.Errorf("sent %q while webhook-egress is away", o.sent)
			}
			for _, e := range o.events {
				if e.Attempts < 9 || e.Attempts > 20 {
					t.Errorf("event %s: %d attempts in ten minutes, want a delay that grows to five minutes", e.ID, e.Attempts)
				}
			}
			o.away = false
		})
		time.Sleep(6 * time.Minute)
		o.with(func() {
			slices.Sort(o.received)
			if diff := cmp.Diff([]string{"acme 1", "ops 2"}, o.received); diff != "" {
				t.Errorf("received (-want +got):\n%s", diff)
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDelay(t *testing.T) {
	for attempts, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 8: 128 * time.Second, 9: 5 * time.Minute, 100: 5 * time.Minute} {
		if low, high := houseevent.Delay(attempts, 0), houseevent.Delay(attempts, 1); low != want/2 || high != want {
			t.Errorf("after %d attempts from %s to %s, want half of %s to all of it", attempts, low, high, want)
		}
	}
}

func TestUpkeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := newOutbox()
		o.given = 3
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if err := houseevent.NewRelay(o, o, "ops", slog.New(slog.NewTextHandler(&log, nil))).Upkeep(ctx); err != nil {
			t.Fatal(err)
		}
		if o.purged != 1 || !strings.Contains(log.String(), "events=3") {
			t.Errorf("purged %d times, log %s", o.purged, log.String())
		}
	})
}
