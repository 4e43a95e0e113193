package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/testkit"
)

// exact returns a call of acme's tool deploy.
func exact(arguments string) *approval.Exact {
	return &approval.Exact{
		Organization: "acme", Run: "r1", Server: "ci", Tool: "deploy", Definition: [32]byte{1}, RequestedBy: "agent", User: "eve",
		Arguments: []byte(arguments), Policy: "p1", Rule: "deployments", Approvers: "default", Page: true, StandingAllowed: true, Price: 7,
	}
}

// require asks for the approval of a call as a replica.
func require(t *testing.T, store *postgres.Approvals, c *approval.Exact, replica string, now time.Time) (approval.Approval, error) {
	t.Helper()
	asked := approval.Asked{
		Exact: c, Matches: func(when string) bool { return when == "true" }, Lease: approval.Lease{Replica: replica, Until: now.Add(30 * time.Second)},
		New: approval.New(approval.Approval{
			Organization: c.Organization, Tool: c.Tool, Arguments: c.Arguments, RequestedBy: c.RequestedBy, AskedUser: c.User, Run: c.Run, Server: c.Server,
			Call: &approval.Execution{
				Digest: c.Digest(), Definition: c.Definition, Policy: c.Policy, Rule: c.Rule, Approvers: c.Approvers, Page: c.Page,
				StandingAllowed: c.StandingAllowed, Price: c.Price, Redacted: []string{}, State: approval.Waiting,
			},
		}, time.Hour, now),
	}
	asked.Entry = entry("approval.create", c.Organization, asked.New.Ref)
	return store.Require(t.Context(), &asked, now)
}

func decide(t *testing.T, store *postgres.Approvals, ref string, event approval.Event, now time.Time) {
	t.Helper()
	d := approval.Decision{Event: event, By: "ada", Via: approval.ViaAPI}
	if _, err := store.Decide(t.Context(), "acme", ref, d, now, entry("approval."+string(event), "acme", ref)); err != nil {
		t.Fatal(err)
	}
}

func stateOf(t *testing.T, store *postgres.Approvals, ref string) approval.State {
	t.Helper()
	a, err := store.Get(t.Context(), "acme", ref)
	if err != nil {
		t.Fatal(err)
	}
	return a.Call.State
}

// A call and its repetitions have one approval, which allows it once.
func TestApprovedCallIsMadeOnce(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a, err := require(t, store, exact(`{}`), "one", noon)
	if err != nil || a.Status != approval.Pending || a.Call.State != approval.Waiting {
		t.Fatalf("%+v, %v", a, err)
	}
	again, err := require(t, store, exact(`{}`), "two", noon)
	if other, _ := require(t, store, exact(`{"a":1}`), "one", noon); err != nil || again.Ref != a.Ref || other.Ref == a.Ref {
		t.Fatalf("repeated: %s, %v; with other arguments: %s", again.Ref, err, other.Ref)
	}
	for name, change := range map[string]func(*approval.Exact){
		"another run": func(c *approval.Exact) { c.Run = "r2" }, "another asker": func(c *approval.Exact) { c.User = "bob" },
		"another organization": func(c *approval.Exact) { c.Organization = "bolt" }, "another server": func(c *approval.Exact) { c.Server = "cd" },
	} {
		c := exact(`{}`)
		change(c)
		if other, err := require(t, store, c, "one", noon); err != nil || other.Ref == a.Ref {
			t.Errorf("%s: %s, %v", name, other.Ref, err)
		}
	}
	decide(t, store, a.Ref, approval.Approve, noon)
	claimed, err := require(t, store, exact(`{}`), "one", noon)
	if err != nil || claimed.Call.State != approval.Claimed || claimed.Call.Attempt != 1 {
		t.Fatalf("%+v, %v", claimed.Call, err)
	}
	if _, err := require(t, store, exact(`{}`), "two", noon); !errors.Is(err, approval.ErrInProgress) {
		t.Errorf("claimed twice: %v", err)
	}
	if err := store.Send(t.Context(), &claimed, noon.Add(time.Minute), noon); err != nil {
		t.Fatal(err)
	}
	if err := store.Send(t.Context(), &claimed, noon.Add(time.Minute), noon); !errors.Is(err, approval.ErrLost) {
		t.Errorf("sent twice: %v", err)
	}
	if err := store.Settle(t.Context(), &claimed, approval.Done, noon); err != nil {
		t.Fatal(err)
	}
	next, err := require(t, store, exact(`{}`), "one", noon.Add(time.Second))
	if err != nil || next.Ref == a.Ref || next.Status != approval.Pending || stateOf(t, store, a.Ref) != approval.Done {
		t.Errorf("after it was made: %s %s, %v", next.Ref, next.Status, err)
	}
}

