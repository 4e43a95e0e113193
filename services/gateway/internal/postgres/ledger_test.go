package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/testkit"
)

func entry() ledger.Entry {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return ledger.Entry{
		ID: uuid.New(), RequestID: "req_1", Organization: "acme", Key: "key", User: "ann", Tags: map[string]string{"team": "web ü", "a.b": "\"c\""}, Service: "edge", Run: "run", Operation: "chat",
		RequestedProvider: "alpha", RequestedModel: "m", RequestedGoal: "cost", Provider: "beta", Model: "m2",
		Credential: "fleet", Fingerprint: "0011", Substituted: true, CacheHit: true, Attempts: 2,
		Usage: everyBucket(),
		State: ledger.StateReported, Cost: math.MaxInt64, PriceVersion: "beta/m2@2026-01-01", Outcome: ledger.OutcomeCompleted,
		StartedAt: at, EndedAt: at.Add(time.Second),
	}
}

// everyBucket is a usage in which each bucket has another count.
func everyBucket() (u provider.Usage) {
	for i, b := range provider.Buckets() {
		*b.Of(&u) = int64(i + 1)
	}
	return u
}

// entries returns n different entries.
func entries(n int) []ledger.Entry {
	all := make([]ledger.Entry, n)
	for i := range all {
		all[i] = entry()
	}
	return all
}

func count(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return testkit.Value[int](t, pool, "SELECT count(*) FROM ledger_entry")
}

func TestAppend(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewLedger(pool)
	first, second := entry(), entry()
	second.Key, second.Run, second.Fingerprint, second.User, second.Tags = "", "", "", "", nil
	first.Reported = &provider.Usage{Input: math.MaxInt32, Reasoning: 7}
	if err := store.Append(t.Context(), []ledger.Entry{first, second}); err != nil {
		t.Fatal(err)
	}
	// A writer that did not learn of its commit sends the same entries again, together with new ones.
	if err := store.Append(t.Context(), []ledger.Entry{first, entry(), second}); err != nil {
		t.Fatal(err)
	}
	if err := store.Append(t.Context(), nil); err != nil {
		t.Errorf("no entries, as a probe sends: %v", err)
	}
	if n := count(t, pool); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
	kept := testkit.Value[string](t, pool, "SELECT string_agg(reported_usage::text, ' ') FROM ledger_entry")
	if read, err := reportedOf([]byte(kept)); err != nil || read == nil || *read != *first.Reported {
		t.Errorf("of the reports %s is kept, read as %+v, %v", kept, read, err)
	}
	many := entries(20)
	for _, group := range [][]ledger.Entry{many, append(entries(7), many[:10]...), many[10:]} {
		if err := store.Append(t.Context(), group); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, pool); n != 30 {
		t.Errorf("%d rows, want 3 and 27", n)
	}
	var got ledger.Entry
	testkit.Wait(t, "the feed shows the first row", func() error { // Transactions of other tests delay it.
		records, err := store.List(t.Context(), ledger.Filter{}, feed.Position{}, 1)
		if err != nil {
			return err
		}
		if len(records) != 1 {
			return fmt.Errorf("%d rows", len(records))
		}
		got = records[0].Entry
		return nil
	})
	got.StartedAt, got.EndedAt = got.StartedAt.UTC(), got.EndedAt.UTC()
	if diff := cmp.Diff(first, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// Only an entry with the same id is a repetition; another conflict must not lose a row.
func TestOnlyTheSameIDRepeats(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	testkit.Exec(t, pool, "CREATE UNIQUE INDEX ON ledger_entry (request_id)")
	for _, n := range []int{2, 20} {
		if err := NewLedger(pool).Append(t.Context(), entries(n)); err == nil || errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%d: %v, want a refusal", n, err)
		}
	}
}

func TestAppendFailures(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewLedger(pool)
	cases := map[string]func(*ledger.Entry){
		"a state that is none":          func(e *ledger.Entry) { e.State = "guessed" },
		"negative tokens":               func(e *ledger.Entry) { e.Usage.Input = -1 },
		"a cost without a price":        func(e *ledger.Entry) { e.PriceVersion = "" },
		"no organization":               func(e *ledger.Entry) { e.Organization = "" },
		"a byte that text can't have":   func(e *ledger.Entry) { e.Model = "m\x00" },
		"an outcome that isn't one yet": func(e *ledger.Entry) { e.Outcome = "failed" },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			bad := entry()
			spoil(&bad)
			for _, n := range []int{1, 20} {
				err := store.Append(t.Context(), append(entries(n), bad))
				if err == nil || errors.Is(err, ledger.ErrUnavailable) {
					t.Errorf("beside %d: error %v, want a refusal of the entry", n, err)
				}
			}
		})
	}
	if n := count(t, pool); n != 0 {
		t.Errorf("%d rows, want none of a refused group", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int{0, 1, 20} {
		if err := store.Append(ctx, entries(n)); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%d, out of time: %v, want ErrUnavailable", n, err)
		}
	}
	standby := readOnly(t, pool)
	for _, n := range []int{0, 1, 20} {
		if err := standby.Append(t.Context(), entries(n)); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%d, a database that only reads: %v, want ErrUnavailable", n, err)
		}
	}
	pool.Close()
	for _, n := range []int{0, 1, 20} {
		if err := store.Append(t.Context(), entries(n)); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%d, closed pool: %v, want ErrUnavailable", n, err)
		}
	}
}

