package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/custody/exposure"
	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/pgdb"
)

// Exposure implements exposure.Store.
type Exposure struct{ pool *pgxpool.Pool }

// NewExposure returns the credential use in a database.
func NewExposure(pool *pgxpool.Pool) *Exposure { return &Exposure{pool} }

// Aggregate implements exposure.Store.
func (e *Exposure) Aggregate(ctx context.Context, limit int) (int, error) {
	var folded int64
	err := pgdb.InTx(ctx, e.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		mark, err := q.LockUseMark(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		folded, err = q.FoldUse(ctx, dbsql.FoldUseParams{AfterTxid: mark.Txid, AfterSeq: mark.Seq, Count: int32(limit)})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("aggregate credential use: %w", err)
	}
	return int(folded), nil
}

// The kinds of sums that one statement returns.
const (
	kindOrganization = iota + 1
	kindService
	kindAll
)

// Radius implements exposure.Store.
func (e *Exposure) Radius(ctx context.Context, q exposure.Query) (exposure.Radius, error) {
	if err := awaitEntries(ctx, e.pool); err != nil {
		return exposure.Radius{}, fmt.Errorf("credential use: %w", err)
	}
	names, ofRuns := windowOf(q)
	var radius exposure.Radius
	err := pgx.BeginTxFunc(ctx, e.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		if err := q.PlanForValues(ctx); err != nil {
			return err
		}
		sums, err := q.ExposedNames(ctx, names)
		if err != nil {
			return err
		}
		runs, err := q.ExposedRuns(ctx, ofRuns)
		if err != nil {
			return err
		}
		addSums(&radius, sums)
		addRuns(&radius, runs)
		return nil
	})
	if err != nil {
		return exposure.Radius{}, fmt.Errorf("credential use: %w", err)
	}
	return radius, nil
}

// windowOf returns the parameters of the two statements that answer a query.
func windowOf(q exposure.Query) (names dbsql.ExposedNamesParams, runs dbsql.ExposedRunsParams) {
	names = dbsql.ExposedNamesParams{
		Provider: q.Provider, Fingerprint: q.Fingerprint, Since: exposure.Begin, Until: exposure.End,
		Count: int32(q.Limit),
	}
	if !q.Since.IsZero() {
		names.Since = q.Since
	}
	if !q.Until.IsZero() {
		names.Until = q.Until
	}
	for _, piece := range exposure.Window(q.Since, q.Until) {
		if piece.Span == 0 {
			names.EdgeFrom, names.EdgeUntil = append(names.EdgeFrom, piece.Since), append(names.EdgeUntil, piece.Until)
			continue
		}
		names.Spans = append(names.Spans, int32(piece.Span/time.Second))
		names.SpanFrom, names.SpanUntil = append(names.SpanFrom, piece.Since), append(names.SpanUntil, piece.Until)
	}
	return names, dbsql.ExposedRunsParams{
		Provider: q.Provider, Fingerprint: q.Fingerprint, Since: names.Since, Until: names.Until,
		Spans: names.Spans, SpanFrom: names.SpanFrom, SpanUntil: names.SpanUntil,
		EdgeFrom: names.EdgeFrom, EdgeUntil: names.EdgeUntil, Count: names.Count,
	}
}

func addSums(radius *exposure.Radius, sums []dbsql.ExposedNamesRow) {
	for _, r := range sums {
		use := exposure.Use{Calls: r.Calls, First: r.FirstUsedAt, Last: r.LastUsedAt}
		switch r.Kind {
		case kindOrganization:
			radius.Organizations = append(radius.Organizations, exposure.Organization{Name: r.Name, Use: use, Fleet: r.Fleet, Byok: r.Byok})
			radius.OrganizationCount = int(r.Total)
		case kindService:
			radius.Services = append(radius.Services, exposure.Service{Name: r.Name, Use: use})
			radius.ServiceCount = int(r.Total)
		case kindAll:
			radius.Use, radius.CostCents = use, amount.Round(r.CostCents)
		}
	}
}

func addRuns(radius *exposure.Radius, runs []dbsql.ExposedRunsRow) {
	for _, r := range runs {
		radius.Runs = append(radius.Runs, exposure.Run{
			ID: r.RunID, Organization: r.OrganizationID, Use: exposure.Use{Calls: r.Calls, First: r.FirstUsedAt, Last: r.LastUsedAt},
		})
		radius.RunCount = int(r.Total)
	}
}
