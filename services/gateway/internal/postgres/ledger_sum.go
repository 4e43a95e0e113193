package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// total is the sum of some entries.
type total struct {
	calls       int64
	cost        big.Int
	first, last time.Time
	usage       provider.Usage // of sums only
}

func (t *total) add(e *ledger.Entry) {
	if t.calls == 0 || e.StartedAt.Before(t.first) {
		t.first = e.StartedAt
	}
	if t.calls == 0 || e.StartedAt.After(t.last) {
		t.last = e.StartedAt
	}
	t.calls++
	t.cost.Add(&t.cost, big.NewInt(int64(e.Cost)))
}

// totals are totals by key, in the order of their first entries.
type totals[K comparable] struct {
	keys []K
	all  []*total
	of   map[K]*total
}

// at returns the total of a key, which it adds if it is missing.
func (t *totals[K]) at(key K) *total {
	found := t.of[key]
	if found == nil {
		if t.of == nil {
			t.of = make(map[K]*total)
		}
		found = new(total)
		t.of[key], t.keys, t.all = found, append(t.keys, key), append(t.all, found)
	}
	return found
}

// keyColumn returns a value of each key.
func keyColumn[K comparable, V any](t *totals[K], value func(K) V) []V {
	values := make([]V, len(t.keys))
	for i, key := range t.keys {
		values[i] = value(key)
	}
	return values
}

// totalColumn returns a value of each total.
func totalColumn[K comparable, V any](t *totals[K], value func(*total) V) []V {
	values := make([]V, len(t.all))
	for i, of := range t.all {
		values[i] = value(of)
	}
	return values
}

func calls(t *total) int64          { return t.calls }
func cost(t *total) pgtype.Numeric  { return pgtype.Numeric{Int: &t.cost, Valid: true} }
func firstStart(t *total) time.Time { return t.first }
func lastStart(t *total) time.Time  { return t.last }

// The keys of entry counts.
type (
	runKey struct{ organization, run string }
	keyKey struct{ organization, origin string }
	// callKey groups counts of calls; tags is JSON.
	callKey struct {
		organization, key, metric, user, tags string
		minute                                time.Time
	}
	// sumKey has every column that an aggregate of the ledger groups by; tags is JSON.
	sumKey struct {
		organization, provider, model, key, origin, user, tags, service, run, credential, fingerprint string
		cacheHit                                                                                      bool
		hour                                                                                          time.Time
	}
)

// entryCounts holds what one transaction's entries add to the counters and sums. Counting in a trigger took a quarter of
// Postgres's time for an entry.
type entryCounts struct {
	ids   []uuid.UUID
	days  totals[string]
	runs  totals[runKey]
	keys  totals[keyKey]
	calls totals[callKey]
	// sums is incomplete if unsummed is set.
	sums     totals[sumKey]
	unsummed bool
}

// maxSummed is the largest count that is summed, so that no sum overflows 64 bits. An entry with a larger one leaves its
// transaction without sums.
const maxSummed = 1 << 40

// countEntries adds up entries.
func countEntries(entries []ledger.Entry) (*entryCounts, error) {
	c := &entryCounts{ids: make([]uuid.UUID, len(entries))}
	for i := range entries {
		e := &entries[i]
		tags := noTags
		if len(e.Tags) > 0 {
			text, err := json.Marshal(e.Tags)
			if err != nil {
				return nil, fmt.Errorf("tags: %w", err)
			}
			tags = string(text)
		}
		c.ids[i] = e.ID
		c.days.at(e.Organization).add(e)
		if e.Run != "" {
			c.runs.at(runKey{e.Organization, e.Run}).add(e)
		}
		if e.KeyOrigin != "" {
			c.keys.at(keyKey{e.Organization, e.KeyOrigin}).add(e)
		}
		if e.CountMetric != "" {
			c.calls.at(callKey{e.Organization, e.Key, e.CountMetric, e.User, tags, e.EndedAt.UTC().Truncate(time.Minute)}).add(e)
		}
		c.addToSums(e, tags)
		// Sums of one or two entries would cost more than they save.
		c.unsummed = c.unsummed || 2*len(c.sums.keys) > len(entries)
	}
	return c, nil
}

// addToSums adds an entry to the sums.
func (c *entryCounts) addToSums(e *ledger.Entry, tags string) {
	for _, b := range provider.Buckets() {
		c.unsummed = c.unsummed || *b.Of(&e.Usage) > maxSummed
	}
	if c.unsummed {
		return
	}
	of := c.sums.at(sumKey{
		organization: e.Organization, provider: e.Provider, model: e.Model, key: e.Key, origin: e.KeyOrigin, user: e.User,
		tags: tags, service: e.Service, run: e.Run, credential: e.Credential, fingerprint: e.Fingerprint,
		cacheHit: e.CacheHit, hour: e.StartedAt.UTC().Truncate(time.Hour),
	})
	of.add(e)
	for _, b := range provider.Buckets() {
		*b.Of(&of.usage) += *b.Of(&e.Usage)
	}
}