// Of fifty concurrent requests for an approved call, one claims it; fifty for a new one share an approval.
func TestConcurrentClaims(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	var refs sync.Map
	all := func(each func(replica string)) {
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() { each(fmt.Sprint("replica-", i)) })
		}
		group.Wait()
	}
	all(func(replica string) {
		if a, err := require(t, store, exact(`{}`), replica, noon); err != nil {
			t.Error(err)
		} else {
			refs.Store(a.Ref, true)
		}
	})
	var ref string
	count := 0
	refs.Range(func(key, _ any) bool { ref = key.(string); count++; return true })
	if count != 1 {
		t.Fatalf("%d approvals", count)
	}
	decide(t, store, ref, approval.Approve, noon)
	var claimed, busy atomic.Int64
	all(func(replica string) {
		switch a, err := require(t, store, exact(`{}`), replica, noon); {
		case err == nil && a.Call.State == approval.Claimed:
			claimed.Add(1)
		case errors.Is(err, approval.ErrInProgress):
			busy.Add(1)
		default:
			t.Error(a.Call, err)
		}
	})
	if claimed.Load() != 1 || busy.Load() != 49 {
		t.Errorf("%d claimed it, %d were refused", claimed.Load(), busy.Load())
	}
}

// A replica that dies before it sends gives the call to another one; one that dies afterwards leaves it unknown for good.
func TestLostReplicas(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a, err := require(t, store, exact(`{}`), "one", noon)
	if err != nil {
		t.Fatal(err)
	}
	decide(t, store, a.Ref, approval.Approve, noon)
	dead, err := require(t, store, exact(`{}`), "one", noon)
	if err != nil {
		t.Fatal(err)
	}
	later := noon.Add(30 * time.Second)
	heir, err := require(t, store, exact(`{}`), "two", later)
	if err != nil || heir.Call.Attempt != 2 || heir.Call.Replica != "two" {
		t.Fatalf("%+v, %v", heir.Call, err)
	}
	if err := store.Send(t.Context(), &dead, later.Add(time.Minute), later); !errors.Is(err, approval.ErrLost) {
		t.Errorf("the first sends after all: %v", err)
	}
	if err := store.Release(t.Context(), &dead); err != nil || stateOf(t, store, a.Ref) != approval.Claimed {
		t.Errorf("the first gave back the claim of the second: %v", err)
	}
	if err := store.Send(t.Context(), &heir, later.Add(time.Minute), later); err != nil {
		t.Fatal(err)
	}
	if n, err := store.Lose(t.Context(), 10, later.Add(time.Minute-1)); n != 0 || err != nil {
		t.Errorf("lost %d within the lease, %v", n, err)
	}
	if _, err := require(t, store, exact(`{}`), "one", later.Add(time.Minute-1)); !errors.Is(err, approval.ErrInProgress) {
		t.Errorf("within the lease: %v", err)
	}
	if n, err := store.Lose(t.Context(), 10, later.Add(time.Minute)); n != 1 || err != nil {
		t.Errorf("lost %d after the lease, %v", n, err)
	}
	lost := later.Add(time.Minute)
	if _, err := require(t, store, exact(`{}`), "one", lost.Add(approval.Stands-1)); !errors.Is(err, approval.ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
	next, err := require(t, store, exact(`{}`), "one", lost.Add(approval.Stands))
	if err != nil || next.Status != approval.Pending || next.Call.UnknownRef != a.Ref {
		t.Errorf("a person decides again: %+v, %v", next, err)
	}
	if err := store.Settle(t.Context(), &heir, approval.Done, lost); err != nil || stateOf(t, store, a.Ref) != approval.Done {
		t.Errorf("a late answer is not counted: %v", err)
	}
}

// A call that was sent and whose lease has run out is unknown to the next that asks, before any sweep.
func TestUnknownWithoutASweep(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a, _ := require(t, store, exact(`{}`), "one", noon)
	decide(t, store, a.Ref, approval.Approve, noon)
	claimed, _ := require(t, store, exact(`{}`), "one", noon)
	if err := store.Send(t.Context(), &claimed, noon.Add(time.Minute), noon); err != nil {
		t.Fatal(err)
	}
	if _, err := require(t, store, exact(`{}`), "two", noon.Add(time.Minute)); !errors.Is(err, approval.ErrUnknown) || stateOf(t, store, a.Ref) != approval.Unknown {
		t.Errorf("%v, %s", err, stateOf(t, store, a.Ref))
	}
}

// What certainly did not leave may be claimed again.
func TestGivenBack(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a, _ := require(t, store, exact(`{}`), "one", noon)
	decide(t, store, a.Ref, approval.Approve, noon)
	for i := range 2 {
		claimed, err := require(t, store, exact(`{}`), "one", noon)
		if err != nil || claimed.Call.Attempt != i+1 {
			t.Fatalf("%+v, %v", claimed.Call, err)
		}
		if err := store.Send(t.Context(), &claimed, noon.Add(time.Minute), noon); err != nil {
			t.Fatal(err)
		}
		if err := store.Release(t.Context(), &claimed); err != nil || stateOf(t, store, a.Ref) != approval.Waiting {
			t.Fatalf("%v, %s", err, stateOf(t, store, a.Ref))
		}
	}
}

// Another policy or definition needs another decision, and the approval before it ends.
func TestSupersededApprovals(t *testing.T) {
	control, pool, _ := newControl(t)
	store, b := postgres.NewApprovals(control), &books{pool: pool}
	before, _ := require(t, store, exact(`{}`), "one", noon)
	first := before.Ref
	for i, change := range []func(*approval.Exact){
		func(c *approval.Exact) { c.Policy = "p2" },
		func(c *approval.Exact) { c.Policy, c.Definition = "p2", [32]byte{2} },
	} {
		if i == 1 {
			decide(t, store, before.Ref, approval.Approve, noon)
		}
		c := exact(`{}`)
		change(c)
		now := noon.Add(time.Duration(i+1) * time.Second)
		next, err := require(t, store, c, "one", now)
		if err != nil || next.Ref == before.Ref || next.Status != approval.Pending {
			t.Fatalf("%+v, %v", next, err)
		}
		old, err := store.Get(t.Context(), "acme", before.Ref)
		if err != nil || old.Call.State != approval.Closed || i == 0 && old.At(now).Status != approval.Superseded {
			t.Errorf("before: %s, %s, %v", old.At(now).Status, old.Call.State, err)
		}
		if i == 0 {
			waited := []string{"approval.pending approval/" + first, "approval.pending approval/" + next.Ref}
			slices.Sort(waited)
			b.wants(t, "superseded", append(waited, "approval.superseded approval/"+first)...)
			if by := testkit.Value[string](t, pool, "SELECT data ->> 'superseded_by' FROM house_event WHERE type LIKE '%superseded'"); by != next.Ref {
				t.Errorf("superseded by %q, want %s", by, next.Ref)
			}
		}
		before = next
	}
	// The one that was approved is closed, too, and keeps its status; so does one that had expired.
	late := noon.Add(2 * time.Hour)
	c := exact(`{}`)
	c.Policy = "p3"
	if _, err := require(t, store, c, "one", late); err != nil {
		t.Fatal(err)
	}
	for status, want := range map[approval.Status][]string{
		approval.Superseded: {first}, approval.Expired: {before.Ref},
	} {
		found, err := store.List(t.Context(), approval.Filter{Organization: "acme", Status: status, Limit: 10}, late)
		var refs []string
		for _, a := range found {
			refs = append(refs, a.Ref)
			if a.Status != status {
				t.Errorf("%s is %s, want %s", a.Ref, a.Status, status)
			}
		}
		if diff := cmp.Diff(want, refs); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", status, err, diff)
		}
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM house_event WHERE type LIKE '%superseded'"); n != 1 {
		t.Errorf("%d events of superseded approvals, want 1", n)
	}
}

