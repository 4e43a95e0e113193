//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// Whatever one gateway has answered, the other one shows at once: the feed, the spend of the organization, and that of
// the session, although rows reach Postgres after the answers.
func TestGatewaysShowWhatWasAnswered(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization, run := unique("org"), unique("run")
	gateways := h.gateways(organization)
	operator := h.operator(stack.Gateway)
	var cents float64
	for calls := 1; calls <= 20; calls++ {
		by, other := gateways[calls%2].with("X-Run-Id", run), gateways[1-calls%2]
		var answer struct {
			Usage struct {
				Cents float64 `json:"cost_cents"`
			} `json:"usage"`
		}
		by.post(t, chatPath, ask(guarded.model, "hello", object{"max_tokens": 20})).into(t, http.StatusOK, &answer)
		cents += answer.Usage.Cents
		operator.base = other.base
		var organizationSpend, sessionSpend struct {
			Cents float64 `json:"spent_cents"`
		}
		operator.get(t, "/v1/admin/orgs/"+organization+"/spend").into(t, http.StatusOK, &organizationSpend)
		operator.get(t, "/v1/admin/sessions/"+run+"/spend?organization_id="+organization).into(t, http.StatusOK, &sessionSpend)
		for what, got := range map[string]float64{"organization": organizationSpend.Cents, "session": sessionSpend.Cents} {
			if math.Abs(got-cents) > 1e-9 {
				t.Errorf("after %d calls the other gateway shows that the %s spent %v cents, want %v", calls, what, got, cents)
			}
		}
	}
	if cents == 0 {
		t.Error("the calls cost nothing, so that nothing was shown")
	}
	h.awaitRecorded(t, organization, run, "completed", 20)
}

// Whatever one edge has answered, the other one counts at once.
func TestEdgesShowWhatWasAnswered(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	k := h.key(t, unique("org"), "ai", "read")
	edges := h.both(k.Key)
	operator := h.operator(stack.Edge)
	for calls := 1; calls <= 20; calls++ {
		edges[calls%2].post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		operator.base = edges[1-calls%2].base
		var page struct {
			Usage []struct {
				Count int `json:"count"`
			} `json:"usage"`
		}
		operator.get(t, fmt.Sprint("/admin/v1/usage?key_id=", k.ID)).into(t, http.StatusOK, &page)
		if len(page.Usage) != 1 || page.Usage[0].Count != calls {
			t.Errorf("after %d calls the other edge counts %+v", calls, page.Usage)
		}
	}
}

// A node that dies while Postgres is away loses nothing that was answered: another process begins with the spool of its
// gateway, as a pod does with the volume of the one before it.
func TestNodeDiesWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization, run := unique("org"), unique("run")
	customer := h.customer(t, organization, "ai", "read").with("X-Run-Id", run)
	customer.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK) // Both know the key and the organization.
	if err := h.Kill(store.Postgres); err != nil {
		t.Fatal(err)
	}
	const calls = 20
	for range calls - 1 {
		customer.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	}
	if err := errors.Join(h.Kill(string(stack.Edge)), h.Kill(string(stack.Gateway)), h.Kill(string(secondGateway))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{store.Postgres, string(stack.Gateway), string(secondGateway), string(stack.Edge)} {
		if err := h.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	h.awaitRecorded(t, organization, run, "completed", calls)
	h.awaitCount(t, organization, "llm_requests", calls)
}

// The gateway says in its status what its answers wait for.
func TestStatusSaysTheLedgerMode(t *testing.T) {
	t.Parallel()
	var status struct {
		Replicas []struct {
			Mode string `json:"ledger_mode"`
		} `json:"replicas"`
	}
	use(t).operator(stack.Gateway).get(t, "/v1/fleet/status").into(t, http.StatusOK, &status)
	for _, replica := range status.Replicas {
		if replica.Mode != "synced" && replica.Mode != "committed" {
			t.Errorf("a replica's ledger has the mode %q, want that of its volume", replica.Mode)
		}
	}
	if len(status.Replicas) == 0 {
		t.Error("no replica")
	}
}
