// Package growth tests that processor time, allocated memory and stack grow no
// faster than linearly with the size of an input, or nearly so. It compares runs
// of different sizes with each other, never with a clock. Only tests import it.
package growth

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// Row is one way in which an input may grow.
type Row struct {
	Name string
	// Top is the largest number of units, DefaultTop if it is zero.
	Top int
	// Make prepares an input of n units and returns what is done with it, once for
	// each run. Only what it returns is measured.
	Make func(n int) func()
}

// DefaultTop is the largest number of units of a row that says nothing else.
const DefaultTop = 1 << 17

const (
	// step is the factor between the two sizes that are compared, and most what the
	// larger may cost of the smaller: linear work costs 8 times as much, n log n less
	// than 11, quadratic 64, so that 24 is a factor of about 2.5 away from either side.
	step, most = 8, 24

	// Below these a size costs too little for its growth to matter or to be measured.
	leastTime  = 2 * time.Millisecond
	leastBytes = 4 << 20

	// mostStack is what the goroutine of a run may need, in bytes. The decoders of
	// encoding/json and protojson, which end at a depth of 10,000, need less.
	mostStack = 8 << 20

	// enough ends the search for a larger size.
	enough = 300 * time.Millisecond

	// attempts is how often a pair is measured before it fails, rounds how many runs
	// of each size are made in one of them, of which the cheapest counts.
	attempts, rounds = 3, 3

	// garbage is what is left to lie between runs.
	garbage = 128 << 20
)

// Linear runs each row as a subtest, from few units up to its top, and fails those
// in which eight times the units cost more than 24 times the processor time or
// memory, or any size needs more than 8 MiB of stack.
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

// undisturbed switches the collector off until a gigabyte is in use: its cycles
// would fall on some runs and not on others. A goroutine outside of the measured
// one that recurses without a bound ends the process at 64 MiB of stack, not at 1 GB.
func undisturbed(t *testing.T) {
	t.Helper()
	percent, limit, stack := debug.SetGCPercent(-1), debug.SetMemoryLimit(1<<30), debug.SetMaxStack(8*mostStack)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
		debug.SetMaxStack(stack)
	})
}

// sizes are the numbers of units that are tried: a few small ones, at which work
// that doubles with each unit is seen before it never ends, and then up to top in
// steps of eight.
func sizes(top int) []int {
	all := []int{8, 16, 24}
	for n := max(1, top/(step*step*step)); n < top; n *= step {
		if n > all[len(all)-1] {
			all = append(all, n)
		}
	}
	return append(all, top)
}

// check gives the first pair of neighbouring sizes that is out of proportion.
func (r Row) check() error {
	top := r.Top
	if top == 0 {
		top = DefaultTop
	}
	if top < 4*step {
		return fmt.Errorf("a top of %d units shows no growth", top)
	}
	if _, err := r.run(2); err != nil { // Warms up tables, pools and connections.
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

// confirm measures a pair again, more than once, so that noise fails no test.
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
			if b.time > 4*enough { // No noise is that loud.
				break
			}
		}
		if err = compare(small, large); err == nil {
			return nil
		}
	}
	return err
}

// cost is what a run took.
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

// compare says what has grown out of proportion between two sizes.
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

// run makes an input and measures what is done with it, in a goroutine of its own
// whose stack begins small and, without a collection, keeps the size it has grown to.
//
// Time is the processor time of the whole process: it leaves out what other
// processes take of the machine and what a handler waits for, and has in it what
// is done in other goroutines on behalf of the run.
func (r Row) run(units int) (cost, error) {
	work := r.Make(units)
	var before, after runtime.MemStats
	if runtime.ReadMemStats(&before); before.HeapAlloc > garbage {
		runtime.GC()
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

// ProcessorTime is what the process has taken so far, in user and system mode, the
// garbage collector's part included.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // There is no such system.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
