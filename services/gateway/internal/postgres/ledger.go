// Package postgres keeps the ledger in the gateway schema. It implements the
// store interface of package ledger; internal/app makes it.
package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// Ledger stores ledger entries.
type Ledger struct{ pool *pgxpool.Pool }

// NewLedger returns the ledger of a database.
func NewLedger(pool *pgxpool.Pool) *Ledger { return &Ledger{pool: pool} }

// Append commits entries. One that is there already is left alone. No entries ask
// the database whether it would take some.
func (l *Ledger) Append(ctx context.Context, entries []ledger.Entry) error {
	rows := make([]dbsql.CopyEntriesParams, len(entries))
	for i := range entries {
		rows[i] = rowOf(&entries[i])
	}
	if err := l.copy(ctx, rows); err != nil {
		return fmt.Errorf("append %d ledger entries: %w", len(entries), classify(err))
	}
	return nil
}

// copy commits rows together; around those that are there already, in halves.
func (l *Ledger) copy(ctx context.Context, rows []dbsql.CopyEntriesParams) error {
	_, err := dbsql.New(l.pool).CopyEntries(ctx, rows)
	switch {
	case !pgdb.IsUniqueViolation(err, "ledger_entry_pkey"):
		return err
	case len(rows) == 1:
		return nil
	}
	half := len(rows) / 2
	if err := l.copy(ctx, rows[:half]); err != nil {
		return err
	}
	return l.copy(ctx, rows[half:])
}

// classify takes every failure for one that passes, but those of the data: a
// row is given up only when it can never be stored.
func classify(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code[:2] {
		case "22", "23": // Data exception, integrity violation: Postgres manual, appendix A.
			return err
		}
	}
	return fmt.Errorf("%w: %w", ledger.ErrAway, err)
}

// rowOf is an entry as its row.
func rowOf(e *ledger.Entry) dbsql.CopyEntriesParams {
	return dbsql.CopyEntriesParams{
		ID:                    e.ID,
		RequestID:             e.RequestID,
		OrganizationID:        e.Organization,
		KeyID:                 e.Key,
		Service:               e.Service,
		RunID:                 e.Run,
		Operation:             e.Operation,
		RequestedProvider:     e.RequestedProvider,
		RequestedModel:        e.RequestedModel,
		RequestedGoal:         e.RequestedGoal,
		Provider:              e.Provider,
		Model:                 e.Model,
		Credential:            e.Credential,
		CredentialFingerprint: e.Fingerprint,
		Substituted:           e.Substituted,
		CacheHit:              e.CacheHit,
		Attempts:              int16(e.Attempts),
		InputTokens:           e.Usage.Input,
		CacheReadTokens:       e.Usage.CacheRead,
		CacheWriteTokens:      e.Usage.CacheWrite,
		CacheWriteLongTokens:  e.Usage.CacheWriteLong,
		ImageInputTokens:      e.Usage.ImageInput,
		AudioInputTokens:      e.Usage.AudioInput,
		OutputTokens:          e.Usage.Output,
		ReasoningTokens:       e.Usage.Reasoning,
		ImageOutputTokens:     e.Usage.ImageOutput,
		AudioOutputTokens:     e.Usage.AudioOutput,
		Images:                e.Usage.Images,
		UsageState:            string(e.State),
		CostPicoUsd:           int64(e.Cost),
		PriceVersion:          e.PriceVersion,
		Outcome:               string(e.Outcome),
		StartedAt:             e.StartedAt,
		EndedAt:               e.EndedAt,
	}
}
