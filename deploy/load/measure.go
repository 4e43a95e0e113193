package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"switchyard.dev/deploy/load/drive"
)

// figures holds the figures of one way, each the median of the rounds.
type figures struct {
	// perSecond is the rate by number of connections.
	perSecond map[int]float64
	// cost is per request, by number of connections.
	cost map[int]cost
	// steady is the processor time of Postgres per request at storeRate.
	steady time.Duration
	// event is the processor time of the services per event of streams without pauses, at 16 connections.
	event time.Duration
	// p50 and p99 are latencies of the open loop by rate, first50 and first99 times to the first byte of a stream.
	p50, p99         map[int]time.Duration
	first50, first99 time.Duration
	// streams counts the complete ones among the streams held open at a time.
	streams int
	failed  int
	// unsettled counts the measurements with which the exports did not catch up within settleTime.
	unsettled int
}

func newFigures() figures {
	return figures{
		perSecond: make(map[int]float64), cost: make(map[int]cost),
		p50: make(map[int]time.Duration), p99: make(map[int]time.Duration),
	}
}

var (
	connections = []int{1, 16, 64}
	// rates are requests per second of the open loop.
	rates = []int{200, 1000}
)

// storeRate is the rate of the open loop at which the processor time of Postgres is measured.
const storeRate = 2000

// costed is the number of connections whose processor time is in the table; crowded is the highest.
const costed, crowded = 16, 64

// asShipped builds the programs as for images: guided by profiles.
var asShipped = []string{"-pgo=auto"}

const parallelStreams = 512

// measureGateway measures each way in turn, round by round, so that a busy moment of the machine affects all of them.
func measureGateway(ctx context.Context, plan gatewayPlan, targets []target) (string, error) {
	if plan.rounds == 0 {
		memory, err := soak(ctx, plan, targets[firstWay])
		return machine() + "\n" + memory, err
	}
	rounds := make([][]figures, len(targets))
	for round := range plan.rounds {
		before, start := spentBy(targets), time.Now()
		for i := range targets {
			if i == firstWay { // The stacks were idle while the provider and the floors were measured.
				setIdle(targets, before, start)
			}
			t := targets[i]
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, plan.rounds, t.name)
			f, err := measure(ctx, plan, t)
			if err != nil {
				return "", fmt.Errorf("%s: %w", t.name, err)
			}
			rounds[i] = append(rounds[i], f)
		}
	}
	medians := make([]figures, len(targets))
	for i := range targets {
		medians[i] = median(rounds[i])
	}
	report := gatewayReport(plan, targets, medians, measureSyncs())
	memory, err := soak(ctx, plan, targets[firstWay])
	return report + memory, err
}

func measure(ctx context.Context, plan gatewayPlan, t target) (figures, error) {
	f := newFigures()
	for _, step := range []func(context.Context, gatewayPlan, target) error{f.throughput, f.latency, f.streaming} {
		if err := step(ctx, plan, t); err != nil {
			return f, err
		}
	}
	return f, nil
}

// run drives a load and waits until the stack's exports have caught up with it, so that no backlog reaches the next
// measurement. It returns what all calls cost: what was spent until the last answer, and afterwards beyond the idle
// cost.
func (f *figures) run(ctx context.Context, t target, load drive.Load) (*drive.Result, cost, error) {
	sent, err := t.exports.read(ctx)
	if err != nil {
		return nil, cost{}, err
	}
	before := t.spent()
	result, err := drive.Run(ctx, load)
	if err != nil {
		return nil, cost{}, err
	}
	during := t.spent().minus(before)
	f.failed += result.Failed
	if result.Failure != nil {
		fmt.Fprintln(os.Stderr, "  failed:", result.Failure)
	}
	afterwards, settled, err := t.settle(ctx, sent, result.Done())
	if !settled {
		f.unsettled++
	}
	return result, during.plus(afterwards), err
}