// A denied call is refused for a while, then asked for again.
func TestDeniedCall(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a, _ := require(t, store, exact(`{}`), "one", noon)
	decide(t, store, a.Ref, approval.Deny, noon)
	if got, err := require(t, store, exact(`{}`), "one", noon.Add(approval.Stands-1)); !errors.Is(err, approval.ErrDenied) || got.Ref != a.Ref {
		t.Errorf("%s, %v", got.Ref, err)
	}
	if next, err := require(t, store, exact(`{}`), "one", noon.Add(approval.Stands)); err != nil || next.Ref == a.Ref {
		t.Errorf("%s, %v", next.Ref, err)
	}
}

// The database refuses what the order of states excludes, from every writer.
func TestOrderOfStates(t *testing.T) {
	control, pool, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a, _ := require(t, store, exact(`{}`), "one", noon)
	const claim = "UPDATE approval_call SET state = 'claimed', attempt = attempt + 1, replica = 'x', lease_until = now()"
	refused := func(statement string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), statement); err == nil {
			t.Errorf("%s was allowed", statement)
		}
	}
	refused(claim)
	refused("UPDATE approval_call SET state = 'sent', sent_at = now(), lease_until = now(), attempt = 1, replica = 'x'")
	decide(t, store, a.Ref, approval.Approve, noon)
	claimed, _ := require(t, store, exact(`{}`), "one", noon)
	refused("UPDATE approval_call SET state = 'done', sent_at = now(), ended_at = now(), lease_until = NULL")
	if err := store.Send(t.Context(), &claimed, noon.Add(time.Minute), noon); err != nil {
		t.Fatal(err)
	}
	refused(claim)
	if err := store.Settle(t.Context(), &claimed, approval.Unknown, noon); err != nil {
		t.Fatal(err)
	}
	refused("UPDATE approval_call SET state = 'waiting', sent_at = NULL, ended_at = NULL")
	refused(claim)
}

