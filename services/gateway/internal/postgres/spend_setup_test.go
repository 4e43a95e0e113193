package postgres

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit"
)

// spendAt is the present moment of these tests.
var spendAt = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// roomy are bounds that keep everything.
func roomy() spend.Bounds { return spend.Bounds{HourGroups: 1000, DayGroups: 1000, MonthGroups: 1000} }

// randomSpend returns a call of few different values, so that groups repeat.
func randomSpend(r *rand.Rand, organization string) ledger.Entry {
	e := entry()
	e.ID, e.Organization, e.CacheHit = uuid.New(), organization, false
	e.Provider, e.Model = fmt.Sprint("p", r.IntN(2)), fmt.Sprint("m", r.IntN(3))
	e.Key, e.User = []string{"", "k1", "k2"}[r.IntN(3)], []string{"", "ann", "bob"}[r.IntN(3)]
	e.Tags = []map[string]string{nil, {"team": "web"}, {"team": "app", "feature": "search"}, {"feature": "é\"'"}}[r.IntN(4)]
	e.Cost = price.Pico(r.Int64N(1 << 50))
	for _, b := range provider.Buckets() {
		*b.Of(&e.Usage) = r.Int64N(1000)
	}
	return e
}

// recordAt appends entries and sets the times of their recording, which are the transaction's otherwise. Up to ten
// entries are of one transaction, and recorded at the same time.
func recordAt(tb testing.TB, pool *pgxpool.Pool, entries []ledger.Entry, at func() time.Time) {
	tb.Helper()
	for size := 1; len(entries) > 0; size = size%10 + 1 {
		group := entries[:min(size, len(entries))]
		entries = entries[len(group):]
		if err := NewLedger(pool).Append(tb.Context(), group); err != nil {
			tb.Error(err)
			return
		}
		_, err := pool.Exec(tb.Context(), `WITH entries AS (UPDATE ledger_entry SET recorded_at = $2 WHERE id = ANY ($1) RETURNING txid)
			UPDATE ledger_sum AS s SET recorded_at = $2 FROM (SELECT DISTINCT txid FROM entries) AS e WHERE s.txid = e.txid`, entryIDs(group), at())
		if err != nil {
			tb.Error(err)
		}
	}
}

func entryIDs(entries []ledger.Entry) []uuid.UUID {
	all := make([]uuid.UUID, len(entries))
	for i := range entries {
		all[i] = entries[i].ID
	}
	return all
}

// within returns a function that returns moments before spendAt.
func within(r *rand.Rand, d time.Duration) func() time.Time {
	return func() time.Time { return spendAt.Add(-time.Duration(r.Int64N(int64(d)))) }
}

// aggregate aggregates until nothing is left. Transactions of other tests on the server delay it.
func aggregate(tb testing.TB, pool *pgxpool.Pool, b spend.Bounds, limit int) {
	tb.Helper()
	store := NewSpend(pool)
	for deadline := time.Now().Add(20 * time.Second); ; {
		n, err := store.Aggregate(tb.Context(), b, limit)
		if err != nil {
			tb.Fatal(err)
		}
		left := n > 0 || testkit.Value[bool](tb, pool, "SELECT EXISTS (SELECT FROM ledger_entry WHERE (txid, seq) > (SELECT m.txid, m.seq FROM spend_mark AS m))")
		if !left {
			return
		}
		if n == 0 && time.Now().After(deadline) {
			tb.Fatal("rows are left")
		}
	}
}

// ledgerSums adds up an organization's rows of the ledger by the names of their groups.
func ledgerSums(tb testing.TB, pool *pgxpool.Pool, q spend.Query) map[string]spend.Sums {
	tb.Helper()
	rows, err := pool.Query(tb.Context(), `
		SELECT to_char(date_trunc($4, recorded_at, 'UTC') AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24'), provider, model, key_id, user_id, tags::text,
			cost_pico_usd, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_long_tokens, image_input_tokens, audio_input_tokens,
			output_tokens, reasoning_tokens, image_output_tokens, audio_output_tokens, images, characters, audio_seconds, searches
		FROM ledger_entry WHERE organization_id = $1 AND recorded_at >= $2 AND recorded_at < $3`, q.Organization, q.Since, q.Until, string(q.Interval))
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	sums := make(map[string]spend.Sums)
	for rows.Next() {
		var bucket, of, model, key, user, tags string
		var cost int64
		var u provider.Usage
		err := rows.Scan(&bucket, &of, &model, &key, &user, &tags, &cost, &u.Input, &u.CacheRead, &u.CacheWrite, &u.CacheWriteLong, &u.ImageInput, &u.AudioInput,
			&u.Output, &u.Reasoning, &u.ImageOutput, &u.AudioOutput, &u.Images, &u.Characters, &u.AudioSeconds, &u.Searches)
		if err != nil {
			tb.Fatal(err)
		}
		var labels map[string]string
		if err := json.Unmarshal([]byte(tags), &labels); err != nil {
			tb.Fatal(err)
		}
		name := bucket
		for _, d := range q.Grouping {
			value := map[spend.Dimension]string{"provider": of, "model": model, "key": key, "user": user}[d]
			if label, isTag := d.TagName(); isTag {
				value = labels[label]
			}
			name += "|" + value
		}
		addSum(sums, name, spend.Sums{Calls: 1, Usage: u, Pico: big.NewInt(cost)})
	}
	return sums
}

func addSum(sums map[string]spend.Sums, name string, more spend.Sums) {
	sum, known := sums[name]
	if !known {
		sum.Pico = new(big.Int)
	}
	sum.Calls += more.Calls
	sum.Usage.Add(more.Usage)
	sum.Pico = new(big.Int).Add(sum.Pico, more.Pico)
	sums[name] = sum
}

// reported reads a report in pages and returns its sums by the names of their groups, and checks its order and total.
func reported(tb testing.TB, store *Spend, q spend.Query) map[string]spend.Sums {
	tb.Helper()
	sums, total := make(map[string]spend.Sums), make(map[string]spend.Sums)
	for {
		page, err := store.Report(tb.Context(), q)
		if err != nil {
			tb.Fatal(err)
		}
		for _, row := range page.Rows {
			name := strings.Join(append([]string{row.Start.Format("2006-01-02 15")}, row.Values...), "|")
			if _, twice := sums[name]; twice {
				tb.Fatalf("%s is in two rows", name)
			}
			addSum(sums, name, row.Sums)
			addSum(total, "", row.Sums)
		}
		if len(page.Rows) == q.Limit {
			q.After = page.Rows[len(page.Rows)-1].Position()
			continue
		}
		if page.Total.Calls > 0 {
			same(tb, "total", map[string]spend.Sums{"": page.Total}, total)
		}
		return sums
	}
}

func same(tb testing.TB, what string, want, got map[string]spend.Sums) {
	tb.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); diff != "" {
		tb.Errorf("%s: -ledger +report:\n%s", what, diff)
	}
}
