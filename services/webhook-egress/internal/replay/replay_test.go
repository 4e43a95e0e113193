package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func clock() time.Time { return now }

// memory is a store, its jobs and a waker.
type memory struct {
	mu sync.Mutex
	replay.Store

	drafts    []replay.Draft
	conflicts int
	counted   int
	job       replay.Replay
	pages     []error
	done      int
	failed    string
	postponed time.Duration
	woken     int
}

// with looks at it, or changes it, between what the tested does.
func (m *memory) with(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

func (m *memory) Count(context.Context, string, string, replay.Filter) (int, error) {
	m.counted++
	return 7, nil
}

func (m *memory) Create(_ context.Context, d replay.Draft) (replay.Replay, bool, error) {
	if m.conflicts > 0 {
		m.conflicts--
		return replay.Replay{}, false, delivery.ErrConflict
	}
	m.drafts = append(m.drafts, d)
	return replay.Replay{ID: d.ID}, false, nil
}

func (m *memory) Get(context.Context, string, string, delivery.ID) (replay.Replay, error) {
	return m.job, nil
}

func (m *memory) List(_ context.Context, _, _ string, _ delivery.ID, limit int) ([]replay.Replay, error) {
	return make([]replay.Replay, limit), nil
}

func (m *memory) Cancel(context.Context, delivery.ID) error { return nil }

func (m *memory) Page(context.Context) (replay.Done, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pages) == 0 {
		return replay.Done{}, nil
	}
	err := m.pages[0]
	m.pages = m.pages[1:]
	m.done++
	return replay.Done{Found: true, Job: delivery.NewID(now), Queued: 2}, err
}

func (m *memory) Fail(_ context.Context, _ delivery.ID, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = reason
	return nil
}

func (m *memory) Postpone(_ context.Context, _ delivery.ID, pause time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.postponed = pause
	return nil
}

func (m *memory) Waiting() { m.with(func() { m.woken++ }) }

func TestFilters(t *testing.T) {
	id := delivery.NewID(now).String()
	for name, tt := range map[string]struct {
		filter replay.Filter
		text   string // of the refusal; empty for none
	}{
		"since":              {replay.Filter{CreatedFrom: now}, ""},
		"all kinds":          {replay.Filter{CreatedFrom: now, CreatedTo: now.Add(1), EndpointID: id, EventType: "a", Host: "h"}, ""},
		"by id":              {replay.Filter{DeliveryIDs: []string{id}, Statuses: []delivery.Status{"delivered"}}, ""},
		"nothing":            {replay.Filter{}, "filter.created_after: "},
		"both":               {replay.Filter{DeliveryIDs: []string{id}, Host: "h"}, "filter.delivery_ids: "},
		"both by time":       {replay.Filter{DeliveryIDs: []string{id}, CreatedFrom: now}, "filter.delivery_ids: "},
		"no id":              {replay.Filter{DeliveryIDs: []string{id, "x"}}, "filter.delivery_ids[1]: "},
		"no endpoint":        {replay.Filter{CreatedFrom: now, EndpointID: "x"}, "filter.endpoint_id: "},
		"to before from":     {replay.Filter{CreatedFrom: now, CreatedTo: now}, "filter.created_before: "},
		"NUL in a type":      {replay.Filter{CreatedFrom: now, EventType: "\x00"}, "filter.event_type: "},
		"not text in a host": {replay.Filter{CreatedFrom: now, Host: "\xff"}, "filter.host: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{conflicts: 2}
			_, err := replay.NewService(m, clock).Create(t.Context(), replay.Request{Organization: "acme", Filter: tt.filter})
			if tt.text == "" {
				if err != nil || len(m.drafts) != 1 {
					t.Errorf("err = %v", err)
				}
				return
			}
			e := apierr.From(err)
			if e == nil {
				t.Fatal("it was accepted")
			}
			if e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, tt.text) {
				t.Errorf("%v %q, want an invalid request and text that begins with %s", e.Kind, e.Text, tt.text)
			}
			if len(m.drafts) != 0 {
				t.Error("it was stored")
			}
		})
	}
}

