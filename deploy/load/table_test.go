package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const us = time.Microsecond

// flat returns figures that are the same for all numbers of connections and rates.
func flat(perSecond float64, c cost, p50, p99, event time.Duration) figures {
	f := newFigures()
	f.event = event
	for _, n := range connections {
		f.perSecond[n], f.cost[n] = perSecond, c
	}
	for _, rate := range rates {
		f.p50[rate], f.p99[rate] = p50, p99
	}
	return f
}

// measuredWays returns the provider, the floors, and a way alone and one through the edge, with their figures.
func measuredWays() ([]target, []figures) {
	idle := cost{[2]time.Duration{8 * ms, 57 * ms}, 49 * ms, 140 * ms}
	targets := []target{
		{name: "provider itself"},
		{name: "thin relay (floor)", pids: []int{1}},
		{name: "two relays", pids: []int{1, 2}},
		{flag: "synced", name: "gateway, synced", pids: []int{3}},
		{flag: "edge-synced", name: "edge + gateway, synced", pids: []int{4, 3}, idle: idle},
	}
	all := []figures{
		flat(40000, cost{}, 100*us, 200*us, 0),
		flat(10000, cost{services: [2]time.Duration{100 * us}}, 200*us, 1*ms, 3*us),
		flat(5000, cost{services: [2]time.Duration{100 * us, 100 * us}}, 300*us, 2*ms, 5*us),
		flat(4000, cost{[2]time.Duration{210 * us}, 20 * us, 40 * us}, 600*us, 4*ms, 6*us),
		flat(3000, cost{[2]time.Duration{160 * us, 240 * us}, 30 * us, 60 * us}, 500*us, 5*ms, 12*us),
	}
	return targets, all
}

func TestGoalsBesideMeasuredWays(t *testing.T) {
	t.Parallel()
	targets, all := measuredWays()
	var out strings.Builder
	goalTable(&out, targets, all, syncs{idle: syncTime{p50: 150 * us}})
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"target measured",
		"CPU of the edge at 16: at most 1.5x a relay edge-synced 1.60x (missed)",
		"CPU of the gateway at 16, synced: at most 2.2x a relay synced 2.10x",
		"CPU of both and Postgres at 16: at most 2.5x two relays edge-synced 2.30x",
		"CPU of both and Postgres at 64: at most 2.5x two relays edge-synced 2.30x",
		"rps of both at 64: at least 0.6x two relays edge-synced 0.60x",
		"p99 at 1000/s, alone: at most 3x a relay's synced 4.00x (missed)",
		"p99 at 1000/s, both: at most 3x two relays' edge-synced 2.50x",
		"CPU an event of the gateway: at most 7 µs synced 6.0 µs",
		"CPU an event of both: at most 11 µs edge-synced 12.0 µs (missed)",
		"added p50 at 200/s: at most a sync and 0.3 ms, 0.45 ms synced 0.50 ms (missed), edge-synced 0.40 ms",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("targets are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestGoalsWithoutSync(t *testing.T) {
	t.Parallel()
	for _, g := range goals(syncs{err: errors.New("no disk")}) {
		if strings.Contains(g.text, "sync and") {
			t.Errorf("%q is a target although no sync was measured", g.text)
		}
	}
}

func TestGatewayReport(t *testing.T) {
	t.Parallel()
	targets, all := measuredWays()
	all[4].unsettled = 2
	report := gatewayReport(gatewayPlan{rounds: 1, limited: true, exports: true}, targets, all, syncs{})
	for _, want := range []string{
		"the organization on a plan with limits of calls, tokens and cents, exports of usage to three billing systems",
		"160+240 µs    30 µs     60 µs",
		"edge + gateway, synced    0.60x  2.00x          2.30x        2.45x",
		"Left out: client, provider, billing systems, Redis, webhook-egress, notify.",
		"on the way 8+57 ms, control 49 ms, Postgres 140 ms.",
		"edge + gateway, synced: exports were still behind 1m0s after 2 of the measurements",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	report = gatewayReport(gatewayPlan{rounds: 1}, targets[:4], all[:4], syncs{})
	for _, want := range []string{"without a plan, no exports of usage", "what they do afterwards is left out"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report without plan and exports lacks %q:\n%s", want, report)
		}
	}
	if strings.Contains(report, "billing systems") {
		t.Errorf("the report without exports names billing systems:\n%s", report)
	}
}

func TestMedianOfRounds(t *testing.T) {
	t.Parallel()
	var rounds []figures
	for i, n := range []time.Duration{3, 1, 2} {
		f := flat(float64(n), cost{[2]time.Duration{n, 10 * n}, 100 * n, 1000 * n}, n, 2*n, n)
		f.failed, f.unsettled, f.streams = i, 1, parallelStreams-i
		rounds = append(rounds, f)
	}
	m := median(rounds)
	want := cost{[2]time.Duration{2, 20}, 200, 2000}
	if got := m.cost[costed]; got != want || m.perSecond[1] != 2 || m.p99[200] != 4 {
		t.Errorf("medians are cost %v, want %v; %v requests a second, p99 %v", got, want, m.perSecond[1], m.p99[200])
	}
	if m.failed != 3 || m.unsettled != 3 || m.streams != parallelStreams-2 {
		t.Errorf("%d failed, %d unsettled, %d streams; want sums and the least", m.failed, m.unsettled, m.streams)
	}
}

func TestParseGatewayFlags(t *testing.T) {
	t.Parallel()
	var plan gatewayPlan
	err := plan.parse([]string{"-ways", "synced,edge-synced"})
	if err != nil || !plan.limited || !plan.exports || !plan.wantsMode("synced") || plan.wantsMode("async") {
		t.Errorf("plan is %+v, %v; want the organization limited, exports, and the synced stack alone", plan, err)
	}
	if err := plan.parse([]string{"-plan=false", "-exports=false"}); err != nil || plan.limited || plan.exports {
		t.Errorf("plan is %+v, %v; want no plan and no exports", plan, err)
	}
	if plan.parse([]string{"-ways", "nowhere"}) == nil {
		t.Error("a way that doesn't exist is no error")
	}
}
