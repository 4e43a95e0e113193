package export

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/testkit"
)

// memory is a Store with one cursor, that of the counts, and a source of growths.
type memory struct {
	Store

	mu       sync.Mutex
	fence    int64
	taken    bool // another has the lease
	cursor   Cursor
	refused  []Refusal
	growths  []Growth
	collects int
}

func (m *memory) Lease(context.Context, string, string, time.Duration) (int64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fence, !m.taken, nil
}

func (m *memory) Collect(context.Context, int64, time.Time, time.Time, time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collects++
	return 0, nil
}

func (m *memory) Growths(_ context.Context, after int64, _, _ time.Time, limit int) ([]Growth, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := m.growths[after:]
	return rest[:min(len(rest), limit)], nil
}

func (m *memory) Open(_ context.Context, destination string, source Source, since time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cursor.ID == 0 {
		m.cursor = Cursor{ID: 1, Destination: destination, Source: source, Since: since}
	}
	return nil
}

func (m *memory) Cursors(context.Context, string) ([]Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []Cursor{m.cursor}, nil
}

func (m *memory) Advance(_ context.Context, fence int64, p Progress) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fence != m.fence || m.taken {
		return ErrFence
	}
	m.cursor.Position, m.cursor.Failure = p.Page.Next, ""
	m.refused = append(m.refused, p.Refused...)
	return nil
}

func (m *memory) Fail(_ context.Context, _ int64, failure string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cursor.Failure = failure
	return nil
}

func (m *memory) Drop(context.Context, time.Time, time.Time, int) (int, error) { return 0, nil }

func (m *memory) fill(n int) {
	for i := range n {
		m.growths = append(m.growths, Growth{ID: int64(i + 1), Organization: "acme", Metric: "llm_requests", Hour: hour, Before: int64(i), Count: 1, CollectedAt: hour})
	}
}

// script is a vendor that answers by a function and counts what it takes.
type script struct {
	mu    sync.Mutex
	sends int
	got   map[string]int
	do    func(send int, events []Event) (refused []Refusal, err error)
}

func (*script) batch() int { return 40 }

func (s *script) send(_ context.Context, events []Event) ([]Refusal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends++
	var refused []Refusal
	var err error
	if s.do != nil {
		refused, err = s.do(s.sends, events)
	}
	for _, e := range events {
		s.got[e.Identifier]++
	}
	return refused, err
}

type noRecorder struct{}

func (noRecorder) Exported(context.Context, string, int, int) {}

func newSender(t *testing.T, store *memory, v vendor) *sender {
	t.Helper()
	w := NewWorker(Options{
		Settings: Settings{Every: time.Minute, Lease: time.Minute}, Store: store, Pagers: map[Source]Pager{Counts: NewCountFeed(store)},
		Holder: "me", Recorder: noRecorder{}, Log: testkit.Logger(t),
	})
	return &sender{Worker: w, vendor: v, destination: Destination{Name: "d", Kind: Lago, Meters: map[string]string{"llm_requests": "calls"}}}
}

// A failure is tried again after the back-off, or after the wait that the vendor asks for, with the same identifiers.
func TestSenderTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{fence: 1}
		store.fill(250)
		begun := time.Now()
		var at []time.Duration
		v := &script{got: make(map[string]int), do: func(send int, _ []Event) ([]Refusal, error) {
			at = append(at, time.Since(begun))
			switch send {
			case 2:
				return nil, errors.New("cut off")
			case 3:
				return nil, &laterError{status: 429, after: 30 * time.Second}
			}
			return nil, nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- newSender(t, store, v).run(ctx) }()
		time.Sleep(2 * time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(v.got) != 250 || store.cursor.Position != "250" || store.cursor.Failure != "" {
			t.Errorf("%d events arrived, the cursor is at %q with the failure %q; want all 250", len(v.got), store.cursor.Position, store.cursor.Failure)
		}
		if at[2] != time.Second || at[3] != 31*time.Second {
			t.Errorf("it tried after %v and %v, want 1s (back-off) and 31s (as the vendor asks)", at[2], at[3])
		}
	})
}

