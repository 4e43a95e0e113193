package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/postgres"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func create(t *testing.T, store approval.Store, organization, tool string) approval.Approval {
	t.Helper()
	a := approval.New(approval.Approval{
		Organization: organization, Tool: tool, Arguments: []byte(`{"b" : 1, "a":2}`), RequestedBy: "agent", Run: "r1", Server: "s", Description: "d",
	}, time.Hour, noon)
	if err := store.Create(t.Context(), a, entry("approval.create", organization, a.Ref)); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestApprovalsAreKept(t *testing.T) {
	control, pool, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a := create(t, store, "acme", "deploy")
	got, err := store.Get(t.Context(), "acme", a.Ref)
	if diff := cmp.Diff(a, got, cmpopts.IgnoreFields(approval.Approval{}, "ID"), cmpopts.EquateApproxTime(0)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	decided, err := store.Decide(t.Context(), "acme", a.Ref, approval.Decision{Event: approval.Approve, By: "ada", Reason: "ok"}, noon.Add(time.Minute), entry("approval.approve", "acme", a.Ref))
	if err != nil || decided.Status != approval.Approved {
		t.Fatalf("%+v, %v", decided, err)
	}
	again, err := store.Get(t.Context(), "acme", a.Ref)
	if diff := cmp.Diff(decided, again, cmpopts.EquateApproxTime(0)); err != nil || diff != "" {
		t.Errorf("%v (-decided +kept):\n%s", err, diff)
	}
	for _, statement := range []string{"UPDATE approval SET status = 'denied'", "UPDATE approval SET decided_by = 'eve'"} {
		if _, err := pool.Exec(t.Context(), statement); err == nil {
			t.Errorf("%s was allowed", statement)
		}
	}
	entries, err := control.List(t.Context(), audit.Filter{Subject: a.Ref, Limit: 10})
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d audit entries, %v, want 2", len(entries), err)
	}
	if entries[0].Action != "approval.approve" {
		t.Errorf("the last action is %s, want approval.approve", entries[0].Action)
	}
	const details = `{"tool": "deploy", "run_id": "r1", "status": "approved", "decided_by": "ada", "expires_at": "2026-11-21T13:00:00Z", "requested_by": "agent"}`
	if diff := cmp.Diff(details, string(entries[0].Details)); diff != "" {
		t.Errorf("details of the audit (-want +got):\n%s", diff)
	}
}

func TestDecisionsThatAreRefusedLeaveNothing(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a := create(t, store, "acme", "deploy")
	yes := approval.Decision{Event: approval.Approve, By: "ada"}
	for name, test := range map[string]struct {
		organization, ref string
		at                time.Time
		want              error
	}{
		"another organization": {"bolt", a.Ref, noon, approval.ErrNotFound},
		"another ref":          {"acme", "apr_X", noon, approval.ErrNotFound},
		"too late":             {"acme", a.Ref, noon.Add(time.Hour), approval.ErrExpired},
	} {
		if _, err := store.Decide(t.Context(), test.organization, test.ref, yes, test.at, entry("approval.approve", "acme", a.Ref)); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := store.Get(t.Context(), "bolt", a.Ref); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("read by another organization: %v", err)
	}
	if entries, _ := control.List(t.Context(), audit.Filter{Action: "approval.approve", Limit: 10}); len(entries) != 0 {
		t.Errorf("%d audit entries of decisions that were refused", len(entries))
	}
}

// Of fifty concurrent decisions, one takes effect.
func TestOneDecisionSettlesIt(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	a := create(t, store, "acme", "deploy")
	var settled, late atomic.Int64
	var winner atomic.Value
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			d := approval.Decision{Event: []approval.Event{approval.Approve, approval.Deny}[i%2], By: fmt.Sprint("decider-", i)}
			switch got, err := store.Decide(t.Context(), "acme", a.Ref, d, noon, entry("approval."+string(d.Event), "acme", a.Ref)); {
			case err == nil:
				settled.Add(1)
				winner.Store(got)
			case errors.Is(err, approval.ErrDecided):
				late.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	got, err := store.Get(t.Context(), "acme", a.Ref)
	if settled.Load() != 1 || late.Load() != 49 || err != nil {
		t.Fatalf("%d settled it, %d were late, %v", settled.Load(), late.Load(), err)
	}
	if diff := cmp.Diff(winner.Load(), got, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("(-winner +kept):\n%s", diff)
	}
	if entries, _ := control.List(t.Context(), audit.Filter{Subject: a.Ref, Limit: 100}); len(entries) != 2 {
		t.Errorf("%d audit entries, want those of its creation and of one decision", len(entries))
	}
}

func TestListApprovals(t *testing.T) {
	control, _, _ := newControl(t)
	store := postgres.NewApprovals(control)
	var refs []string
	for i := range 6 {
		a := create(t, store, "acme", []string{"deploy", "drop"}[i%2])
		refs = append(refs, a.Ref)
	}
	create(t, store, "bolt", "deploy")
	for i, event := range []approval.Event{approval.Approve, approval.Deny} {
		if _, err := store.Decide(t.Context(), "acme", refs[i], approval.Decision{Event: event, By: "ada"}, noon, entry("approval.x", "acme", refs[i])); err != nil {
			t.Fatal(err)
		}
	}
	late := noon.Add(time.Hour)
	for name, test := range map[string]struct {
		filter approval.Filter
		at     time.Time
		want   []int
	}{
		"all":               {approval.Filter{}, noon, []int{5, 4, 3, 2, 1, 0}},
		"pending":           {approval.Filter{Status: approval.Pending}, noon, []int{5, 4, 3, 2}},
		"pending, too late": {approval.Filter{Status: approval.Pending}, late, nil},
		"expired":           {approval.Filter{Status: approval.Expired}, late, []int{5, 4, 3, 2}},
		"expired, not yet":  {approval.Filter{Status: approval.Expired}, noon, nil},
		"approved":          {approval.Filter{Status: approval.Approved}, late, []int{0}},
		"denied":            {approval.Filter{Status: approval.Denied}, noon, []int{1}},
		"tool":              {approval.Filter{Tool: "drop"}, noon, []int{5, 3, 1}},
		"run":               {approval.Filter{Run: "r2"}, noon, nil},
		"page":              {approval.Filter{Limit: 2}, noon, []int{5, 4}},
	} {
		test.filter.Organization = "acme"
		if test.filter.Limit == 0 {
			test.filter.Limit = 10
		}
		found, err := store.List(t.Context(), test.filter, test.at)
		var got []int
		for _, a := range found {
			for i, ref := range refs {
				if a.Ref == ref {
					got = append(got, i)
				}
			}
			if s := test.filter.Status; s != "" && a.Status != s {
				t.Errorf("%s: %s is %s", name, a.Ref, a.Status)
			}
		}
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" || len(found) != len(got) {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	first, _ := store.List(t.Context(), approval.Filter{Organization: "acme", Limit: 4}, noon)
	rest, err := store.List(t.Context(), approval.Filter{Organization: "acme", Limit: 4, Before: first[3].ID}, noon)
	if err != nil || len(rest) != 2 || rest[0].Ref != refs[1] {
		t.Errorf("the next page has %d, %v", len(rest), err)
	}
}
