package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/testkit"
)

func newControl(t *testing.T) (*postgres.Control, *pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	pool := testkit.Postgres(t, migrations.FS)
	var changes atomic.Int64
	return postgres.NewControl(pool, func(context.Context, control.Topic, int64) { changes.Add(1) }), pool, &changes
}

func entry(action, organization, subject string) *audit.Entry {
	ctx := caller.With(context.Background(), caller.Caller{Name: "ops", Role: caller.RoleOperator, User: "ada"})
	e := audit.New(ctx, action, audit.Subject{Type: "test", ID: subject, Organization: organization}, "why")
	return &e
}

func nothing(context.Context, *dbsql.Queries, int64) error { return nil }

func TestChangeMovesTheTopicWithItsAudit(t *testing.T) {
	c, _, changes := newControl(t)
	e := entry("org.suspend", "acme", "acme")
	e.Details = json.RawMessage(`{"suspended": true}`)
	var seen int64
	err := c.Change(t.Context(), control.Organizations, e, func(_ context.Context, _ *dbsql.Queries, version int64) error {
		seen = version
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	versions, err := c.Versions(t.Context())
	if err != nil || versions[control.Organizations] != 1 || versions[control.Runs] != 0 {
		t.Errorf("versions %v, %v, want 1 for organizations alone", versions, err)
	}
	if seen != 1 {
		t.Errorf("the change saw version %d, want 1", seen)
	}
	entries, err := c.List(t.Context(), audit.Filter{Limit: 10})
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	got := entries[0]
	want := audit.Entry{
		ID: e.ID, Actor: "ada", ActorRole: "operator", Action: "org.suspend", Organization: "acme",
		SubjectType: "test", Subject: "acme", Reason: "why", Details: json.RawMessage(`{"suspended": true}`),
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(audit.Entry{}, "OccurredAt")); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if got.OccurredAt.IsZero() {
		t.Error("the entry has no time")
	}
	if changes.Load() != 1 {
		t.Errorf("the replicas were notified %d times", changes.Load())
	}
}

func TestAChangeThatFailsLeavesNothing(t *testing.T) {
	c, _, changes := newControl(t)
	broken := errors.New("broken")
	for given, want := range map[error]error{broken: broken, control.ErrUnchanged: nil} {
		err := c.Change(t.Context(), control.Runs, entry("run.revoke", "acme", "r"), func(context.Context, *dbsql.Queries, int64) error { return given })
		if !errors.Is(err, want) {
			t.Errorf("%v became %v", given, err)
		}
	}
	versions, _ := c.Versions(t.Context())
	entries, _ := c.List(t.Context(), audit.Filter{Limit: 10})
	if versions[control.Runs] != 0 || len(entries) != 0 || changes.Load() != 0 {
		t.Errorf("version %d, %d entries, notified %d times", versions[control.Runs], len(entries), changes.Load())
	}
}

// Writers of one topic are serialized: versions appear in the order of commits.
func TestVersionsHaveNoGaps(t *testing.T) {
	c, _, _ := newControl(t)
	const writers = 20
	var mu sync.Mutex
	seen := make(map[int64]bool)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			err := c.Change(t.Context(), control.Credentials, entry("byok.rotate", "acme", "openai"), func(_ context.Context, _ *dbsql.Queries, v int64) error {
				mu.Lock()
				defer mu.Unlock()
				seen[v] = true
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for v := int64(1); v <= writers; v++ {
		if !seen[v] {
			t.Errorf("no change had version %d", v)
		}
	}
}

func TestAuditIsAppendOnly(t *testing.T) {
	c, pool, _ := newControl(t)
	if err := c.Change(t.Context(), control.Runs, entry("run.revoke", "acme", "r"), nothing); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"UPDATE audit_entry SET actor = 'x'", "DELETE FROM audit_entry", "TRUNCATE audit_entry"} {
		if _, err := pool.Exec(t.Context(), statement); err == nil {
			t.Errorf("%s was allowed", statement)
		}
	}
}

func TestListAuditFilters(t *testing.T) {
	c, _, _ := newControl(t)
	for _, e := range []*audit.Entry{
		entry("byok.rotate", "acme", "openai"), entry("byok.delete", "acme", "openai"),
		entry("byokx.delete", "acme", "openai"), entry("org.suspend", "bolt", "bolt"),
	} {
		if err := c.Record(t.Context(), e, func(context.Context, *dbsql.Queries) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	future := time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		filter audit.Filter
		want   int
	}{
		"all":       {audit.Filter{}, 4},
		"org":       {audit.Filter{Organization: "bolt"}, 1},
		"action":    {audit.Filter{Action: "byok.rotate"}, 1},
		"group":     {audit.Filter{Action: "byok."}, 2},
		"subject":   {audit.Filter{Subject: "openai"}, 3},
		"actor":     {audit.Filter{Actor: "nobody"}, 0},
		"since":     {audit.Filter{Since: future}, 0},
		"until":     {audit.Filter{Until: future}, 4},
		"next page": {audit.Filter{Before: 3}, 2},
	} {
		test.filter.Limit = 10
		entries, err := c.List(t.Context(), test.filter)
		if err != nil || len(entries) != test.want {
			t.Errorf("%s: %d entries, want %d, %v", name, len(entries), test.want, err)
		}
		for i := 1; i < len(entries); i++ {
			if entries[i].ID >= entries[i-1].ID {
				t.Errorf("%s: not newest first", name)
			}
		}
	}
}
