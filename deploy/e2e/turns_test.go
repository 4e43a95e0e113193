//go:build e2e

package e2e_test

import (
	"flag"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Tests that compare durations or allow little time, and those that measure processes, aren't parallel: they run first,
// with no other test beside them. All other tests are parallel. They wait here, not in package testing, whose bound
// would count a test that waits for its stack as one that runs.
var (
	// stackTurns are the turns of tests that use stacks; tests of a stack that they use one by one have one together. Such
	// a test waits much of its time: for a vendor, a lease or a restart; the bounds of these waits leave room for one turn
	// more than there are processors, and not for more.
	stackTurns = newTurns(runtime.GOMAXPROCS(0) + 1)

	// idleTurns are those of the tests of idle plans: one is beside the tests that have one of stackTurns.
	idleTurns = newTurns(1)

	// programTurns are the turns of parallel subtests that run programs of others, each of which keeps a processor busy.
	programTurns = newTurns(runtime.GOMAXPROCS(0))
)

// turns lets few tests go on at a time.
type turns struct {
	mu      sync.Mutex
	ended   *sync.Cond
	most    int
	holders map[string]int // how many tests and subtests have a turn together, by the name of the test or stack
	first   int            // waiting tests that go before the others
}

func newTurns(most int) *turns {
	u := &turns{most: most, holders: map[string]int{}}
	u.ended = sync.NewCond(&u.mu)
	return u
}

// take waits for a turn, which ends with the test and its cleanup. A test and its subtests have one turn together. A
// test that goes first doesn't wait for others that wait.
func (u *turns) take(t *testing.T, name string, first bool) {
	t.Helper()
	begun := time.Now()
	u.begin(name, first)
	t.Cleanup(func() { u.end(name) })
	if waited := time.Since(begun).Round(time.Second); waited > 0 { // It is in the time that package testing reports.
		t.Logf("waited %s for its turn", waited)
	}
}

func (u *turns) begin(name string, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if first {
		u.first++
	}
	for u.holders[name] == 0 && (len(u.holders) >= u.most || !first && u.first > 0) {
		u.ended.Wait()
	}
	if first {
		u.first--
		u.ended.Broadcast() // There may be a turn for those that it went before, too.
	}
	u.holders[name]++
}

func (u *turns) end(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.holders[name]--; u.holders[name] == 0 {
		delete(u.holders, name)
	}
	u.ended.Broadcast()
}

// has reports whether a test has a turn.
func (u *turns) has(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.holders[name] > 0
}

// root returns the name of the test that t is or belongs to.
func root(t *testing.T) string {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// boundTests makes -parallel, where it is given, the bound of [stackTurns], and removes that of package testing.
func boundTests() error {
	flag.Visit(func(f *flag.Flag) {
		if n, err := strconv.Atoi(f.Value.String()); f.Name == "test.parallel" && err == nil {
			stackTurns.most = n
		}
	})
	return flag.Set("test.parallel", strconv.Itoa(1<<16))
}

// A turn is free when a test and all its subtests have ended. It goes to a test that goes first, even if it came later.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newTurns(2)
		for _, name := range []string{"a", "b", "a"} {
			u.begin(name, false)
		}
		got := make(chan string, 2)
		for _, test := range []struct {
			name  string
			first bool
		}{{"later", false}, {"first", true}} {
			go func() {
				u.begin(test.name, test.first)
				got <- test.name
			}()
			synctest.Wait()
		}
		for _, step := range []struct{ ends, begins string }{{"a", ""}, {"a", "first"}, {"b", "later"}} {
			u.end(step.ends)
			synctest.Wait()
			begins := ""
			select {
			case begins = <-got:
			default:
			}
			if begins != step.begins || len(got) > 0 {
				t.Errorf("when %s ends, %q begins, want %q", step.ends, begins, step.begins)
			}
		}
	})
}
