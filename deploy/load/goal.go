package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// goal is a target of the report. It is printed beside what was measured and fails nothing, because a shared machine
// is too noisy to judge a change by one run.
type goal struct {
	text string
	// ways names the ways that the goal applies to, as in -ways.
	ways []string
	// limit is the highest good value, or the lowest if atLeast is set.
	limit   float64
	atLeast bool
	// format renders a value, such as "%.2fx".
	format string
	value  func(beside) float64
}

// beside holds a way's figures and the figures to compare them with.
type beside struct {
	figures

	// floor is one relay, or two relays for a way through the edge.
	provider, relay, floor figures
}

var (
	asyncWays = []string{"contract", "translated", "responses", "async"}
	aloneWays = append(slices.Clone(asyncWays), "synced", "committed")
	edgeWays  = []string{"edge-async", "edge-synced", "edge-committed"}
	// durableWays wait for a disk before they answer.
	durableWays = []string{"synced", "committed", "edge-synced", "edge-committed"}
)

// goals lists the targets, without the one on a sync if none was measured.
func goals(s syncs) []goal {
	edgeCPU := func(b beside) float64 {
		return ratio(b.cost[costed].services[0], b.relay.cost[costed].onWay())
	}
	gatewayCPU := func(b beside) float64 { return ratio(b.cost[costed].onWay(), b.relay.cost[costed].onWay()) }
	storedCPU := func(connections int) func(beside) float64 {
		return func(b beside) float64 {
			c := b.cost[connections]
			return ratio(c.onWay()+c.store, b.floor.cost[connections].onWay())
		}
	}
	crowdedRate := func(b beside) float64 { return b.perSecond[crowded] / b.floor.perSecond[crowded] }
	tail := func(b beside) float64 { return ratio(b.p99[1000], b.floor.p99[1000]) }
	eventCPU := func(b beside) float64 { return inMicros(b.event) }
	const times, micro = "%.2fx", "%.1f µs"
	all := []goal{
		{"CPU of the edge at 16: at most 1.5x a relay", edgeWays, 1.5, false, times, edgeCPU},
		{"CPU of the gateway at 16, async: at most 2x a relay", asyncWays, 2, false, times, gatewayCPU},
		{"CPU of the gateway at 16, synced: at most 2.2x a relay", []string{"synced"}, 2.2, false, times, gatewayCPU},
		{"CPU of both and Postgres at 16: at most 2.5x two relays", edgeWays, 2.5, false, times, storedCPU(costed)},
		{"CPU of both and Postgres at 64: at most 2.5x two relays", edgeWays, 2.5, false, times, storedCPU(crowded)},
		{"rps of both at 64: at least 0.6x two relays", edgeWays, 0.6, true, times, crowdedRate},
		{"p99 at 1000/s, alone: at most 3x a relay's", aloneWays, 3, false, times, tail},
		{"p99 at 1000/s, both: at most 3x two relays'", edgeWays, 3, false, times, tail},
		{"CPU an event of the gateway: at most 7 µs", aloneWays, 7, false, micro, eventCPU},
		{"CPU an event of both: at most 11 µs", edgeWays, 11, false, micro, eventCPU},
	}
	if s.err == nil {
		all = append(all, addedGoal(s.idle.p50))
	}
	return all
}

// addedGoal returns the target on the median latency beyond the provider's, which allows for one sync of the disk.
func addedGoal(sync time.Duration) goal {
	const beyondSync = 300 * time.Microsecond
	limit := (sync + beyondSync).Seconds() * 1000
	return goal{
		fmt.Sprintf("added p50 at 200/s: at most a sync and 0.3 ms, %.2f ms", limit),
		durableWays, limit, false, "%.2f ms",
		func(b beside) float64 { return (b.p50[200] - b.provider.p50[200]).Seconds() * 1000 },
	}
}

// measured renders the goal's value for each measured way that it applies to, empty if there is none.
func (g goal) measured(targets []target, all []figures) string {
	var parts []string
	for i, f := range all {
		t := targets[i]
		if !slices.Contains(g.ways, t.flag) {
			continue
		}
		value := g.value(beside{f, all[0], all[1], all[len(t.pids)]})
		part := t.flag + " " + fmt.Sprintf(g.format, value)
		if g.atLeast && value < g.limit || !g.atLeast && value > g.limit {
			part += " (missed)"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// goalTable renders the targets of the measured ways.
func goalTable(out io.Writer, targets []target, all []figures, s syncs) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printf(w, "target\tmeasured\n")
	for _, g := range goals(s) {
		if values := g.measured(targets, all); values != "" {
			printf(w, "%s\t%s\n", g.text, values)
		}
	}
	_ = w.Flush()
}
