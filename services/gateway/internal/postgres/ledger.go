// Package postgres keeps the ledger in the gateway schema. It implements the
// store interface of package ledger; internal/app makes it.
package postgres

import (
	"cmp"
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

// fewRows are stored sooner by a statement for each, in one batch, than by a COPY.
const fewRows = 4

// Append commits entries together. One that is there already is left alone. No
// entries ask the database whether it would take some.
func (l *Ledger) Append(ctx context.Context, entries []ledger.Entry) error {
	rows := make([]dbsql.CopyEntriesParams, len(entries))
	for i := range entries {
		rows[i] = rowOf(&entries[i])
	}
	if err := l.append(ctx, rows); err != nil {
		return fmt.Errorf("append %d ledger entries: %w", len(entries), classify(err))
	}
	return nil
}

func (l *Ledger) append(ctx context.Context, rows []dbsql.CopyEntriesParams) error {
	q := dbsql.New(l.pool)
	if len(rows) == 0 || len(rows) > fewRows {
		_, err := q.CopyEntries(ctx, rows)
		if !pgdb.IsUniqueViolation(err, "") {
			return err
		}
	}
	apart := make([]dbsql.AppendEntryParams, len(rows))
	for i := range rows {
		apart[i] = dbsql.AppendEntryParams(rows[i])
	}
	var failed error
	batch := q.AppendEntry(ctx, apart)
	batch.Exec(func(_ int, err error) { failed = cmp.Or(failed, err) })
	return cmp.Or(failed, batch.Close()) // The commit answers with the last.
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
