package event_test

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

	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outbox holds events in memory, and is webhook-egress, too.
type outbox struct {
	mu       sync.Mutex
	events   []event.Event
	due      map[string]time.Time
	sent     []string
	received []string // organization and ID
	away     bool
	given    int
	purged   int
}

func newOutbox(events ...event.Event) *outbox {
	return &outbox{events: events, due: map[string]time.Time{}}
}

func (o *outbox) with(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	do()
}

func (o *outbox) Take(_ context.Context, limit int, lease time.Duration) (taken []event.Event, err error) {
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

func (o *outbox) Send(_ context.Context, e event.Event) (err error) {
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
		o := newOutbox(event.Event{ID: "1", Organization: "acme"}, event.Event{ID: "2"})
		o.away = true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- event.NewRelay(o, o, "ops", testkit.Logger(t)).Run(ctx) }()
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
		if low, high := event.Delay(attempts, 0), event.Delay(attempts, 1); low != want/2 || high != want {
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
		if err := event.NewRelay(o, o, "ops", slog.New(slog.NewTextHandler(&log, nil))).Upkeep(ctx); err != nil {
			t.Fatal(err)
		}
		if o.purged != 1 || !strings.Contains(log.String(), "events=3") {
			t.Errorf("purged %d times, log %s", o.purged, log.String())
		}
	})
}

// ledgerRows is a ledger with that many rows.
type ledgerRows int

func (l *ledgerRows) Compare(_ context.Context, limit int) (int, error) {
	n := min(limit, int(*l))
	*l -= ledgerRows(n)
	return n, nil
}

func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := ledgerRows(4500)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := event.NewBudgets(&rows, testkit.Logger(t)).Run(ctx); err != nil || rows != 0 {
			t.Errorf("%d rows left, %v", rows, err)
		}
	})
}

func TestNotices(t *testing.T) {
	cutoff := time.Date(2026, 12, 11, 0, 0, 0, 0, time.UTC)
	model := func(deprecated bool, cutoff time.Time) event.Model {
		return event.Model{Provider: "openai", Model: "o3", Successor: "gpt-6", Deprecated: deprecated, Cutoff: cutoff}
	}
	for name, tt := range map[string]struct {
		model event.Model
		now   time.Time
		want  string
	}{
		"deprecated without a cutoff": {model(true, time.Time{}), cutoff, "deprecated"},
		"deprecated, long before":     {model(true, cutoff), cutoff.AddDate(0, 0, -31), "deprecated"},
		"30 days":                     {model(true, cutoff), cutoff.AddDate(0, 0, -30), "deprecated, retiring 2026-12-11 30"},
		"8 days":                      {model(true, cutoff), cutoff.AddDate(0, 0, -8), "deprecated, retiring 2026-12-11 30"},
		"7 days, not deprecated":      {model(false, cutoff), cutoff.AddDate(0, 0, -7), "retiring 2026-12-11 7"},
		"an hour":                     {model(false, cutoff), cutoff.Add(-time.Hour), "retiring 2026-12-11 1"},
		"retired":                     {model(true, cutoff), cutoff, ""},
	} {
		var got []string
		for _, r := range event.Notices(tt.model, tt.now) {
			if r.Subject != "model/openai/o3" || r.Data["successor"] != "gpt-6" || r.Organization != "" {
				t.Errorf("%s: %+v", name, r)
			}
			got = append(got, strings.TrimSpace(strings.TrimPrefix(r.Type, "switchyard.model.")+" "+r.Transition))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: %q, want %q", name, text, tt.want)
		}
	}
}

// observerStore keeps what is recorded.
type observerStore struct {
	circuits, reports int
}

func (s *observerStore) Circuits(_ context.Context, open []event.Circuit, _ time.Duration) error {
	s.circuits += len(open)
	return nil
}

func (s *observerStore) Report(_ context.Context, reports []event.Report) error {
	s.reports += len(reports)
	return nil
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &observerStore{}
		w := event.NewObserver(store, func() []event.Circuit { return []event.Circuit{{Provider: "openai"}} },
			func(time.Time) []event.Model {
				return []event.Model{{Provider: "openai", Model: "o3", Deprecated: true}}
			}, testkit.Logger(t))
		for _, run := range []func(context.Context) error{w.RunCircuits, w.RunModels} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if err := run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if store.circuits != 2 || store.reports != 1 {
			t.Errorf("%d circuits and %d reports in five seconds, want 2 and 1", store.circuits, store.reports)
		}
	})
}
