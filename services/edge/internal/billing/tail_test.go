package billing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/testkit"
)

// ledger is a feed that grows. Positions between its records exist, too.
type ledger struct {
	mu      sync.Mutex
	records []Record
	reads   int
	read    int // records that were returned
	fails   func() bool
}

var (
	errFake = errors.New("connection reset")
	day     = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
)

func at(n int) feed.Position { return feed.Position{Transaction: uint64(n) * 10, Row: 1} }

func (l *ledger) add(organization string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		place := len(l.records) + 1
		l.records = append(l.records, Record{ID: fmt.Sprint(place), Organization: organization, RecordedAt: day.Add(time.Duration(place)), Position: at(place)})
	}
}

func (l *ledger) Read(_ context.Context, q Query) (Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.fails != nil && l.fails() {
		return Page{}, errFake
	}
	page := Page{Next: q.After}
	for i := max(0, int(q.After.Transaction/10)-1); i < len(l.records); i++ {
		r := l.records[i]
		if r.Position.Compare(q.After) <= 0 || !q.matches(&r) {
			continue
		}
		page.Records, page.Next = append(page.Records, r), r.Position
		if len(page.Records) == q.Limit {
			l.read += q.Limit
			page.More = true
			return page, nil
		}
	}
	l.read += len(page.Records)
	if end := at(len(l.records)); end.Compare(page.Next) > 0 {
		end.Row = 9 // behind the last record, whether the query selects it or not
		page.Next = end
	}
	return page, nil
}

// follow reads to the end from a position on.
func follow(t *testing.T, s Source, q Query) (ids []string, next feed.Position) {
	t.Helper()
	for {
		page, err := s.Read(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			ids = append(ids, r.ID)
		}
		if q.After = page.Next; !page.More {
			return ids, page.Next
		}
	}
}

// Followers of several organizations, and of all of them, read the ledger once together.
func TestFollowersShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		l.add("before", 5)
		tail := NewTail(l, testkit.Logger(t))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tail.Run(ctx) }()
		queries := []Query{{After: at(5), Limit: 100}, {Organization: "a", After: at(5), Limit: 3}, {Organization: "b", After: at(5), Limit: 100}}
		got := make([]int, len(queries))
		for range 20 {
			l.add("a", 7)
			l.add("b", 4)
			time.Sleep(time.Second)
			for i := range queries {
				ids, next := follow(t, tail, queries[i])
				queries[i].After = next
				got[i] += len(ids)
			}
		}
		if diff := cmp.Diff([]int{220, 140, 80}, got); diff != "" {
			t.Errorf("records of the followers (-want +got):\n%s", diff)
		}
		if l.read != 220 {
			t.Errorf("%d records were read, want each of 220 once", l.read)
		}
		if waiting := tail.Waiting(t.Context(), at(215)); waiting != 10 {
			t.Errorf("%d records are behind the position, want 10", waiting)
		}
		if age, followed := tail.Age(time.Now()); age > every || !followed {
			t.Errorf("the tail is %s old, followed %t; want at most %s", age, followed, every)
		}
		l.mu.Lock()
		l.fails = func() bool { return true }
		l.mu.Unlock()
		time.Sleep(time.Minute)
		if age, _ := tail.Age(time.Now()); age < time.Minute-every {
			t.Errorf("the tail is %s old after a minute of failures", age)
		}
		if age, followed := NewTail(l, testkit.Logger(t)).Age(time.Now()); followed {
			t.Errorf("a tail that has no follower is %s old", age)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A first read, a past interval and a follower older than the memory go to the source, with the same results.
func TestReadsOfOne(t *testing.T) {
	l := &ledger{}
	l.add("a", 30)
	tail := NewTail(l, testkit.Logger(t))
	if ids, _ := follow(t, tail, Query{After: at(20), Limit: 4}); len(ids) != 10 {
		t.Fatalf("the tail has %d records, want 10", len(ids))
	}
	for name, tt := range map[string]struct {
		query Query
		want  int
	}{
		"from the beginning": {Query{Limit: 7}, 30},
		"behind the tail":    {Query{After: at(3), Limit: 7}, 27},
		"an interval":        {Query{After: at(22), Until: day.Add(25), Limit: 7}, 2},
		"since a time":       {Query{After: at(20), Since: day.Add(28), Limit: 7}, 3},
		"another's":          {Query{After: at(20), Organization: "b", Limit: 7}, 0},
	} {
		if ids, next := follow(t, tail, tt.query); len(ids) != tt.want || tt.query.Until.IsZero() && next.Compare(at(30)) < 0 {
			t.Errorf("%s: %d records up to %v, want %d", name, len(ids), next, tt.want)
		}
	}
}

// A follower that caught up by reading the source joins the others without discarding what they still need.
func TestFollowerAheadJoins(t *testing.T) {
	l := &ledger{}
	l.add("a", 10)
	tail := NewTail(l, testkit.Logger(t))
	_, others := follow(t, tail, Query{After: at(5), Limit: 100})
	l.add("a", 10)
	_, joining := follow(t, tail, Query{Limit: 100})
	if joining.Compare(others) <= 0 {
		t.Fatalf("it is at %v, the others at %v; want it ahead", joining, others)
	}
	follow(t, tail, Query{After: joining, Limit: 100})
	reads := l.reads
	if ids, _ := follow(t, tail, Query{After: others, Limit: 100}); len(ids) != 10 || l.reads != reads {
		t.Errorf("the others get %d records with %d reads, want 10 from memory", len(ids), l.reads-reads)
	}
	l.add("a", (ahead+1)*MaxPage)
	_, far := follow(t, l, Query{After: joining, Limit: MaxPage})
	if ids, _ := follow(t, tail, Query{After: far, Limit: 100}); len(ids) != 0 || tail.start != far {
		t.Errorf("far ahead: %d records, the tail begins at %v, want %v", len(ids), tail.start, far)
	}
}

// Memory is bounded, and a slower follower still gets every record.
func TestTailIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		tail := NewTail(l, testkit.Logger(t))
		l.add("a", 1)
		slow := Query{After: at(1), Limit: MaxPage}
		follow(t, tail, slow)
		l.add("a", 5*kept)
		time.Sleep(2 * every)
		ids, _ := follow(t, tail, slow)
		if len(ids) != 5*kept || len(tail.records) > 2*kept || len(tail.records) < kept {
			t.Errorf("read %d records, %d are in memory; want %d, and %d to %d", len(ids), len(tail.records), 5*kept, kept, 2*kept)
		}
		if ids, _ := follow(t, tail, slow); len(ids) != 5*kept {
			t.Errorf("a slow follower gets %d records, want %d", len(ids), 5*kept)
		}
	})
}