// statements is a dbsql.DBTX that collects statements without results, to send them together.
type statements struct {
	dbsql.DBTX
	pgx.Batch
}

// Exec implements dbsql.DBTX.
func (s *statements) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	s.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// add adds the counts in the transaction that inserts the entries.
func (c *entryCounts) add(ctx context.Context, tx pgx.Tx) error {
	var s statements
	if err := c.queue(ctx, dbsql.New(&s)); err != nil {
		return err
	}
	return tx.SendBatch(ctx, &s.Batch).Close()
}

// queue queues the statements in the order of the trigger ledger_entry_counts, so that all writers lock rows in one
// order.
func (c *entryCounts) queue(ctx context.Context, q *dbsql.Queries) error {
	err := q.CountDays(ctx, dbsql.CountDaysParams{
		OrganizationIds: c.days.keys, Calls: totalColumn(&c.days, calls), CostsPicoUsd: totalColumn(&c.days, cost),
	})
	if err == nil && len(c.runs.keys) > 0 {
		err = q.CountRuns(ctx, dbsql.CountRunsParams{
			OrganizationIds: keyColumn(&c.runs, func(k runKey) string { return k.organization }),
			RunIds:          keyColumn(&c.runs, func(k runKey) string { return k.run }),
			Calls:           totalColumn(&c.runs, calls), CostsPicoUsd: totalColumn(&c.runs, cost),
			FirstAt: totalColumn(&c.runs, firstStart), LastAt: totalColumn(&c.runs, lastStart),
		})
	}
	if err == nil && len(c.keys.keys) > 0 {
		err = q.CountKeys(ctx, dbsql.CountKeysParams{
			OrganizationIds: keyColumn(&c.keys, func(k keyKey) string { return k.organization }),
			KeyOrigins:      keyColumn(&c.keys, func(k keyKey) string { return k.origin }),
			Calls:           totalColumn(&c.keys, calls), CostsPicoUsd: totalColumn(&c.keys, cost),
		})
	}
	if err == nil && len(c.calls.keys) > 0 {
		err = q.CountCalls(ctx, dbsql.CountCallsParams{
			OrganizationIds: keyColumn(&c.calls, func(k callKey) string { return k.organization }),
			KeyIds:          keyColumn(&c.calls, func(k callKey) string { return k.key }),
			Metrics:         keyColumn(&c.calls, func(k callKey) string { return k.metric }),
			Minutes:         keyColumn(&c.calls, func(k callKey) time.Time { return k.minute }),
			UserIds:         keyColumn(&c.calls, func(k callKey) string { return k.user }),
			Tags:            keyColumn(&c.calls, func(k callKey) []byte { return []byte(k.tags) }),
			Calls:           totalColumn(&c.calls, calls),
		})
	}
	if err == nil {
		err = c.queueSums(ctx, q)
	}
	if err == nil {
		err = q.SettleEntries(ctx, c.ids)
	}
	return err
}

// sumFields are the fields of AddSumsParams that hold the buckets.
var sumFields = fieldsOfBuckets[dbsql.AddSumsParams]()

func (c *entryCounts) queueSums(ctx context.Context, q *dbsql.Queries) error {
	if c.unsummed {
		return q.AddUnsummed(ctx, int64(len(c.ids)))
	}
	t := &c.sums
	params := dbsql.AddSumsParams{
		Calls:           totalColumn(t, calls),
		OrganizationIds: keyColumn(t, func(k sumKey) string { return k.organization }),
		Providers:       keyColumn(t, func(k sumKey) string { return k.provider }),
		Models:          keyColumn(t, func(k sumKey) string { return k.model }),
		KeyIds:          keyColumn(t, func(k sumKey) string { return k.key }),
		KeyOrigins:      keyColumn(t, func(k sumKey) string { return k.origin }),
		UserIds:         keyColumn(t, func(k sumKey) string { return k.user }),
		Tags:            keyColumn(t, func(k sumKey) []byte { return []byte(k.tags) }),
		Services:        keyColumn(t, func(k sumKey) string { return k.service }),
		RunIds:          keyColumn(t, func(k sumKey) string { return k.run }),
		Credentials:     keyColumn(t, func(k sumKey) string { return k.credential }),
		Fingerprints:    keyColumn(t, func(k sumKey) string { return k.fingerprint }),
		CacheHits:       keyColumn(t, func(k sumKey) bool { return k.cacheHit }),
		FirstStartedAt:  totalColumn(t, firstStart), LastStartedAt: totalColumn(t, lastStart), CostsPicoUsd: totalColumn(t, cost),
	}
	row := reflect.ValueOf(&params).Elem()
	for _, b := range provider.Buckets() {
		counts := totalColumn(t, func(of *total) int64 { return *b.Of(&of.usage) })
		row.FieldByIndex(sumFields[b]).Set(reflect.ValueOf(counts))
	}
	return q.AddSums(ctx, params)
}
