// Package growth tests that processor time, allocated memory and stack grow at most linearly, or nearly so, with the
// size of an input. It compares runs of different sizes with each other and never with an absolute time. Only tests
// import it.
package growth

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Row is one way in which an input may grow.
type Row struct {
	Name string
	// Top is the largest number of units; zero means DefaultTop.
	Top int
	// Make prepares an input of n units and returns the work to do with it, once for each run. Only the returned
	// function is measured.
	Make func(n int) func()
}

// DefaultTop is the largest number of units of a row with Top zero.
const DefaultTop = 1 << 17

const (
	// step is the ratio of two compared sizes. most is the maximum ratio of their costs: linear work costs 8 times as
	// much, n log n less than 11, quadratic 64, so that 24 is a factor of about 2.5 away from both.
	step, most = 8, 24

	// Below these costs, growth neither matters nor can be measured.
	leastTime  = 5 * time.Millisecond
	leastBytes = 4 << 20

	// mostStack is the maximum stack of a run's goroutine, in bytes. The decoders of encoding/json and protojson, which
	// stop at a depth of 10,000, need less.
	mostStack = 8 << 20

	// enough is the time of a run after which no larger size is tried.
	enough = 300 * time.Millisecond

	// attempts is how often a pair is measured before it fails. rounds is how many runs of each size are made in one
	// attempt, of which the cheapest counts.
	attempts, rounds = 3, 3

	// garbage is how much memory may remain uncollected between runs, in bytes.
	garbage = 128 << 20
)

// live is the memory that was in use after the last collection: what a test keeps is no garbage.
var live atomic.Uint64

// Linear runs each row as a subtest, from few units up to its top. A row fails if eight times the units cost more than
// 24 times the processor time or memory, or if any size needs more than 8 MiB of stack.
func Linear(t *testing.T, rows ...Row) {
	t.Helper()
	if len(rows) == 0 {
		t.Fatal("no rows")
	}
	if distorted {
		t.Skip("the race detector costs more than what is measured; make bench runs this test")
	}
	undisturbed(t)
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			if err := row.check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// undisturbed switches the garbage collector off until a gigabyte is in use, because its cycles would affect some runs
// and not others. It also lowers the maximum stack, so that unbounded recursion in a goroutine other than the measured
// one ends the process at 64 MiB and not at 1 GB.
func undisturbed(t *testing.T) {
	t.Helper()
	percent, limit, stack := debug.SetGCPercent(-1), debug.SetMemoryLimit(1<<30), debug.SetMaxStack(8*mostStack)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
		debug.SetMaxStack(stack)
	})
}

// sizes returns the numbers of units to try: a few small ones, which detect work that doubles with each unit before a
// run never ends, and then up to top in steps of eight.
func sizes(top int) []int {
	all := []int{8, 16, 24}
	for n := max(1, top/(step*step*step)); n < top; n *= step {
		if n > all[len(all)-1] {
			all = append(all, n)
		}
	}
	return append(all, top)
}

// check returns an error for the first pair of neighbouring sizes whose costs are out of proportion.
func (r Row) check() error {
	top := r.Top
	if top == 0 {
		top = DefaultTop
	}
	if top < 4*step {
		return fmt.Errorf("a top of %d units shows no growth", top)
	}
	if _, err := r.run(2); err != nil { // Warm up tables, pools and connections.
		return err
	}
	var before cost
	for i, n := range sizes(top) {
		now, err := r.run(n)
		if err != nil {
			return err
		}
		if i > 0 && compare(before, now) != nil {
			if err := r.confirm(before.units, n); err != nil {
				return err
			}
		}
		if now.time > enough {
			return nil
		}
		before = now
	}
	return nil
}

// confirm measures a pair again, several times, so that noise fails no test.
func (r Row) confirm(few, many int) (err error) {
	for range attempts {
		var small, large cost
		for round := range rounds {
			a, err := r.run(few)
			if err != nil {
				return err
			}
			b, err := r.run(many)
			if err != nil {
				return err
			}
			small, large = least(small, a, round), least(large, b, round)
			if b.time > 4*enough { // Noise can't cause that much.
				break
			}
		}
		if err = compare(small, large); err == nil {
			return nil
		}
	}
	return err
}

// cost is the cost of a run.
type cost struct {
	units int
	time  time.Duration
	bytes uint64
}

func least(a, b cost, round int) cost {
	if round == 0 {
		return b
	}
	return cost{a.units, min(a.time, b.time), min(a.bytes, b.bytes)}
}

// compare returns an error if time or memory has grown out of proportion between two sizes.
func compare(small, large cost) error {
	if large.bytes > leastBytes && large.bytes > most*max(small.bytes, leastBytes/most/step) {
		return fmt.Errorf("%d units allocate %.0f times the memory of %d (%d bytes, not %d), want %d times at most",
			large.units, float64(large.bytes)/float64(max(small.bytes, 1)), small.units, large.bytes, small.bytes, most)
	}
	if large.time > leastTime && large.time > most*max(small.time, leastTime/most/step) {
		return fmt.Errorf("%d units take %.0f times the processor time of %d (%v, not %v), want %d times at most",
			large.units, float64(large.time)/float64(max(small.time, 1)), small.units, large.time, small.time, most)
	}
	return nil
}

// run makes an input and measures the work in its own goroutine, whose stack starts small and, without garbage
// collection, keeps the size that it grew to.
//
// Time is the processor time of the whole process. It excludes other processes and the time that a handler waits, and
// includes what other goroutines do on behalf of the run.
func (r Row) run(units int) (cost, error) {
	work := r.Make(units)
	var before, after runtime.MemStats
	if runtime.ReadMemStats(&before); before.HeapAlloc > live.Load()+garbage {
		runtime.GC()
		runtime.ReadMemStats(&before)
		live.Store(before.HeapAlloc)
	}
	var spent time.Duration
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.ReadMemStats(&before)
		begin := ProcessorTime()
		panicked = safely(work)
		spent = ProcessorTime() - begin
		runtime.ReadMemStats(&after)
	}()
	<-done
	if panicked != nil {
		return cost{}, fmt.Errorf("%d units: panic: %v", units, panicked)
	}
	if after.StackInuse > before.StackInuse+mostStack {
		return cost{}, fmt.Errorf("%d units need %d MiB of stack, want %d at most: is there recursion without a bound?",
			units, (after.StackInuse-before.StackInuse)>>20, mostStack>>20)
	}
	return cost{units: units, time: spent, bytes: after.TotalAlloc - before.TotalAlloc}, nil
}

func safely(work func()) (panicked any) {
	defer func() { panicked = recover() }()
	work()
	return nil
}

// ProcessorTime returns the time that the process has used so far in user and system mode, including the garbage
// collector.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // Never happens on a supported system.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