// Each follower gets each record once, in order, over failures and restarts of the tail, whatever the followers' paces.
func TestEachFollowerGetsEachRecordOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chance, faults := rand.New(rand.NewPCG(3, 4)), rand.New(rand.NewPCG(5, 6))
		l := &ledger{}
		l.add("a", 3)
		calm := false
		l.fails = func() bool { return !calm && faults.IntN(4) == 0 }
		start := func() (*Tail, func()) {
			ctx, stop := context.WithCancel(t.Context())
			tail := NewTail(l, testkit.Logger(t))
			done := make(chan struct{})
			go func() { _ = tail.Run(ctx); close(done) }()
			return tail, func() { stop(); <-done }
		}
		tail, stop := start()
		followers := make([]Query, 6)
		got := make([][]string, len(followers))
		turn := func(i int) {
			page, err := tail.Read(t.Context(), followers[i])
			if err != nil {
				return
			}
			for _, r := range page.Records {
				got[i] = append(got[i], r.ID)
			}
			followers[i].After = page.Next
		}
		for i := range followers {
			followers[i].Limit = 1 + chance.IntN(40)
		}
		for range 800 {
			l.add("a", chance.IntN(30))
			time.Sleep(time.Duration(chance.IntN(300)) * time.Millisecond)
			turn(chance.IntN(len(followers)))
			if chance.IntN(100) == 0 {
				stop()
				tail, stop = start()
			}
		}
		l.mu.Lock()
		calm = true
		l.mu.Unlock()
		for i := range followers {
			for len(got[i]) < len(l.records) {
				turn(i)
				time.Sleep(time.Millisecond)
			}
			for place, id := range got[i] {
				if id != fmt.Sprint(place+1) {
					t.Fatalf("follower %d got %s in place %d", i, id, place+1)
				}
			}
		}
		stop()
	})
}
