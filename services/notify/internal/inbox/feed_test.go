package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/notify/internal/inbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ann = inbox.Address{Organization: "acme", User: "ann"}

// history is the changes of ann's inbox, in memory.
type history struct {
	mu     sync.Mutex
	events []inbox.Event
	first  int64 // those before it are purged
	err    error
	looks  int
}

func (h *history) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range n {
		seq := int64(len(h.events)) + 1
		h.events = append(h.events, inbox.Event{Seq: seq, Kind: inbox.EventCreated, Unread: int(seq)})
	}
}

func (h *history) Place(_ context.Context, at inbox.Address) (inbox.Place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at != ann {
		return inbox.Place{}, h.err
	}
	return inbox.Place{Seq: int64(len(h.events)), Unread: len(h.events)}, h.err
}

func (h *history) Events(_ context.Context, at inbox.Address, after int64, limit int) ([]inbox.Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var page []inbox.Event
	for _, e := range h.events {
		if at == ann && e.Seq > after && e.Seq >= h.first && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, h.err
}

func (h *history) Changed(_ context.Context, known map[inbox.Address]int64) (map[inbox.Address]int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	changed := map[inbox.Address]int64{}
	if seq, ok := known[ann]; ok && seq != int64(len(h.events)) {
		changed[ann] = int64(len(h.events))
	}
	return changed, h.err
}

// reader collects what a stream says, until it has had enough.
type reader struct {
	keepAlives atomic.Int32

	mu    sync.Mutex
	said  []string
	limit int
}

func (r *reader) Event(e inbox.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit > 0 && len(r.said) == r.limit {
		return errors.New("the connection is gone")
	}
	r.said = append(r.said, fmt.Sprint(e.Kind, " ", e.Seq, " ", e.Unread))
	return nil
}

func (r *reader) KeepAlive() error {
	r.keepAlives.Add(1)
	return nil
}

func (r *reader) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.said...)
}

func newFeed(h *history) *inbox.Feed {
	return inbox.NewFeed(h, 3, slog.New(slog.DiscardHandler))
}

// followNow follows ann's inbox until the stream has ended.
func followNow(ctx context.Context, f *inbox.Feed, after *int64, r *reader) error {
	s, err := f.Open(ctx, ann, after)
	if err != nil {
		return err
	}
	return s.Follow(ctx, r)
}

// follow starts a stream and gives how to end it.
func follow(t *testing.T, f *inbox.Feed, after *int64, r *reader) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- followNow(ctx, f, after, r) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-done
	}
}

func said(t *testing.T, r *reader, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, r.all()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestFollowFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := &history{}, &reader{}
		h.add(2)
		f := newFeed(h)
		end := follow(t, f, nil, r)
		said(t, r, "ready 2 2")
		h.add(1)
		f.Notify(inbox.Address{Organization: "acme", User: "bob"})
		said(t, r, "ready 2 2")
		f.Notify(ann)
		said(t, r, "ready 2 2", "created 3 3")
		if err := end(); err != nil || f.Streams() != 0 {
			t.Errorf("%v, %d streams left", err, f.Streams())
		}
	})
}

func TestFollowResumes(t *testing.T) {
	tests := map[string]struct {
		after, purged int64
		want          []string
	}{
		"where it is":              {4, 0, []string{"ready 4 4"}},
		"behind":                   {2, 0, []string{"ready 2 2", "created 3 3", "created 4 4"}},
		"at the beginning":         {0, 0, []string{"ready 0 0", "created 1 1", "created 2 2", "created 3 3", "created 4 4"}},
		"too old":                  {1, 3, []string{"reset 4 4"}},
		"just still there":         {3, 3, []string{"ready 3 3", "created 4 4"}},
		"the beginning, purged":    {0, 3, []string{"ready 0 0", "reset 4 4"}},
		"never heard of":           {9, 0, []string{"reset 4 4"}},
		"not even a number of one": {-1, 0, []string{"reset 4 4"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, r := &history{first: tt.purged}, &reader{}
				h.add(4)
				end := follow(t, newFeed(h), &tt.after, r)
				said(t, r, tt.want...)
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A stream that was behind by more than a page gets all of it.
func TestFollowManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := &history{}, &reader{}
		h.add(1050)
		end := follow(t, newFeed(h), new(int64(1)), r)
		got := r.all()
		if len(got) != 1050 || got[0] != "ready 1 1" || got[1049] != "created 1050 1050" {
			t.Errorf("%d events", len(got))
		}
		_ = end()
	})
}

// A missing number is a change for which no event was recorded.
func TestAGapResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := &history{}, &reader{}
		h.add(1)
		f := newFeed(h)
		end := follow(t, f, nil, r)
		h.add(3)
		h.mu.Lock()
		h.first = 3
		h.mu.Unlock()
		f.Notify(ann)
		said(t, r, "ready 1 1", "reset 4 4")
		_ = end()
	})
}

func TestALostRingIsFoundByLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := &history{}, &reader{}
		f := newFeed(h)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = f.Run(ctx) })
		end := follow(t, f, nil, r)
		h.add(1)
		time.Sleep(2 * time.Second)
		said(t, r, "ready 0 0", "created 1 1")
		h.mu.Lock()
		h.err = errors.New("away")
		h.mu.Unlock()
		time.Sleep(4 * time.Second)
		h.mu.Lock()
		h.err = nil
		h.mu.Unlock()
		h.add(1)
		time.Sleep(2 * time.Second)
		said(t, r, "ready 0 0", "created 1 1", "created 2 2")
		looks := h.looks
		_ = end()
		time.Sleep(10 * time.Second)
		if h.looks != looks {
			t.Error("looks although nobody follows")
		}
		stop()
		wg.Wait()
	})
}

func TestBeatsDrainAndLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, other := &history{}, &reader{}, &reader{}
		f := newFeed(h)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = f.Run(ctx) })
		ended := make(chan error, 2)
		go func() { ended <- followNow(t.Context(), f, nil, r) }()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := r.keepAlives.Load(); n != 2 {
			t.Errorf("%d keep-alives in 31 s", n)
		}
		time.Sleep(30 * time.Minute)
		if err := <-ended; err != nil {
			t.Errorf("at the end of its life: %v", err)
		}
		go func() { ended <- followNow(t.Context(), f, nil, other) }()
		synctest.Wait()
		for range 2 {
			if err := f.Drain(t.Context()); err != nil || f.Streams() != 0 {
				t.Errorf("drain: %v, %d streams left", err, f.Streams())
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("drained: %v", err)
		}
		stop()
		running.Wait()
	})
}

func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{}
		f := newFeed(h)
		h.add(5)
		if err := followNow(t.Context(), f, new(int64(1)), &reader{limit: 2}); err != nil {
			t.Errorf("a reader that leaves: %v", err)
		}
		h.err = errors.New("away")
		if err := followNow(t.Context(), f, nil, &reader{}); !errors.Is(err, h.err) {
			t.Errorf("a store that is away: %v", err)
		}
		h.err = nil
		var ends []func() error
		for range 3 {
			ends = append(ends, follow(t, f, nil, &reader{}))
		}
		if err := followNow(t.Context(), f, nil, &reader{}); !errors.Is(err, inbox.ErrTooMany) {
			t.Errorf("one too many: %v", err)
		}
		for _, end := range ends {
			_ = end()
		}
		if f.Streams() != 0 {
			t.Errorf("%d streams left", f.Streams())
		}
	})
}
