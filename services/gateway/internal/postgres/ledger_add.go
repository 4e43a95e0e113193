package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// maxAdded is the largest number of entries that are inserted one statement each instead of by COPY. That takes one
// round trip instead of four once the statements are prepared, and no more of Postgres's processor time.
const maxAdded = 4

// addEntries commits a few entries and their counts. It fails if an entry is already stored. The server commits the
// statements of one batch together; if one fails, it commits none.
func addEntries(ctx context.Context, pool *pgxpool.Pool, entries []ledger.Entry, counts *entryCounts) error {
	var s statements
	q := dbsql.New(&s)
	for i := range entries {
		params, err := entryParams(&entries[i])
		if err != nil {
			return err
		}
		if err := q.AddEntry(ctx, params); err != nil {
			return err
		}
	}
	if err := counts.queue(ctx, q); err != nil {
		return err
	}
	return pool.SendBatch(ctx, &s.Batch).Close()
}

// addedFields are the fields of AddEntryParams that hold the buckets.
var addedFields = fieldsOfBuckets[dbsql.AddEntryParams]()

// entryParams returns an entry's columns as parameters of AddEntry: the values that copyEntries copies.
func entryParams(e *ledger.Entry) (params dbsql.AddEntryParams, err error) {
	params = dbsql.AddEntryParams{
		ID: e.ID, RequestID: e.RequestID, OrganizationID: e.Organization, KeyID: e.Key, KeyOrigin: e.KeyOrigin,
		UserID: e.User, Tags: []byte(noTags), Service: e.Service, RunID: e.Run, Operation: e.Operation,
		RequestedProvider: e.RequestedProvider, RequestedModel: e.RequestedModel, RequestedGoal: e.RequestedGoal,
		Provider: e.Provider, Model: e.Model, Credential: e.Credential, CredentialFingerprint: e.Fingerprint,
		Substituted: e.Substituted, CacheHit: e.CacheHit, Attempts: int16(e.Attempts), UsageState: string(e.State),
		CostPicoUsd: int64(e.Cost), PriceVersion: e.PriceVersion, Outcome: string(e.Outcome),
		StartedAt: e.StartedAt, EndedAt: e.EndedAt, CountMetric: e.CountMetric,
	}
	if len(e.Tags) > 0 {
		if params.Tags, err = json.Marshal(e.Tags); err != nil {
			return params, fmt.Errorf("tags: %w", err)
		}
	}
	if e.Reported != nil {
		if params.ReportedUsage, err = json.Marshal(e.ReportedByColumn()); err != nil {
			return params, fmt.Errorf("reported usage: %w", err)
		}
	}
	row := reflect.ValueOf(&params).Elem()
	for _, b := range provider.Buckets() {
		row.FieldByIndex(addedFields[b]).SetInt(*b.Of(&e.Usage))
	}
	return params, nil
}
