package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/testkit"
)

func assign(t *testing.T, store trust.Store, server string, level trust.Level, by string) trust.Record {
	t.Helper()
	r, err := store.Assign(t.Context(), trust.Assignment{Organization: "acme", Server: server, Level: level, By: by, Reason: "why"}, noon, entry("trust.assign", "acme", server))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTrustIsKeptWithItsHistory(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewTrust(control)
	assign(t, store, "files", trust.Community, "ada")
	assign(t, store, "files", trust.Verified, "ada")
	superseding := assign(t, store, "files", trust.FirstParty, "bob")
	if superseding.Effective != trust.Community || superseding.Status != trust.Pending || superseding.Version != 3 {
		t.Errorf("%+v", superseding)
	}
	review := func(v trust.Review) (trust.Record, error) {
		return store.Review(t.Context(), "acme", "files", v, noon.Add(time.Hour), entry("trust.approve", "acme", "files"))
	}
	if _, err := review(trust.Review{Verdict: trust.Approve, By: "bob"}); !errors.Is(err, trust.ErrNotIndependent) {
		t.Errorf("by its assigner: %v", err)
	}
	if _, err := review(trust.Review{Verdict: trust.Approve, By: "eve", Version: 2}); !errors.Is(err, trust.ErrVersion) {
		t.Errorf("of the record that was superseded: %v", err)
	}
	reviewed, err := review(trust.Review{Verdict: trust.Approve, By: "ada", Reason: "fine", Version: 3})
	if err != nil || reviewed.Effective != trust.FirstParty {
		t.Errorf("%+v, %v", reviewed, err)
	}
	if _, err := review(trust.Review{Verdict: trust.Reject, By: "ada"}); !errors.Is(err, trust.ErrNotPending) {
		t.Errorf("again: %v", err)
	}
	down := assign(t, store, "files", trust.Untrusted, "ada")
	if down.Effective != trust.Untrusted {
		t.Errorf("down: %+v", down)
	}
	history, err := store.History(t.Context(), "acme", "files", 0, 10)
	if err != nil || len(history) != 4 {
		t.Fatalf("%d records, %v", len(history), err)
	}
	if diff := cmp.Diff([]trust.Record{down, reviewed}, history[:2], cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("(-returned +kept):\n%s", diff)
	}
	if history[2].Status != trust.Pending || history[2].Effective != trust.Community {
		t.Errorf("superseded: %+v", history[2])
	}
	if older, err := store.History(t.Context(), "acme", "files", 3, 1); err != nil || len(older) != 1 || older[0].Version != 2 {
		t.Errorf("a page of the history: %+v, %v", older, err)
	}
	if _, err := store.Review(t.Context(), "bolt", "files", trust.Review{Verdict: trust.Approve, By: "eve"}, noon, entry("trust.approve", "bolt", "files")); !errors.Is(err, trust.ErrNotFound) {
		t.Errorf("of another organization: %v", err)
	}
	entries, err := control.List(t.Context(), audit.Filter{Subject: "files", Limit: 20})
	if err != nil || len(entries) != 5 || string(entries[1].Details) !=
		`{"level": "FIRST_PARTY", "version": 3, "assigned_by": "bob", "reviewed_by": "ada", "review_status": "approved", "effective_level": "FIRST_PARTY"}` {
		t.Errorf("%d audit entries, %v: %s", len(entries), err, entries[1].Details)
	}
}

func TestListTrust(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewTrust(control)
	for _, server := range []string{"c", "a", "b"} {
		assign(t, store, server, trust.Community, "ada")
		assign(t, store, server, trust.Verified, "ada")
	}
	assign(t, store, "d", trust.Untrusted, "ada")
	list := func(organization string, status trust.Status, after string, limit int) (servers string) {
		records, err := store.Present(t.Context(), organization, status, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			servers += fmt.Sprint(r.Server, r.Version, " ")
		}
		return servers
	}
	for want, got := range map[string]string{
		"a2 b2 c2 d1 ": list("acme", "", "", 10), "a2 b2 c2 ": list("acme", trust.Pending, "", 10), "a2 ": list("acme", "", "", 1),
		"b2 c2 d1 ": list("acme", "", "a", 10), "": list("bolt", "", "", 10), "d1 ": list("acme", trust.NotRequired, "", 10),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// With concurrent assignments and reviews, versions have no gaps, one record is present, and of each version one review
// takes effect.
func TestTrustUnderConcurrentUse(t *testing.T) {
	control, pool, _ := newControl(t)
	store := postgres.NewTrust(control)
	const writers = 20
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() { assign(t, store, "files", trust.Verified, fmt.Sprint("person-", i)) })
		group.Go(func() {
			_, err := store.Review(t.Context(), "acme", "files", trust.Review{Verdict: trust.Approve, By: "eve"}, noon, entry("trust.approve", "acme", "files"))
			if err != nil && !errors.Is(err, trust.ErrNotFound) && !errors.Is(err, trust.ErrNotPending) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	history, err := store.History(t.Context(), "acme", "files", 0, 100)
	if err != nil || len(history) != writers {
		t.Fatalf("%d records, %v", len(history), err)
	}
	for i, r := range history {
		if r.Version != writers-i {
			t.Errorf("version %d at place %d", r.Version, i)
		}
	}
	var present int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM trust_record WHERE present").Scan(&present); err != nil || present != 1 {
		t.Errorf("%d present records, %v", present, err)
	}
}

// The schema itself allows no unreviewed trust.
func TestTrustSchema(t *testing.T) {
	control, pool, _ := newControl(t)
	assign(t, postgres.NewTrust(control), "files", trust.Verified, "ada")
	for _, statement := range []string{
		"UPDATE trust_record SET review_status = 'approved', effective_level = 'VERIFIED'",
		"UPDATE trust_record SET review_status = 'approved', effective_level = 'VERIFIED', reviewed_by = 'ada', reviewed_at = now()",
		"UPDATE trust_record SET review_status = 'not_required'",
	} {
		if _, err := pool.Exec(t.Context(), statement); err == nil {
			t.Errorf("%s was allowed", statement)
		}
	}
}

// Every change of a level is followed, that of a release that doesn't know of it, too.
func TestTrustIsFollowed(t *testing.T) {
	settings, pool, changes := newControl(t)
	store := postgres.NewTrust(settings)
	assign(t, store, "files", trust.Verified, "ada")
	assign(t, store, "search", trust.Community, "ada")
	levels := trust.NewLevels(store, func(context.Context) error { return nil })
	var version int64
	expect := func(server string, want trust.Level) {
		t.Helper()
		versions, err := settings.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if version, err = levels.Load(t.Context(), version); err != nil || version != versions[control.Trust] {
			t.Errorf("%s: loaded version %d of %d, %v", server, version, versions[control.Trust], err)
		}
		if level, err := levels.Level("acme", server); err != nil || level != want {
			t.Errorf("%s: %s %v, want %s", server, level, err, want)
		}
	}
	expect("files", trust.Untrusted) // It waits for its review.
	expect("search", trust.Community)
	if _, err := store.Review(t.Context(), "acme", "files", trust.Review{Verdict: trust.Approve, By: "bob"}, noon, entry("trust.approve", "acme", "files")); err != nil {
		t.Fatal(err)
	}
	expect("files", trust.Verified)
	if n := changes.Load(); n != 3 {
		t.Errorf("%d changes were announced", n)
	}

	testkit.Exec(t, pool, `UPDATE trust_record SET present = false WHERE server_id = 'files' AND present`)
	testkit.Exec(t, pool, `INSERT INTO trust_record (
			organization_id, server_id, version, level, effective_level, review_status, assigned_by, assigned_at, assign_reason
		) VALUES ('acme', 'files', 2, 'FIRST_PARTY', 'COMMUNITY', 'pending', 'ada', now(), '')`)
	expect("files", trust.Community)
	testkit.Exec(t, pool, `UPDATE trust_record SET effective_level = 'FIRST_PARTY', review_status = 'approved',
			reviewed_by = 'bob', reviewed_at = now(), review_reason = ''
		WHERE server_id = 'files' AND version = 2`)
	expect("files", trust.FirstParty)
	assign(t, store, "files", trust.Untrusted, "ada")
	expect("files", trust.Untrusted)
}
