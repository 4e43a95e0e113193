package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	last     LastTaken
	growths  []Growth
	collects int
	// collected holds the beginnings of the collected hours.
	collected []time.Time
}

func (m *memory) Lease(context.Context, string, string, time.Duration) (int64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fence, !m.taken, nil
}

func (m *memory) Collect(_ context.Context, _ int64, from, _, _ time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collects++
	m.collected = append(m.collected, from)
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
	m.cursor.Position, m.cursor.Failure, m.cursor.Settled = p.Page.Next, "", nil
	m.cursor.UnsureSince, m.cursor.FailingSince = time.Time{}, time.Time{}
	m.keep(p)
	return nil
}

func (m *memory) keep(p Progress) {
	m.refused = append(m.refused, p.Refused...)
	if !p.Last.SentAt.IsZero() {
		m.last = p.Last
	}
}

func (m *memory) LastTaken(context.Context, string) (LastTaken, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, nil
}

func (m *memory) Begin(_ context.Context, _ int64, _ Cursor, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cursor.UnsureSince.IsZero() {
		m.cursor.UnsureSince = at
	}
	return nil
}

func (m *memory) Fail(_ context.Context, _ int64, p Progress, failure string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cursor.Failure, m.cursor.UnsureSince = failure, p.Cursor.UnsureSince
	m.cursor.FailingSince = cmp.Or(m.cursor.FailingSince, p.Cursor.UnsureSince) // It knows no other time of the failure.
	m.cursor.Settled = append(m.cursor.Settled, p.Settled()...)
	m.keep(p)
	return nil
}