// readOnly returns the ledger of a standby.
func readOnly(t *testing.T, pool *pgxpool.Pool) *Ledger {
	t.Helper()
	config := pool.Config()
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	standby, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Close)
	return NewLedger(standby)
}

// The previous release, without this schema's newest columns, can still write rows.
func TestReleaseBefore(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	_, err := pool.Exec(t.Context(), `INSERT INTO ledger_entry (
		id, request_id, organization_id, key_id, service, run_id, operation, requested_provider, requested_model, requested_goal,
		provider, model, credential, credential_fingerprint, substituted, attempts, input_tokens, cache_read_tokens, cache_write_tokens,
		output_tokens, reasoning_tokens, images, usage_state, cost_pico_usd, price_version, outcome, started_at, ended_at)
		VALUES (gen_random_uuid(), 'r', 'acme', '', '', '', 'chat', '', '', '', 'p', 'm', 'fleet', '', false, 1,
		1, 0, 0, 1, 0, 0, 'reported', 0, '', 'completed', now(), now())`)
	if err != nil || count(t, pool) != 1 {
		t.Errorf("%v, %d rows", err, count(t, pool))
	}
}

// Entries count the calls that they are of, once, however often they are appended; other calls count beside them.
func TestCountsOfCalls(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewLedger(pool)
	of := func(metric, user string) ledger.Entry {
		e := entry()
		e.Organization, e.Key, e.User, e.Tags, e.CountMetric = "acme", "key_1", user, nil, metric
		e.EndedAt = time.Date(2026, 11, 30, 10, 20, 30, 0, time.UTC)
		return e
	}
	group := []ledger.Entry{of("llm_requests", ""), of("llm_requests", ""), of("", ""), of("llm_requests", "ann"), of("tool_requests", "")}
	alone := callcount.Count{
		ID: uuid.New(), Organization: "acme", Key: "key_1", Metric: "llm_requests", Tags: map[string]string{"team": "web"}, At: group[0].EndedAt,
	}
	for range 2 {
		if err := store.Append(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		if err := store.Count(t.Context(), []callcount.Count{alone}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Append(t.Context(), append(group, of("llm_requests", "ann"))); err != nil {
		t.Fatal(err)
	}
	page, err := NewCounts(pool).List(t.Context(), feed.Position{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, s := range page.Sums {
		if s.Organization != "acme" || s.Key != "key_1" || !s.Minute.Equal(alone.At.Truncate(time.Minute)) {
			t.Errorf("%+v", s)
		}
		got[s.Metric+" "+s.User+s.Tags["team"]] += s.Calls
	}
	if diff := cmp.Diff(map[string]int64{"llm_requests ": 2, "llm_requests ann": 2, "tool_requests ": 1, "llm_requests web": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bad := alone
	bad.ID, bad.Organization = uuid.New(), ""
	if err := store.Count(t.Context(), []callcount.Count{bad}); err == nil || errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("a count of no organization: %v, want it refused for good", err)
	}
}
