package spend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/testkit"
)

func TestSum(t *testing.T) {
	at := time.Date(2026, 1, 31, 23, 59, 30, 0, time.UTC)
	minute, day := at.Truncate(time.Minute), time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	january, february := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	got := sum([]billing.Record{
		{Key: "key_2", StartedAt: at, Prompt: 1, Pico: 10},
		{Key: "key_1", StartedAt: at.Add(time.Second), Completion: 2, Pico: math.MaxInt64},
		{StartedAt: at.Add(time.Minute), Prompt: 3, Completion: 1, Pico: 40},
	}, map[string]string{"key_2": "key_1"})
	if diff := cmp.Diff([]Amount{
		{Window{"", plan.Day, day}, 3, math.MaxInt64},
		{Window{"", plan.Day, february}, 4, 40},
		{Window{"", plan.Minute, minute}, 3, math.MaxInt64},
		{Window{"", plan.Minute, february.Add(30 * time.Second).Truncate(time.Minute)}, 4, 40},
		{Window{"", plan.Month, january}, 3, math.MaxInt64},
		{Window{"", plan.Month, february}, 4, 40},
		{Window{"key_1", plan.Day, day}, 3, math.MaxInt64},
		{Window{"key_1", plan.Minute, minute}, 3, math.MaxInt64},
		{Window{"key_1", plan.Month, january}, 3, math.MaxInt64},
	}, got); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
}

// fakeWorld is a gateway whose ledger grows, and a store. Either may fail, before or after it has done what it is asked
// for.
type fakeWorld struct {
	mu     sync.Mutex
	ledger []billing.Record
	feed   Feed
	total  map[Window]int64
	chance *rand.Rand
	calm   bool
}

var errFake = errors.New("connection reset")

func (f *fakeWorld) fails() bool { return !f.calm && f.chance.IntN(4) == 0 }

// Read returns three records at most. The row of a position is the number of records up to it.
func (f *fakeWorld) Read(_ context.Context, q billing.Query) (billing.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails() {
		return billing.Page{}, errFake
	}
	after := int(q.After.Row)
	end := min(len(f.ledger), after+3)
	next := feed.Position{Row: int64(end)}
	return billing.Page{Records: f.ledger[after:end], Next: next, More: end == after+3}, nil
}

func (f *fakeWorld) Due(context.Context, time.Time, int) ([]Feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []Feed{f.feed}, nil
}

func (f *fakeWorld) Origins(context.Context, []string) (map[string]string, error) { return nil, nil }

func (f *fakeWorld) Advance(_ context.Context, steps []Step, _ time.Time) error {
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	if steps[0].Feed.Cursor != f.feed.Cursor {
		return nil
	}
	if f.fails() {
		return errFake
	}
	f.feed.Cursor = steps[0].Next
	for _, a := range steps[0].Amounts {
		f.total[a.Window] += a.Pico
	}
	if f.fails() { // It was done, and the answer is lost.
		return errFake
	}
	return nil
}

func (f *fakeWorld) Drop(context.Context, time.Time, time.Time, int) (int, error) { return 0, nil }

// Replicas that read the same feed, over failures of the gateway and the store on either side of a commit, add each record
// once.
func TestEachRecordCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeWorld{feed: Feed{Organization: "acme"}, total: make(map[Window]int64), chance: rand.New(rand.NewPCG(1, 2))}
		ctx, stop := context.WithCancel(t.Context())
		var replicas sync.WaitGroup
		for range 3 {
			replicas.Go(func() { _ = NewFollower(f, f, testkit.Logger(t)).Run(ctx) })
		}
		start := time.Now().UTC().Truncate(24 * time.Hour)
		var want int64
		for i := range int64(500) {
			f.mu.Lock()
			f.ledger = append(f.ledger, billing.Record{StartedAt: start.Add(time.Duration(i)), Pico: i})
			f.mu.Unlock()
			want += i
			time.Sleep(37 * time.Millisecond)
		}
		f.mu.Lock()
		f.calm = true
		f.mu.Unlock()
		time.Sleep(time.Minute)
		stop()
		replicas.Wait()
		if got := f.total[Window{"", plan.Day, start}]; got != want {
			t.Errorf("%d pico-USD are counted, want %d", got, want)
		}
	})
}

// feedStore holds the feeds of several organizations. Reading org-1 fails, and so does adding org-3.
type feedStore struct {
	Store

	feeds []Feed
	added map[string]int64
	calls int
}

func (c *feedStore) Due(context.Context, time.Time, int) ([]Feed, error) { return c.feeds, nil }

func (c *feedStore) Origins(context.Context, []string) (map[string]string, error) { return nil, nil }

func (c *feedStore) Advance(_ context.Context, steps []Step, _ time.Time) error {
	c.calls++
	if slices.ContainsFunc(steps, func(s Step) bool { return s.Feed.Organization == "org-3" }) {
		return errFake
	}
	for _, s := range steps {
		c.added[s.Feed.Organization] += s.Amounts[0].Pico
	}
	return nil
}

func (c *feedStore) Read(_ context.Context, q billing.Query) (billing.Page, error) {
	if q.Organization == "org-1" {
		return billing.Page{}, errFake
	}
	return billing.Page{Records: []billing.Record{{StartedAt: time.Unix(0, 0), Pico: 7}}, Next: feed.Position{Row: 1}}, nil
}

// Organizations are added together; one that fails holds up no other.
func TestOneFailsAlone(t *testing.T) {
	c := &feedStore{added: make(map[string]int64)}
	for i := range 5 {
		c.feeds = append(c.feeds, Feed{Organization: fmt.Sprint("org-", i)})
	}
	err := NewFollower(c, c, testkit.Logger(t)).round(t.Context())
	if !errors.Is(err, errFake) || !strings.Contains(err.Error(), "org-1") || !strings.Contains(err.Error(), "org-3") {
		t.Errorf("error %v; want those of org-1 and org-3", err)
	}
	if diff := cmp.Diff(map[string]int64{"org-0": 7, "org-2": 7, "org-4": 7}, c.added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	c.feeds, c.calls = []Feed{{Organization: "org-0"}, {Organization: "org-2"}}, 0
	if err := NewFollower(c, c, testkit.Logger(t)).round(t.Context()); err != nil || c.calls != 1 {
		t.Errorf("%d calls, %v; want one for both", c.calls, err)
	}
}