func (m *memory) Refused(_ context.Context, _ string, wanted []string) (found []string, err error) {
	for _, r := range m.refused {
		if slices.Contains(wanted, r.Identifier) {
			found = append(found, r.Identifier)
		}
	}
	return found, nil
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

func (s *script) send(_ context.Context, events []Event) (done settlement, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends++
	if s.do != nil {
		done.refused, err = s.do(s.sends, events)
	}
	out := make(map[string]bool)
	for _, r := range done.refused {
		out[r.Identifier] = true
	}
	for _, e := range events {
		s.got[e.Identifier]++
		if err == nil && !out[e.Identifier] {
			done.taken = append(done.taken, e)
		}
	}
	return done, err
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

// partly is a vendor that takes all events except one, for which it returns err.
type partly struct {
	fails string
	err   error
	got   map[string]int
}

func (*partly) batch() int { return 40 }

func (p *partly) send(_ context.Context, events []Event) (done settlement, err error) {
	for _, e := range events {
		p.got[e.Identifier]++
		if e.Identifier == p.fails && p.err != nil {
			err = p.err
			continue
		}
		done.taken = append(done.taken, e)
	}
	return done, err
}

// If a page fails, its events that were taken are not sent again, except one after an hour to see whether the destination
// is up. An event that may have been taken without an answer is sent again while the destination recognizes repeats, and
// set aside after that. An event that was certainly not taken is sent however late it is.
func TestSenderNeverCountsTwice(t *testing.T) {
	lost := &lostError{&laterError{status: 500}}
	for name, tt := range map[string]struct {
		kind  Kind
		err   error
		after time.Duration
		tries int
		aside bool
	}{
		"lost, then soon":            {Stripe, lost, 22 * time.Hour, 2, false},
		"lost, then late":            {Stripe, lost, 24 * time.Hour, 1, true},
		"lost, late at OpenMeter":    {OpenMeter, lost, 24 * time.Hour, 2, false},
		"lost, later than OpenMeter": {OpenMeter, lost, 32 * 24 * time.Hour, 1, true},
		"lost, late at Lago":         {Lago, lost, 32 * 24 * time.Hour, 2, false},
		"refused a key, then late":   {Stripe, &laterError{status: 401}, 72 * time.Hour, 2, false},
		"not connected, then late":   {Stripe, errors.New("connection refused"), 72 * time.Hour, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := &memory{fence: 1}
			store.fill(30)
			poison := store.growths[7].Entry().ID + "/llm_requests"
			v := &partly{fails: poison, err: tt.err, got: make(map[string]int)}
			s := newSender(t, store, v)
			s.destination.Kind = tt.kind
			if _, err := s.round(t.Context(), hour); !errors.Is(err, tt.err) || len(store.cursor.Settled) != 29 {
				t.Fatalf("%v, %d events settled; want the failure and 29", err, len(store.cursor.Settled))
			}
			v.err = nil
			if _, err := s.round(t.Context(), hour.Add(tt.after)); err != nil || store.cursor.Position != "30" || store.cursor.Settled != nil {
				t.Fatalf("%v, cursor %+v; want it behind the page", err, store.cursor)
			}
			shown := 0 // events that were sent again to see whether the destination is up
			for id, n := range v.got {
				if id != poison {
					shown += n - 1
				} else if n != tt.tries {
					t.Errorf("%s was sent %d times", id, n)
				}
			}
			if shown > 1 {
				t.Errorf("%d events that were taken were sent again, want at most one", shown)
			}
			aside := len(store.refused) == 1 && store.refused[0].Identifier == poison && strings.HasPrefix(store.refused[0].Reason, "uncertain: ")
			if aside != tt.aside || !tt.aside && len(store.refused) > 0 {
				t.Errorf("set aside %+v, want %t", store.refused, tt.aside)
			}
		})
	}
}

// After a kill between a send and the move of the cursor, all events of the page may have been taken.
func TestSenderAfterAKill(t *testing.T) {
	for after, sent := range map[time.Duration]int{time.Minute: 30, 24 * time.Hour: 0} {
		store := &memory{fence: 1}
		store.fill(30)
		v := &script{got: make(map[string]int)}
		s := newSender(t, store, v)
		s.destination.Kind = Stripe
		s.Store = killed{store}
		if _, err := s.round(t.Context(), hour); err == nil {
			t.Fatal("it moved the cursor")
		}
		v.got, s.Store = make(map[string]int), store
		if _, err := s.round(t.Context(), hour.Add(after)); err != nil || len(v.got) != sent || len(store.refused) != 30-sent || store.cursor.Position != "30" {
			t.Errorf("after %v: %d sent, %d set aside, cursor %+v: %v", after, len(v.got), len(store.refused), store.cursor, err)
		}
	}
}

// killed is a store that records nothing after a page has begun.
type killed struct{ *memory }

func (killed) Advance(context.Context, int64, Progress) error      { return errors.New("killed") }
func (killed) Fail(context.Context, int64, Progress, string) error { return errors.New("killed") }

// A back-fill of refused events sends no others.
func TestSenderOfRefusedEvents(t *testing.T) {
	store := &memory{fence: 1, cursor: Cursor{ID: 2, Destination: "d", Source: Counts, Until: hour.Add(time.Hour), OnlyRefused: true}}
	store.fill(30)
	var event Event
	for _, i := range []int{3, 20} {
		event = Event{Identifier: store.growths[i].Entry().ID + "/llm_requests"}
		store.refused = append(store.refused, Refusal{Event: event})
	}
	v := &script{got: make(map[string]int)}
	if _, err := newSender(t, store, v).round(t.Context(), hour); err != nil || len(v.got) != 2 || v.got[event.Identifier] != 1 {
		t.Errorf("sent %v (%v), want the two refused ones", v.got, err)
	}
}

// A back-fill whose events could count twice is refused, unless it asks for refused events or for everything.
func TestBackfillsThatCountTwice(t *testing.T) {
	live, open := Cursor{Since: hour.Add(-10 * 24 * time.Hour), Sent: 5}, hour.Add(-10*24*time.Hour)
	for name, tt := range map[string]struct {
		kind     Kind
		cursors  []Cursor
		from, to time.Time
		events   Selection
		want     string
	}{
		"sent long ago":          {Stripe, []Cursor{live}, hour.Add(-48 * time.Hour), hour, "", "count twice"},
		"partly long ago":        {Stripe, []Cursor{live}, hour.Add(-24 * time.Hour), hour, "", "count twice"},
		"sent within the day":    {Stripe, []Cursor{live}, hour.Add(-20 * time.Hour), hour, "", ""},
		"of before all exports":  {Stripe, []Cursor{live}, open.Add(-24 * time.Hour), open, "", ""},
		"by another back-fill":   {Stripe, []Cursor{{Since: open.Add(-48 * time.Hour), Until: open, Sent: 1}}, open.Add(-24 * time.Hour), open, "", "count twice"},
		"of after that":          {Stripe, []Cursor{{Since: open.Add(-48 * time.Hour), Until: open, Sent: 1}}, open, hour, "", ""},
		"nothing was sent":       {Stripe, []Cursor{{Since: open}}, open, hour, "", ""},
		"refused events":         {Stripe, []Cursor{live}, open, hour, OnlyRefused, ""},
		"wanted":                 {Stripe, []Cursor{live}, open, hour, Everything, ""},
		"at OpenMeter":           {OpenMeter, []Cursor{live}, open, hour, "", ""},
		"at Lago":                {Lago, []Cursor{{Since: hour.Add(-40 * 24 * time.Hour), Sent: 1}}, hour.Add(-39 * 24 * time.Hour), hour, "", ""},
		"at OpenMeter, long ago": {OpenMeter, []Cursor{{Since: hour.Add(-40 * 24 * time.Hour), Sent: 1}}, hour.Add(-39 * 24 * time.Hour), hour, "", "count twice"},
		"an unknown selection":   {Lago, nil, open, hour, "some", "events: "},
	} {
		x := &archive{cursors: tt.cursors}
		m := NewManager(Settings{Destinations: []Destination{{Name: "d", Kind: tt.kind, Meters: map[string]string{"llm_requests": "calls"}}}}, x, nil)
		_, err := m.Backfill(t.Context(), Author{}, Backfill{"d", tt.from, tt.to, tt.events}, hour)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err == nil && (len(x.added) != 1 || x.added[0].OnlyRefused != (tt.events == OnlyRefused)) {
			t.Errorf("%s: added %+v", name, x.added)
		}
	}
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
	testkit.Wait(t, "three collections", func() error {
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

type archive struct {
	memory

	cursors []Cursor
	added   []Cursor
}

func (a *archive) List(context.Context, string, int) ([]Cursor, error) { return a.cursors, nil }

func (a *archive) Backfill(_ context.Context, _ Author, c Cursor, _ []Source, _ int) ([]int64, error) {
	a.added = append(a.added, c)
	return []int64{1}, nil
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
