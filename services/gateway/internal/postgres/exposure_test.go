package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/gateway/internal/custody/exposure"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// naive counts by iterating over all entries.
func naive(entries []ledger.Entry, q exposure.Query) (radius exposure.Radius) {
	organizations, services, runs := map[string]*exposure.Organization{}, map[string]*exposure.Service{}, map[[2]string]*exposure.Run{}
	for _, e := range entries {
		if e.Provider != q.Provider || q.Fingerprint != "" && e.Fingerprint != q.Fingerprint || e.CacheHit ||
			!q.Since.IsZero() && e.StartedAt.Before(q.Since) || !q.Until.IsZero() && !e.StartedAt.Before(q.Until) {
			continue
		}
		add := func(u *exposure.Use) {
			u.Calls++
			if u.First.IsZero() || e.StartedAt.Before(u.First) {
				u.First = e.StartedAt
			}
			if e.StartedAt.After(u.Last) {
				u.Last = e.StartedAt
			}
		}
		add(&radius.Use)
		radius.CostCents += e.Cost.Cents()
		o := at(organizations, e.Organization, exposure.Organization{Name: e.Organization})
		add(&o.Use)
		o.Fleet, o.Byok = o.Fleet || e.Credential == "fleet", o.Byok || e.Credential == "byok"
		if e.Service != "" {
			add(&at(services, e.Service, exposure.Service{Name: e.Service}).Use)
		}
		if e.Run != "" {
			add(&at(runs, [2]string{e.Organization, e.Run}, exposure.Run{ID: e.Run, Organization: e.Organization}).Use)
		}
	}
	for _, o := range organizations {
		radius.Organizations = append(radius.Organizations, *o)
	}
	for _, s := range services {
		radius.Services = append(radius.Services, *s)
	}
	for _, r := range runs {
		radius.Runs = append(radius.Runs, *r)
	}
	radius.OrganizationCount, radius.ServiceCount, radius.RunCount = len(organizations), len(services), len(runs)
	slices.SortFunc(radius.Organizations, func(a, b exposure.Organization) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(radius.Services, func(a, b exposure.Service) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(radius.Runs, func(a, b exposure.Run) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Organization, b.Organization), cmp.Compare(a.ID, b.ID))
	})
	radius.Organizations = radius.Organizations[:min(len(radius.Organizations), q.Limit)]
	radius.Services = radius.Services[:min(len(radius.Services), q.Limit)]
	radius.Runs = radius.Runs[:min(len(radius.Runs), q.Limit)]
	return radius
}

func at[K comparable, V any](of map[K]*V, key K, fresh V) *V {
	if of[key] == nil {
		of[key] = &fresh
	}
	return of[key]
}

// use returns a random call within 70 days: of no run, of a run that lasts all the
// time, or of one that lasts some hours.
func use(random *rand.Rand) ledger.Entry {
	e := entry()
	e.ID = uuid.New()
	e.Provider, e.Fingerprint = fmt.Sprint("p", random.IntN(2)), []string{"", "f0", "f1"}[random.IntN(3)] // Without a key: none.
	e.Organization, e.Service = fmt.Sprint("o", random.IntN(4)), []string{"", "edge", "cron"}[random.IntN(3)]
	e.Credential, e.CacheHit = []string{"fleet", "byok"}[random.IntN(2)], random.IntN(8) == 0
	e.Cost = price.Pico(random.Int64N(1e12))
	e.StartedAt = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(random.Int64N(70*24*3600)) * time.Second)
	if random.IntN(4) == 0 {
		e.StartedAt = e.StartedAt.Truncate(time.Hour) // On a boundary.
	}
	e.EndedAt = e.StartedAt.Add(time.Second)
	e.Run = []string{"", "long", "r" + e.StartedAt.Truncate(5*time.Hour).Format("0102-15")}[random.IntN(3)]
	return e
}

// However much of the ledger is folded in, the answer is what a count of all
// entries gives, for any window.
func TestRadiusIsExact(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	rows, store := NewLedger(pool), NewExposure(pool)
	random := rand.New(rand.NewPCG(1, 2))
	var entries []ledger.Entry
	for round := range 12 {
		batch := make([]ledger.Entry, random.IntN(60))
		for i := range batch {
			batch[i] = use(random)
		}
		if err := rows.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, batch...)
		for range random.IntN(3) {
			if _, err := store.Aggregate(t.Context(), 1+random.IntN(40)); err != nil {
				t.Fatal(err)
			}
		}
		for range 15 {
			q := exposure.Query{Provider: fmt.Sprint("p", random.IntN(3)), Fingerprint: []string{"", "f0", "f1"}[random.IntN(3)], Limit: 1 + random.IntN(6)}
			if random.IntN(3) > 0 {
				q.Since = use(random).StartedAt
			}
			if random.IntN(3) > 0 {
				q.Until = use(random).StartedAt
			}
			got, err := store.Radius(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(naive(entries, q), got, cmpopts.EquateApproxTime(0), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
				t.Fatalf("round %d, %+v (-naive +got):\n%s", round, q, diff)
			}
		}
	}
}

// A transaction that commits late is folded in all the same, and nothing before
// it twice: the fold waits, and readers don't.
func TestFoldWaitsForTransactionsUnderWay(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	rows, store := NewLedger(pool), NewExposure(pool)
	calls := func() int64 {
		radius, err := store.Radius(t.Context(), exposure.Query{Provider: "beta", Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return radius.Calls
	}
	one := func() ledger.Entry {
		e := entry()
		e.ID, e.CacheHit, e.Cost = uuid.New(), false, 1
		return e
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	if err := rows.Append(t.Context(), []ledger.Entry{one()}); err != nil {
		t.Fatal(err)
	}
	if n, err := store.Aggregate(t.Context(), 10); n != 0 || err != nil || calls() != 1 {
		t.Errorf("folded %d, %v; %d calls", n, err, calls())
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO ledger_entry (id, request_id, organization_id, key_id, service, run_id, operation, requested_provider,
		requested_model, requested_goal, provider, model, credential, credential_fingerprint, substituted, attempts, input_tokens, cache_read_tokens,
		cache_write_tokens, output_tokens, reasoning_tokens, images, usage_state, cost_pico_usd, price_version, outcome, started_at, ended_at)
		SELECT gen_random_uuid(), request_id, organization_id, key_id, service, run_id, operation, requested_provider, requested_model, requested_goal,
		provider, model, credential, credential_fingerprint, substituted, attempts, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens,
		reasoning_tokens, images, usage_state, cost_pico_usd, price_version, outcome, started_at, ended_at FROM ledger_entry`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	foldAll(t, store, 2)
	if n, err := store.Aggregate(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("folded %d more, %v", n, err)
	}
	if calls() != 2 {
		t.Errorf("%d calls, want 2", calls())
	}
}

// foldAll folds n rows, once no other transaction on the server holds them back.
func foldAll(t *testing.T, store *Exposure, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); n > 0; {
		folded, err := store.Aggregate(t.Context(), 1)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d rows are not folded in: %v", n, err)
		}
		n -= folded
	}
}

// One replica folds at a time; the others go on.
func TestOneReplicaFolds(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	rows, store := NewLedger(pool), NewExposure(pool)
	e := entry()
	e.CacheHit = false
	if err := rows.Append(t.Context(), []ledger.Entry{e}); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT FROM exposure_mark FOR UPDATE"); err != nil {
			return err
		}
		// It doesn't wait for the other, either.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if n, err := store.Aggregate(ctx, 10); n != 0 || err != nil {
			t.Errorf("beside another: %d, %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	foldAll(t, store, 1)
	if n, err := store.Aggregate(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
}