// throughput measures whole answers in a closed loop, and what they cost.
func (f *figures) throughput(ctx context.Context, plan gatewayPlan, t target) error {
	for _, n := range connections {
		result, spent, err := f.run(ctx, t, drive.Load{Request: t.chat, Connections: n, Time: plan.round})
		if err != nil {
			return err
		}
		f.perSecond[n], f.cost[n] = result.PerSecond(), spent.each(result.Done())
	}
	return nil
}

// latency measures whole answers in an open loop.
func (f *figures) latency(ctx context.Context, plan gatewayPlan, t target) error {
	load := drive.Load{Request: t.chat, Connections: 64, Time: plan.round}
	for _, rate := range rates {
		load.Rate = float64(rate)
		result, _, err := f.run(ctx, t, load)
		if err != nil {
			return err
		}
		f.p50[rate], f.p99[rate] = quantiles(result.Latency)
	}
	if t.stores == nil {
		return nil
	}
	load.Rate = storeRate
	result, spent, err := f.run(ctx, t, load)
	if err != nil {
		return err
	}
	f.steady = spent.each(result.Done()).store
	return nil
}

// streaming measures the first byte of paced streams, many of them at a time, and what an event costs without pauses.
func (f *figures) streaming(ctx context.Context, plan gatewayPlan, t target) error {
	check := wantText(plan.pieces)
	many := drive.Load{Request: t.stream, Connections: parallelStreams, Rate: 50, Time: plan.round, Check: check}
	result, _, err := f.run(ctx, t, many)
	if err != nil {
		return err
	}
	f.first50, f.first99 = quantiles(result.First)
	held := drive.Load{Request: t.stream, Connections: parallelStreams, Count: parallelStreams, Check: check}
	if result, _, err = f.run(ctx, t, held); err != nil {
		return err
	}
	f.streams = result.Done()
	burst := drive.Load{Request: t.burst, Connections: costed, Time: plan.round, Check: check}
	result, spent, err := f.run(ctx, t, burst)
	if err != nil {
		return err
	}
	f.event = spent.each(result.Done() * plan.pieces).onWay()
	return nil
}

type histogram interface{ ValueAtQuantile(q float64) int64 }

func quantiles(h histogram) (p50, p99 time.Duration) {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond }
	return at(50), at(99)
}

// median returns the median of each figure by itself; failures and unsettled measurements add up.
func median(rounds []figures) figures {
	m := newFigures()
	m.streams = parallelStreams
	middle := func(of func(figures) float64) float64 {
		all := make([]float64, len(rounds))
		for i, round := range rounds {
			all[i] = of(round)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	duration := func(of func(figures) time.Duration) time.Duration {
		return time.Duration(middle(func(f figures) float64 { return float64(of(f)) }))
	}
	for _, n := range connections {
		m.perSecond[n] = middle(func(f figures) float64 { return f.perSecond[n] })
		m.cost[n] = cost{
			services: [2]time.Duration{
				duration(func(f figures) time.Duration { return f.cost[n].services[0] }),
				duration(func(f figures) time.Duration { return f.cost[n].services[1] }),
			},
			control: duration(func(f figures) time.Duration { return f.cost[n].control }),
			store:   duration(func(f figures) time.Duration { return f.cost[n].store }),
		}
	}
	m.steady = duration(func(f figures) time.Duration { return f.steady })
	m.event = duration(func(f figures) time.Duration { return f.event })
	m.first50 = duration(func(f figures) time.Duration { return f.first50 })
	m.first99 = duration(func(f figures) time.Duration { return f.first99 })
	for _, rate := range rates {
		m.p50[rate] = duration(func(f figures) time.Duration { return f.p50[rate] })
		m.p99[rate] = duration(func(f figures) time.Duration { return f.p99[rate] })
	}
	for _, round := range rounds {
		m.failed, m.unsettled = m.failed+round.failed, m.unsettled+round.unsettled
		m.streams = min(m.streams, round.streams)
	}
	return m
}
