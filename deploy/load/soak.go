package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/deploy/load/drive"
	"switchyard.dev/deploy/load/proc"
)

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

// written counts the WAL bytes and the commits of a Postgres server. A commit syncs the disk at most once.
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
	return fmt.Sprintf("Postgres wrote for each of %d requests %d bytes of WAL, in %.2f commits\n",
		n, w.wal/int64(n), float64(w.commits)/float64(n))
}
