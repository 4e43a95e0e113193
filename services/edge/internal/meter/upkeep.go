package meter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// upkeepEvery is the interval of upkeep, upkeepTime bounds one round, page one statement.
	upkeepEvery = 10 * time.Minute
	upkeepTime  = 5 * time.Minute
	page        = 5000
	// margin is how much longer than configured counts stay unmerged, so that replicas whose clocks differ agree on
	// what exists.
	margin = time.Hour
)

// Archive merges and drops old counters. Replicas may call it concurrently.
type Archive interface {
	// Merge merges up to limit counters of minutes before a moment into the first minute of their hour or day, and returns
	// how many there were. Merged counters stay in the same table, which the previous release reads correctly.
	Merge(ctx context.Context, into Period, before time.Time, limit int) (merged int, err error)
	// MergeGroups does the same with the groups of hours, into days.
	MergeGroups(ctx context.Context, before time.Time, limit int) (merged int, err error)
	// DropGroups removes up to limit groups before a moment.
	DropGroups(ctx context.Context, before time.Time, limit int) (dropped int, err error)
	// Drop removes up to limit counters before a moment.
	Drop(ctx context.Context, before time.Time, limit int) (dropped int, err error)
}

// Upkeep limits the number of counters; sums over whole hours and days stay the same.
type Upkeep struct {
	archive   Archive
	retention Retention
	log       *slog.Logger
}

// NewUpkeep returns an Upkeep; the caller has to start Run.
func NewUpkeep(archive Archive, retention Retention, log *slog.Logger) *Upkeep {
	return &Upkeep{archive: archive, retention: retention, log: log}
}

// Run does the upkeep at once and then periodically, until ctx ends. The next round makes up for a failed one.
func (u *Upkeep) Run(ctx context.Context) error {
	ticker := time.NewTicker(upkeepEvery)
	defer ticker.Stop()
	for {
		if err := u.round(ctx, time.Now()); err != nil && ctx.Err() == nil {
			u.log.ErrorContext(ctx, "upkeep of usage failed", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// round merges old counters and drops older ones.
func (u *Upkeep) round(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepTime)
	defer cancel()
	hours := now.Add(-u.retention.Minutes - margin).Truncate(time.Hour)
	days := now.Add(-u.retention.Hours - margin).Truncate(day)
	last := now.Add(-u.retention.Days - margin).Truncate(day)
	return errors.Join(
		u.step(ctx, "merge into hours", func() (int, error) { return u.archive.Merge(ctx, Hour, hours, page) }),
		u.step(ctx, "merge into days", func() (int, error) { return u.archive.Merge(ctx, Day, days, page) }),
		u.step(ctx, "merge groups into days", func() (int, error) { return u.archive.MergeGroups(ctx, days, page) }),
		u.step(ctx, "drop groups", func() (int, error) { return u.archive.DropGroups(ctx, last, page) }),
		u.step(ctx, "drop counters", func() (int, error) { return u.archive.Drop(ctx, last, page) }),
	)
}

// step repeats do while it returns full pages.
func (u *Upkeep) step(ctx context.Context, name string, do func() (int, error)) error {
	total := 0
	for {
		n, err := do()
		total += n
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case n == page:
			continue
		case total > 0:
			u.log.InfoContext(ctx, "old usage merged or dropped", "step", name, "rows", total)
		}
		return nil
	}
}