// A replica without the lease sends nothing; one that loses it doesn't move the cursor.
func TestSenderNeedsTheLease(t *testing.T) {
	store := &memory{fence: 1, taken: true}
	store.fill(3)
	v := &script{got: make(map[string]int)}
	s := newSender(t, store, v)
	if more, err := s.round(t.Context(), hour); more || err != nil || v.sends != 0 {
		t.Errorf("without the lease: more %v, error %v, %d sends; want none", more, err, v.sends)
	}
	store.taken = false
	v.do = func(int, []Event) ([]Refusal, error) {
		store.mu.Lock()
		defer store.mu.Unlock()
		store.fence++
		return nil, nil
	}
	if _, err := s.round(t.Context(), hour); !errors.Is(err, ErrFence) || store.cursor.Position != "" {
		t.Errorf("the lease was lost: error %v, position %q; want %v and no move", err, store.cursor.Position, ErrFence)
	}
}

// Refused events are set aside and hold up no others.
func TestSenderSetsAside(t *testing.T) {
	store := &memory{fence: 1}
	store.fill(90)
	v := &script{got: make(map[string]int), do: func(_ int, events []Event) (refused []Refusal, err error) {
		return []Refusal{{Event: events[3], Reason: "no such customer"}}, nil
	}}
	if _, err := newSender(t, store, v).round(t.Context(), hour); err != nil {
		t.Fatal(err)
	}
	if len(store.refused) != 3 || store.cursor.Position != "90" {
		t.Errorf("%d events are set aside and the cursor is at %q; want one of each of 3 batches, and 90", len(store.refused), store.cursor.Position)
	}
}

// The worker collects at each interval, and ends with its context.
func TestWorkerEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	store := &memory{fence: 1}
	w := newSender(t, store, nil).Worker
	w.Settings.Every = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	testkit.Wait(t, time.Minute, "three collections", func() error {
		store.mu.Lock()
		defer store.mu.Unlock()
		if store.collects < 6 { // recent hours and a chunk of older ones, each time
			return fmt.Errorf("%d", store.collects)
		}
		return nil
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A preview sums up exactly what would be sent, and sends nothing.
func TestPreview(t *testing.T) {
	store := &archive{memory: memory{fence: 1}}
	store.fill(150)
	settings := Settings{Destinations: []Destination{{Name: "d", Kind: Lago, Meters: map[string]string{"llm_requests": "calls"}}}}
	m := NewManager(settings, store, map[Source]Pager{Counts: NewCountFeed(&store.memory)})
	got, err := m.PreviewNext(t.Context(), "d", hour)
	if err != nil {
		t.Fatal(err)
	}
	if want := (MeterSum{"llm_requests", "acme", "calls", 150, "150"}); len(got.Meters) != 1 || got.Meters[0] != want || !got.Complete {
		t.Errorf("got %+v, want %+v, complete", got, want)
	}
	if _, err := m.PreviewNext(t.Context(), "other", hour); err == nil || !strings.Contains(err.Error(), "destination") {
		t.Errorf("of an unknown destination: %v", err)
	}
}

type archive struct{ memory }

func (*archive) List(context.Context, string, int) ([]Cursor, error) { return nil, nil }

func (*archive) Backfill(context.Context, Author, string, []Source, time.Time, time.Time, int) ([]int64, error) {
	return nil, nil
}

func (*archive) Refusals(context.Context, string, string, int) ([]Refusal, error) { return nil, nil }

// Ranges of back-fills are whole hours of the past that are kept.
func TestBackfillRanges(t *testing.T) {
	now := hour.Add(30 * time.Minute)
	for name, tt := range map[string]struct {
		from, to time.Time
		want     string
	}{
		"whole hours":     {hour.Add(-time.Hour), hour, ""},
		"no from":         {time.Time{}, hour, "from"},
		"no to":           {hour, time.Time{}, "to"},
		"half an hour":    {hour.Add(-30 * time.Minute), hour, "from"},
		"backwards":       {hour, hour.Add(-time.Hour), "from"},
		"this hour":       {hour, hour.Add(time.Hour), ""},
		"in the future":   {hour, hour.Add(2 * time.Hour), "to"},
		"longer than all": {hour.Add(-Kept - time.Hour), hour, "from"},
	} {
		err := checkRange(tt.from, tt.to, now)
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want one of %q", name, err, tt.want)
		}
	}
}

func TestPositionOfCounts(t *testing.T) {
	if _, err := NewCountFeed(&memory{}).Page(t.Context(), Cursor{Position: "x"}, 1); !errors.Is(err, strconv.ErrSyntax) {
		t.Errorf("a position that is no number: %v", err)
	}
}
