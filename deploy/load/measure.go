package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"switchyard.dev/deploy/load/drive"
	"switchyard.dev/deploy/load/proc"
)

// figures holds the figures of one way, each the median of the rounds.
type figures struct {
	// perSecond is the rate by number of connections.
	perSecond map[int]float64
	// cpu is the processor time per request at the most connections.
	cpu time.Duration
	// p50 and p99 are of the open loop, first50 and first99 to the first byte of a stream.
	p50, p99, first50, first99 time.Duration
	// streams counts the complete ones among the streams held open at a time.
	streams int
	failed  int
}

var connections = []int{1, 16, 64}

// asShipped builds the programs as for images: guided by profiles.
var asShipped = []string{"-pgo=auto"}

const parallelStreams = 512

// measureGateway measures each way in turn, round by round, so that a busy moment of the machine affects all of them.
func measureGateway(ctx context.Context, plan gatewayPlan, targets []target) (string, error) {
	if plan.rounds == 0 {
		memory, err := soak(ctx, plan, targets[2])
		return machine() + "\n" + memory, err
	}
	rounds := make([][]figures, len(targets))
	for round := range plan.rounds {
		for i, t := range targets {
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
	report := table(plan, targets, medians)
	memory, err := soak(ctx, plan, targets[2])
	return report + memory, err
}

func measure(ctx context.Context, plan gatewayPlan, t target) (figures, error) {
	f := figures{perSecond: make(map[int]float64)}
	for _, n := range connections {
		before := used(t.pids)
		result, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: n, Time: plan.round})
		if err != nil {
			return f, err
		}
		f.note(result)
		f.perSecond[n] = result.PerSecond()
		f.cpu = (used(t.pids) - before) / time.Duration(max(result.Done(), 1))
	}
	result, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: 64, Rate: plan.rate, Time: plan.round})
	if err != nil {
		return f, err
	}
	f.note(result)
	f.p50, f.p99 = quantiles(result.Latency)
	check := wantText(plan.pieces)
	if result, err = drive.Run(ctx, drive.Load{Request: t.stream, Connections: 64, Rate: 50, Time: plan.round, Check: check}); err != nil {
		return f, err
	}
	f.note(result)
	f.first50, f.first99 = quantiles(result.First)
	result, err = drive.Run(ctx, drive.Load{Request: t.stream, Connections: parallelStreams, Count: parallelStreams, Check: check})
	if err != nil {
		return f, err
	}
	f.note(result)
	f.streams = result.Done()
	return f, nil
}

func (f *figures) note(r *drive.Result) {
	f.failed += r.Failed
	if r.Failure != nil {
		fmt.Fprintln(os.Stderr, "  failed:", r.Failure)
	}
}

type histogram interface{ ValueAtQuantile(q float64) int64 }

func quantiles(h histogram) (p50, p99 time.Duration) {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond }
	return at(50), at(99)
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

// median returns the median of each figure by itself; failures add up.
func median(rounds []figures) figures {
	m := figures{perSecond: make(map[int]float64), streams: parallelStreams}
	middle := func(of func(figures) float64) float64 {
		all := make([]float64, len(rounds))
		for i, round := range rounds {
			all[i] = of(round)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for _, n := range connections {
		m.perSecond[n] = middle(func(f figures) float64 { return f.perSecond[n] })
	}
	for _, part := range []struct {
		into *time.Duration
		of   func(figures) time.Duration
	}{
		{&m.cpu, func(f figures) time.Duration { return f.cpu }},
		{&m.p50, func(f figures) time.Duration { return f.p50 }},
		{&m.p99, func(f figures) time.Duration { return f.p99 }},
		{&m.first50, func(f figures) time.Duration { return f.first50 }},
		{&m.first99, func(f figures) time.Duration { return f.first99 }},
	} {
		*part.into = time.Duration(middle(func(f figures) float64 { return float64(part.of(f)) }))
	}
	for _, round := range rounds {
		m.failed += round.failed
		m.streams = min(m.streams, round.streams)
	}
	return m
}

// soak keeps a way under load and records its memory.
func soak(ctx context.Context, plan gatewayPlan, t target) (string, error) {
	if plan.soak == 0 {
		return "", nil
	}
	done := make(chan error, 1)
	go func() {
		_, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: 64, Time: plan.soak})
		done <- err
	}()
	report := fmt.Sprintf("\nmemory of %s at 64 connections over %s (RSS in MiB):", t.name, plan.soak)
	every := time.NewTicker(max(plan.soak/10, time.Second))
	defer every.Stop()
	for {
		select {
		case err := <-done:
			return report + "\n", err
		case <-every.C:
			rss, err := proc.RSS(t.pids[0])
			if err != nil {
				return report, err
			}
			report += fmt.Sprintf(" %d", rss>>20)
		}
	}
}
