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
)

// Ledger stores ledger entries.
type Ledger struct{ pool *pgxpool.Pool }

// NewLedger returns the ledger of a database.
func NewLedger(pool *pgxpool.Pool) *Ledger { return &Ledger{pool: pool} }

// Append commits entries in one statement.
func (l *Ledger) Append(ctx context.Context, entries []ledger.Entry) error {
	if _, err := dbsql.New(l.pool).AppendEntries(ctx, columns(entries)); err != nil {
		return fmt.Errorf("append %d ledger entries: %w", len(entries), classify(err))
	}
	return nil
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

// columns turns entries into the arrays that one statement takes.
func columns(entries []ledger.Entry) dbsql.AppendEntriesParams {
	var p dbsql.AppendEntriesParams
	for _, e := range entries {
		p.ID = append(p.ID, e.ID)
		p.RequestID = append(p.RequestID, e.RequestID)
		p.OrganizationID = append(p.OrganizationID, e.Organization)
		p.KeyID = append(p.KeyID, e.Key)
		p.Service = append(p.Service, e.Service)
		p.RunID = append(p.RunID, e.Run)
		p.Operation = append(p.Operation, e.Operation)
		p.RequestedProvider = append(p.RequestedProvider, e.RequestedProvider)
		p.RequestedModel = append(p.RequestedModel, e.RequestedModel)
		p.RequestedGoal = append(p.RequestedGoal, e.RequestedGoal)
		p.Provider = append(p.Provider, e.Provider)
		p.Model = append(p.Model, e.Model)
		p.Credential = append(p.Credential, e.Credential)
		p.CredentialFingerprint = append(p.CredentialFingerprint, e.Fingerprint)
		p.Substituted = append(p.Substituted, e.Substituted)
		p.CacheHit = append(p.CacheHit, e.CacheHit)
		p.Attempts = append(p.Attempts, int16(e.Attempts))
		p.InputTokens = append(p.InputTokens, e.Usage.Input)
		p.CacheReadTokens = append(p.CacheReadTokens, e.Usage.CacheRead)
		p.CacheWriteTokens = append(p.CacheWriteTokens, e.Usage.CacheWrite)
		p.CacheWriteLongTokens = append(p.CacheWriteLongTokens, e.Usage.CacheWriteLong)
		p.ImageInputTokens = append(p.ImageInputTokens, e.Usage.ImageInput)
		p.AudioInputTokens = append(p.AudioInputTokens, e.Usage.AudioInput)
		p.OutputTokens = append(p.OutputTokens, e.Usage.Output)
		p.ReasoningTokens = append(p.ReasoningTokens, e.Usage.Reasoning)
		p.ImageOutputTokens = append(p.ImageOutputTokens, e.Usage.ImageOutput)
		p.AudioOutputTokens = append(p.AudioOutputTokens, e.Usage.AudioOutput)
		p.Images = append(p.Images, e.Usage.Images)
		p.UsageState = append(p.UsageState, string(e.State))
		p.CostPicoUsd = append(p.CostPicoUsd, int64(e.Cost))
		p.PriceVersion = append(p.PriceVersion, e.PriceVersion)
		p.Outcome = append(p.Outcome, string(e.Outcome))
		p.StartedAt = append(p.StartedAt, e.StartedAt)
		p.EndedAt = append(p.EndedAt, e.EndedAt)
	}
	return p
}
