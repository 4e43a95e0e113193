package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// ProbeLease implements probe.Lease with a row, so that no connection is held while a probe runs.
type ProbeLease struct{ pool *pgxpool.Pool }

// NewProbeLease returns the lease of a database.
func NewProbeLease(pool *pgxpool.Pool) *ProbeLease { return &ProbeLease{pool} }

// Take implements probe.Lease.
func (l *ProbeLease) Take(ctx context.Context, holder uuid.UUID, kind probe.Kind, span time.Duration) (bool, error) {
	n, err := dbsql.New(l.pool).TakeProbeLease(ctx, dbsql.TakeProbeLeaseParams{Holder: holder, Kind: string(kind), Seconds: span.Seconds()})
	if err != nil {
		return false, fmt.Errorf("take probe lease: %w", err)
	}
	return n == 1, nil
}

// Prolong implements probe.Lease.
func (l *ProbeLease) Prolong(ctx context.Context, holder uuid.UUID, span time.Duration) (bool, error) {
	n, err := dbsql.New(l.pool).ProlongProbeLease(ctx, dbsql.ProlongProbeLeaseParams{Holder: holder, Seconds: span.Seconds()})
	if err != nil {
		return false, fmt.Errorf("prolong probe lease: %w", err)
	}
	return n == 1, nil
}

// Release implements probe.Lease.
func (l *ProbeLease) Release(ctx context.Context, holder uuid.UUID) error {
	if err := dbsql.New(l.pool).ReleaseProbeLease(ctx, holder); err != nil {
		return fmt.Errorf("release probe lease: %w", err)
	}
	return nil
}

// Running implements probe.Lease.
func (l *ProbeLease) Running(ctx context.Context) (probe.Kind, time.Time, error) {
	row, err := dbsql.New(l.pool).GetProbeLease(ctx)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", time.Time{}, nil
	case err != nil:
		return "", time.Time{}, fmt.Errorf("get probe lease: %w", err)
	}
	return probe.Kind(row.Kind), row.TakenAt, nil
}