func TestDeadLettersOnly(t *testing.T) {
	for _, tt := range []struct {
		statuses []delivery.Status
		want     bool
	}{
		{nil, true},
		{[]delivery.Status{"failed"}, true},
		{[]delivery.Status{"expired", "failed"}, true},
		{[]delivery.Status{"failed", "delivered"}, false},
		{[]delivery.Status{"cancelled"}, false},
	} {
		if got := (replay.Filter{Statuses: tt.statuses}).OnlyDeadLetters(); got != tt.want {
			t.Errorf("%v: %t", tt.statuses, got)
		}
	}
}

func TestDryRun(t *testing.T) {
	m := &memory{}
	created, err := replay.NewService(m, clock).Create(t.Context(), replay.Request{Organization: "acme", DryRun: true, Filter: replay.Filter{CreatedFrom: now}})
	want := replay.Created{Replay: replay.Replay{
		Organization: "acme", Filter: replay.Filter{CreatedFrom: now}, DryRun: true, Status: replay.StatusCounted, Matched: 7,
		Created: now, Updated: now, Finished: now,
	}}
	if diff := cmp.Diff(want, created); diff != "" || err != nil || len(m.drafts) != 0 {
		t.Errorf("(-want +got):\n%s%v", diff, err)
	}
}

func TestFingerprintTellsRequestsApart(t *testing.T) {
	m := &memory{}
	s := replay.NewService(m, clock)
	base := replay.Request{Organization: "acme", Filter: replay.Filter{CreatedFrom: now}, Key: "k"}
	other, slow, owned := base, base, base
	other.Filter.Host, slow.RatePerSecond, owned.Owner = "h", 3, "ann"
	for _, r := range []replay.Request{base, base, other, slow, owned} {
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	d := m.drafts
	if d[0].Fingerprint != d[1].Fingerprint {
		t.Error("two requests that ask for the same have two fingerprints")
	}
	if d[0].ID == d[1].ID {
		t.Error("two jobs have the same id")
	}
	for i, what := range []string{"host", "rate", "owner"} {
		if d[2+i].Fingerprint == d[0].Fingerprint {
			t.Errorf("a request with another %s has the same fingerprint", what)
		}
	}
}

func TestCancel(t *testing.T) {
	id := delivery.NewID(now).String()
	for status, conflict := range map[replay.Status]bool{replay.StatusCancelled: false, replay.StatusCompleted: true, replay.StatusFailed: true} {
		_, err := replay.NewService(&memory{job: replay.Replay{Status: status}}, clock).Cancel(t.Context(), "acme", "", id)
		if got := err != nil; got != conflict || conflict && apierr.From(err).Reason != delivery.ReasonAlreadyFinished {
			t.Errorf("%s: %v", status, err)
		}
	}
}

func TestPace(t *testing.T) {
	for _, tt := range []struct {
		perSecond float64
		page, n   int
		pause     time.Duration
	}{
		{0, 200, 200, 0}, {0.5, 1, 1, 2 * time.Second}, {1, 1, 1, time.Second}, {10, 5, 5, 500 * time.Millisecond}, {10_000, 200, 200, 20 * time.Millisecond}, {10, 5, 0, 0},
	} {
		page, pause := replay.Pace(tt.perSecond)
		if page != tt.page || pause(tt.n) != tt.pause {
			t.Errorf("%g a second: pages of %d, %s after %d", tt.perSecond, page, pause(tt.n), tt.n)
		}
	}
}

func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		m := &memory{pages: []error{nil, nil, delivery.ErrConflict, nil}}
		w := replay.NewWorker(m, m, testkit.Logger(t))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		turn := func() { time.Sleep(300 * time.Millisecond); synctest.Wait() }
		turn()
		m.with(func() {
			if m.done != 4 || m.woken != 3 || m.postponed != 0 {
				t.Errorf("%d pages, woken %d times", m.done, m.woken)
			}
			m.pages = []error{away}
		})
		turn()
		m.with(func() {
			if m.postponed == 0 || m.failed != "" {
				t.Errorf("away: postponed by %s, failed %q", m.postponed, m.failed)
			}
			m.pages = []error{delivery.ErrRejected}
		})
		turn()
		if m.failed != replay.ErrorInternal {
			t.Errorf("rejected: %q", m.failed)
		}
		m.with(func() { m.failed, m.pages = "", []error{fmt.Errorf("page: %w", panics.Err)} })
		turn()
		if m.failed != replay.ErrorInternal {
			t.Errorf("panicked: the job failed as %q, want %q", m.failed, replay.ErrorInternal)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