// An organization's calls that wait for a decision are bounded.
func TestTooManyWait(t *testing.T) {
	control, pool, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a, _ := require(t, store, exact(`{}`), "one", noon)
	if _, err := pool.Exec(t.Context(), `
WITH made AS (
    INSERT INTO approval (ref, organization_id, tool, requested_by, run_id, server_id, description, created_at, expires_at)
    SELECT 'x' || n, organization_id, tool, requested_by, run_id, server_id, description, created_at, expires_at
    FROM approval, generate_series(2, $1) AS n RETURNING id
)
INSERT INTO approval_call (approval_id, organization_id, run_id, call_digest, definition_digest, policy_version, rule, approvers,
    proof, standing_allowed, price_pico_usd, reviewed_by, redacted, unknown_ref, standing_ref)
SELECT made.id, organization_id, run_id, sha256(made.id::text::bytea), definition_digest, policy_version, rule, approvers,
    proof, standing_allowed, price_pico_usd, reviewed_by, redacted, unknown_ref, standing_ref
FROM approval_call, made`, approval.MaxWaiting); err != nil {
		t.Fatal(err)
	}
	if _, err := require(t, store, exact(`{"a":1}`), "one", noon); !errors.Is(err, approval.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if again, err := require(t, store, exact(`{}`), "one", noon); err != nil || again.Ref != a.Ref {
		t.Errorf("a repetition: %v", err)
	}
}
