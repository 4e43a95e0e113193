package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/deploy/load/drive"
	"switchyard.dev/deploy/load/proc"
)

// figures holds the figures of one way, each the median of the rounds.
type figures struct {
	// perSecond is the rate by number of connections.
	perSecond map[int]float64
	// cpu is the processor time per request at 16 connections, by process, and store that of Postgres.
	cpu   [2]time.Duration
	store time.Duration
	// steady is the processor time of Postgres per request at storeRate.
	steady time.Duration
	// event is the processor time of the services per event of streams without pauses, at 16 connections.
	event time.Duration
	// p50 and p99 are of the open loop by its rate, first50 and first99 to the first byte of a stream.
	p50, p99         map[int]time.Duration
	first50, first99 time.Duration
	// streams counts the complete ones among the streams held open at a time.
	streams int
	failed  int
}

var (
	connections = []int{1, 16, 64}
	// rates are requests per second of the open loop.
	rates = []int{200, 1000}
)

// storeRate is the rate of the open loop at which the processor time of Postgres is measured.
const storeRate = 2000

// costed is the number of connections at which processor time is measured.
const costed = 16

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
	memory, err := soak(ctx, plan, targets[firstWay])
	return report + memory, err
}

func measure(ctx context.Context, plan gatewayPlan, t target) (figures, error) {
	f := figures{perSecond: make(map[int]float64), p50: make(map[int]time.Duration), p99: make(map[int]time.Duration)}
	for _, step := range []func(context.Context, gatewayPlan, target) error{f.throughput, f.latency, f.streaming} {
		if err := step(ctx, plan, t); err != nil {
			return f, err
		}
	}
	return f, nil
}

// throughput measures whole answers in a closed loop, and what they cost.
func (f *figures) throughput(ctx context.Context, plan gatewayPlan, t target) error {
	for _, n := range connections {
		cpu, store := t.used(), t.stored()
		result, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: n, Time: plan.round})
		if err != nil {
			return err
		}
		f.note(result)
		f.perSecond[n] = result.PerSecond()
		if n == costed {
			done := time.Duration(max(result.Done(), 1))
			for i, now := range t.used() {
				f.cpu[i] = (now - cpu[i]) / done
			}
			f.store = (t.stored() - store) / done
		}
	}
	return nil
}

// latency measures whole answers in an open loop.
func (f *figures) latency(ctx context.Context, plan gatewayPlan, t target) error {
	for _, rate := range rates {
		result, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: 64, Rate: float64(rate), Time: plan.round})
		if err != nil {
			return err
		}
		f.note(result)
		f.p50[rate], f.p99[rate] = quantiles(result.Latency)
	}
	if t.stores == nil {
		return nil
	}
	store := t.stored()
	result, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: 64, Rate: storeRate, Time: plan.round})
	if err != nil {
		return err
	}
	f.note(result)
	f.steady = (t.stored() - store) / time.Duration(max(result.Done(), 1))
	return nil
}

// streaming measures the first byte of paced streams, many of them at a time, and what an event costs without pauses.
func (f *figures) streaming(ctx context.Context, plan gatewayPlan, t target) error {
	check := wantText(plan.pieces)
	result, err := drive.Run(ctx, drive.Load{Request: t.stream, Connections: parallelStreams, Rate: 50, Time: plan.round, Check: check})
	if err != nil {
		return err
	}
	f.note(result)
	f.first50, f.first99 = quantiles(result.First)
	if result, err = drive.Run(ctx, drive.Load{Request: t.stream, Connections: parallelStreams, Count: parallelStreams, Check: check}); err != nil {
		return err
	}
	f.note(result)
	f.streams = result.Done()
	cpu := used(t.pids)
	if result, err = drive.Run(ctx, drive.Load{Request: t.burst, Connections: costed, Time: plan.round, Check: check}); err != nil {
		return err
	}
	f.note(result)
	f.event = (used(t.pids) - cpu) / time.Duration(max(result.Done()*plan.pieces, 1))
	return nil
}

// services returns the processor time of all services per request.
func (f *figures) services() time.Duration { return f.cpu[0] + f.cpu[1] }

// used returns the processor time of each process.
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
	m := figures{
		perSecond: make(map[int]float64), p50: make(map[int]time.Duration), p99: make(map[int]time.Duration), streams: parallelStreams,
	}
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
		{&m.cpu[0], func(f figures) time.Duration { return f.cpu[0] }},
		{&m.cpu[1], func(f figures) time.Duration { return f.cpu[1] }},
		{&m.store, func(f figures) time.Duration { return f.store }},
		{&m.steady, func(f figures) time.Duration { return f.steady }},
		{&m.event, func(f figures) time.Duration { return f.event }},
		{&m.first50, func(f figures) time.Duration { return f.first50 }},
		{&m.first99, func(f figures) time.Duration { return f.first99 }},
	} {
		*part.into = time.Duration(middle(func(f figures) float64 { return float64(part.of(f)) }))
	}
	for _, rate := range rates {
		m.p50[rate] = time.Duration(middle(func(f figures) float64 { return float64(f.p50[rate]) }))
		m.p99[rate] = time.Duration(middle(func(f figures) float64 { return float64(f.p99[rate]) }))
	}
	for _, round := range rounds {
		m.failed += round.failed
		m.streams = min(m.streams, round.streams)
	}
	return m
}

// soak keeps a way under load and records its memory, and what the load costs Postgres' disk.
func soak(ctx context.Context, plan gatewayPlan, t target) (string, error) {
	if plan.soak == 0 {
		return "", nil
	}
	before, err := writtenTo(ctx, t.database)
	if err != nil {
		return "", err
	}
	done, answered := make(chan error, 1), 0
	go func() {
		result, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: 64, Time: plan.soak})
		if result != nil {
			answered = result.Done()
		}
		done <- err
	}()
	report := fmt.Sprintf("\nmemory of %s at 64 connections over %s (RSS in MiB):", t.name, plan.soak)
	every := time.NewTicker(max(plan.soak/10, time.Second))
	defer every.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return report + "\n", err
			}
			after, err := writtenTo(ctx, t.database)
			return report + "\n" + after.since(before).each(answered), err
		case <-every.C:
			rss, err := proc.RSS(t.pids[0])
			if err != nil {
				return report, err
			}
			report += fmt.Sprintf(" %d", rss>>20)
		}
	}
}

// written is what a Postgres has written so far: bytes of WAL, and commits, each of which is at most one sync.
type written struct{ wal, commits int64 }

// writtenTo asks the server of a database.
func writtenTo(ctx context.Context, database string) (w written, err error) {
	db, err := pgx.Connect(ctx, database)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	err = db.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, xact_commit
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&w.wal, &w.commits)
	return w, err
}

func (w written) since(before written) written {
	return written{w.wal - before.wal, w.commits - before.commits}
}

// each returns what n requests cost.
func (w written) each(n int) string {
	if n == 0 {
		return "no request was answered\n"
	}
	return fmt.Sprintf("Postgres wrote for each of %d requests %d bytes of WAL, in %.2f commits\n", n, w.wal/int64(n), float64(w.commits)/float64(n))
}
