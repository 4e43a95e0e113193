package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/pgdb"
)

// List implements ledger.Feed. A transaction that is in progress anywhere in the server delays later entries. List waits
// a moment for its end, so that readers see the calls that were answered before; the feed never skips an entry.
func (l *Ledger) List(ctx context.Context, f ledger.Filter, after feed.Position, limit int) ([]ledger.Record, error) {
	if err := awaitEntries(ctx, l.pool); err != nil {
		return nil, fmt.Errorf("list ledger entries: %w", err)
	}
	if err := l.awaitListed(ctx, f.Organization); err != nil {
		return nil, fmt.Errorf("list ledger entries: await transactions in progress: %w", err)
	}
	after, err := l.start(ctx, f, after)
	if err != nil {
		return nil, fmt.Errorf("list ledger entries: %w", err)
	}
	end, err := l.endTransaction(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list ledger entries: %w", err)
	}
	rows, err := dbsql.New(l.pool).ListEntries(ctx, dbsql.ListEntriesParams{
		AfterTxid: strconv.FormatUint(after.Transaction, 10), AfterSeq: after.Row, BeforeTxid: end,
		OrganizationID: f.Organization, RunID: f.Run, Provider: f.Provider, Model: f.Model,
		Since: optionalTime(f.Since), Until: optionalTime(f.Until), PageSize: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list ledger entries: %w", err)
	}
	records := make([]ledger.Record, len(rows))
	for i := range rows {
		if records[i], err = record(&rows[i]); err != nil {
			return nil, fmt.Errorf("list ledger entries: %w", err)
		}
	}
	return records, nil
}

// mostHidden bounds the entries among which a reader looks for those of its organization.
const mostHidden = 1000

// awaitListed returns when ListEntries returns the entries that are committed now, or after the ledger's patience.
func (l *Ledger) awaitListed(ctx context.Context, organization string) error {
	queries := dbsql.New(l.pool)
	newest, err := queries.NewestHidden(ctx, dbsql.NewestHiddenParams{Most: mostHidden, OrganizationID: organization})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return pgdb.Await(ctx, l.patience, func(ctx context.Context) (bool, error) { return queries.IsListed(ctx, newest) })
}

// bucketFields are the fields of a row that hold the buckets.
var bucketFields = fieldsOfBuckets[dbsql.ListEntriesRow]()

// fieldsOfBuckets returns the field of each bucket in a struct that sqlc generated. sqlc names it after the bucket's
// column.
func fieldsOfBuckets[T any]() (fields [provider.BucketCount][]int) {
	row := reflect.TypeFor[T]()
	for _, b := range provider.Buckets() {
		name := strings.ReplaceAll(b.Column(), "_", "")
		field, _ := row.FieldByNameFunc(func(of string) bool { return strings.EqualFold(of, name) })
		fields[b] = field.Index
	}
	return fields
}

func usageOf(r *dbsql.ListEntriesRow) (u provider.Usage) {
	row := reflect.ValueOf(r).Elem()
	for _, b := range provider.Buckets() {
		*b.Of(&u) = row.FieldByIndex(bucketFields[b]).Int()
	}
	return u
}

// reportedOf parses a reported_usage column; it returns nil for NULL and for an empty object.
func reportedOf(text []byte) (*provider.Usage, error) {
	var counts map[string]int64
	if text != nil {
		if err := json.Unmarshal(text, &counts); err != nil {
			return nil, fmt.Errorf("reported usage: %w", err)
		}
	}
	if len(counts) == 0 {
		return nil, nil //nolint:nilnil // Most entries have no reported usage.
	}
	u := new(provider.Usage)
	for _, b := range provider.Buckets() {
		*b.Of(u) = counts[b.Column()]
	}
	return u, nil
}

func record(r *dbsql.ListEntriesRow) (ledger.Record, error) {
	transaction, err := strconv.ParseUint(r.Position, 10, 64)
	if err != nil {
		return ledger.Record{}, fmt.Errorf("transaction id: %w", err)
	}
	var tags map[string]string
	if string(r.Tags) != noTags {
		if err := json.Unmarshal(r.Tags, &tags); err != nil {
			return ledger.Record{}, fmt.Errorf("tags: %w", err)
		}
	}
	reported, err := reportedOf(r.ReportedUsage)
	if err != nil {
		return ledger.Record{}, err
	}
	return ledger.Record{
		Entry: ledger.Entry{
			ID: r.ID, RequestID: r.RequestID,
			Organization: r.OrganizationID, Key: r.KeyID, KeyOrigin: r.KeyOrigin, User: r.UserID, Tags: tags, Service: r.Service, Run: r.RunID, Operation: r.Operation,
			RequestedProvider: r.RequestedProvider, RequestedModel: r.RequestedModel, RequestedGoal: r.RequestedGoal,
			Provider: r.Provider, Model: r.Model, Credential: r.Credential, Fingerprint: r.CredentialFingerprint,
			Substituted: r.Substituted, CacheHit: r.CacheHit, Attempts: int(r.Attempts),
			Usage: usageOf(r), Reported: reported,
			State: ledger.State(r.UsageState), Cost: price.Pico(r.CostPicoUsd), PriceVersion: r.PriceVersion,
			Outcome: ledger.Outcome(r.Outcome), StartedAt: r.StartedAt, EndedAt: r.EndedAt,
		},
		Position:   feed.Position{Transaction: transaction, Row: r.Seq.Int64},
		RecordedAt: r.RecordedAt,
	}, nil
}
