package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/proc"
)

// cost is processor time.
type cost struct {
	// services is by process on the way, in the order of target.pids; control is the edge's control, store is Postgres.
	services       [2]time.Duration
	control, store time.Duration
}

// onWay returns the processor time of all services on the way.
func (c cost) onWay() time.Duration { return c.services[0] + c.services[1] }

// combine applies f to each pair of parts of two costs.
func (c cost) combine(other cost, f func(a, b time.Duration) time.Duration) cost {
	for i := range c.services {
		c.services[i] = f(c.services[i], other.services[i])
	}
	c.control, c.store = f(c.control, other.control), f(c.store, other.store)
	return c
}

// plus returns the sum of two costs.
func (c cost) plus(other cost) cost {
	return c.combine(other, func(a, b time.Duration) time.Duration { return a + b })
}

// minus returns what was spent since before.
func (c cost) minus(before cost) cost {
	return c.combine(before, func(a, b time.Duration) time.Duration { return a - b })
}

// times returns the cost multiplied by a factor.
func (c cost) times(factor float64) cost {
	return c.combine(cost{}, func(a, _ time.Duration) time.Duration { return time.Duration(float64(a) * factor) })
}

// each returns the cost of one of n requests; without any it returns the whole.
func (c cost) each(n int) cost { return c.times(1 / float64(max(n, 1))) }

// beyond returns by how much each part exceeds the same part of other; a part that doesn't is 0.
func (c cost) beyond(other cost) cost {
	return c.combine(other, func(a, b time.Duration) time.Duration { return max(0, a-b) })
}

// spent returns the processor time that the processes of a way have used so far.
func (t *target) spent() cost {
	c := cost{services: t.used(), store: t.stored()}
	if t.control != 0 {
		c.control = used([]int{t.control})
	}
	return c
}

// used returns the processor time of each process on the way.
func (t *target) used() (each [2]time.Duration) {
	for i, pid := range t.pids {
		each[i] = used([]int{pid})
	}
	return each
}

// stored returns the processor time of Postgres; 0 for a way without it.
func (t *target) stored() time.Duration {
	if t.stores == nil {
		return 0
	}
	return used(t.stores())
}

// used returns the processor time of processes; a process that has ended counts as zero.
func used(pids []int) time.Duration {
	var sum time.Duration
	for _, pid := range pids {
		spent, err := proc.CPU(pid)
		if err == nil {
			sum += spent
		}
	}
	return sum
}

// exportReader reads how far a stack's exports of usage are. It is nil for a way without exports.
type exportReader struct{ stack *stack.Stack }

// exported holds the cursors of all exports, by destination and source.
type exported map[[2]string]exportCursor

// exportCursor is how far a destination has come with a source of usage.
type exportCursor struct {
	Source  string
	Sent    int
	Refused int
	// Failure is why the destination's last try failed, empty if it didn't.
	Failure string
}

// read returns the cursors, none for a nil reader.
func (x *exportReader) read(ctx context.Context) (exported, error) {
	if x == nil {
		return nil, nil
	}
	var answer struct {
		Destinations []struct {
			Name    string
			Exports []exportCursor
		}
	}
	if err := operate(ctx, x.stack, http.MethodGet, "/admin/v1/exports", "", &answer); err != nil {
		return nil, err
	}
	all := make(exported)
	for _, d := range answer.Destinations {
		for _, c := range d.Exports {
			all[[2]string{d.Name, c.Source}] = c
		}
	}
	return all, nil
}

// covers reports whether each destination has taken or refused at least one ledger event a call since before, and none
// is failing.
func (e exported) covers(before exported, calls int) bool {
	ledgers := 0
	for name, c := range e {
		if c.Failure != "" {
			return false
		}
		if c.Source != "ledger" {
			continue
		}
		ledgers++
		if c.Sent+c.Refused-before[name].Sent-before[name].Refused < calls {
			return false
		}
	}
	return ledgers > 0
}

// failures says which exports fail or were refused events; empty if none.
func (e exported) failures() string {
	var all []string
	for name, c := range e {
		if c.Failure != "" {
			all = append(all, name[0]+": "+c.Failure)
		}
		if c.Refused > 0 {
			all = append(all, fmt.Sprintf("%s refused %d events", name[0], c.Refused))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

const (
	// settleTime bounds the wait for exports to catch up with the calls of a measurement.
	settleTime = time.Minute
	// settlePoll is the time between two looks at the exports.
	settlePoll = 200 * time.Millisecond
	// settleQuiet is for how long cursors must stand still: as long as a step of an export, which the lease bounds.
	settleQuiet = time.Second
)

// settle waits until the stack's exports have caught up with calls made since before. It returns what the way's
// processes spent until then beyond their idle cost, and whether the exports caught up within settleTime. The quiet
// time at the end does not count. Without exports settle returns at once.
func (t *target) settle(ctx context.Context, before exported, calls int) (spent cost, settled bool, err error) {
	if t.exports == nil {
		return cost{}, true, nil
	}
	begin, start, last := t.spent(), time.Now(), before
	moved := start
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	for time.Since(start) < settleTime {
		now, err := t.exports.read(ctx)
		if err != nil {
			return spent, false, fmt.Errorf("read how far exports are: %w", err)
		}
		if !maps.Equal(now, last) {
			last, moved = now, time.Now()
			spent = t.spent().minus(begin).beyond(t.idle.times(moved.Sub(start).Seconds()))
		} else if now.covers(before, calls) && time.Since(moved) >= settleQuiet {
			return spent, true, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return spent, false, ctx.Err()
		}
	}
	fmt.Fprintf(os.Stderr, "  %s: exports are behind after %s; %s\n", t.name, settleTime, last.failures())
	return spent, false, nil
}

// spentBy returns what the processes of each way have used so far.
func spentBy(targets []target) []cost {
	all := make([]cost, len(targets))
	for i := range targets {
		all[i] = targets[i].spent()
	}
	return all
}

// setIdle sets each way's idle cost to what its processes spent in a second since before, a time without calls.
func setIdle(targets []target, before []cost, since time.Time) {
	for i, now := range spentBy(targets) {
		targets[i].idle = now.minus(before[i]).times(1 / time.Since(since).Seconds())
	}
}
