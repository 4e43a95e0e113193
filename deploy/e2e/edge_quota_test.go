//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// plan creates a plan with a limit of calls in a month, and puts an organization on it.
func (h *harness) plan(t *testing.T, organization string, amount int, kind string) (name string) {
	t.Helper()
	name = unique("plan")
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/plans/"+name, object{
		"limits": []object{{"meter": "calls", "period": "month", "amount": amount, "kind": kind}},
	}).want(t, http.StatusOK)
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/organizations/"+organization+"/plan", object{"plan": name}).want(t, http.StatusOK)
	return name
}

// awaitPlan waits until both replicas hold a key to a plan.
func (h *harness) awaitPlan(t *testing.T, key, name string) {
	t.Helper()
	for i, replica := range h.both(key) {
		waitFor(t, spreadTimeout, "the plan", func() error {
			var limits struct {
				Plan    string `json:"plan"`
				KeyPlan string `json:"key_plan"`
			}
			replica.get(t, "/product/v1/_meta/limits").into(t, http.StatusOK, &limits)
			if limits.Plan != name && limits.KeyPlan != name {
				return fmt.Errorf("replica %d has %+v, want %s", i, limits, name)
			}
			return nil
		})
	}
}

// A plan holds over two replicas, of which one is killed, and over the loss of all that is not in Postgres: no more calls
// are served than the limit and a lease of each replica.
func TestEdgeQuotas(t *testing.T) {
	h := pairOfEdges(t)
	t.Run("over replicas", func(t *testing.T) {
		const most, leases = 100, 2 * 2
		organization := unique("org")
		name := h.plan(t, organization, most, "hard")
		k := h.key(t, organization, "ai", "read")
		h.awaitPlan(t, k.Key, name)
		if served := h.callConcurrently(t, k.Key, 2*most); served < most || served > most+leases {
			t.Errorf("%d served, want %d to %d", served, most, most+leases)
		}
		awaitRefusal(t, waitTimeout, h.both(k.Key), http.StatusTooManyRequests)
		a := h.both(k.Key)[1].post(t, chatRoute, ask("sandbox", "hello"))
		if f := a.refused(t, http.StatusTooManyRequests, "quota_exceeded", ""); f.Class != "policy" || *f.Retryable || f.RetryAfter < 1 {
			t.Errorf("error %+v", f)
		}
		if got, left := a.header.Get("Retry-After"), endOfMonth(time.Now()); got != fmt.Sprint(left) && got != fmt.Sprint(left+1) {
			t.Errorf("retry after %s s, but the month ends in %d", got, left)
		}
	})
	t.Run("killed", func(t *testing.T) {
		const most, leases = 150, 2 * 3
		organization := unique("org")
		name := h.plan(t, organization, most, "hard")
		k := h.key(t, organization, "ai", "read")
		h.awaitPlan(t, k.Key, name)
		callers := slices.Repeat(h.both(k.Key), 2)
		served := h.killDuring(t, secondEdge, callers, most)
		served += h.callConcurrently(t, k.Key, most)
		// A call that the kill cut off counts, although it was not answered.
		if least := int64(most - len(callers)); served < least || served > most+leases {
			t.Errorf("%d served, want %d to %d", served, least, most+leases)
		}
		h.countAll(t, organization, served, int64(len(callers))) // What is in Postgres is not lost.
		for _, lost := range []string{store.Redis, string(stack.Edge), string(secondEdge)} {
			if err := h.Kill(lost); err != nil {
				t.Fatal(err)
			}
		}
		for _, lost := range []string{store.Redis, string(stack.Edge), string(secondEdge)} {
			if err := h.Restart(t.Context(), lost); err != nil {
				t.Fatal(err)
			}
		}
		for i, replica := range h.both(k.Key) {
			if a := replica.post(t, chatRoute, ask("sandbox", "hello")); a.status == http.StatusOK && served >= most {
				t.Errorf("replica %d serves a call beyond the limit after a restart", i)
			}
		}
	})
	t.Run("soft, then hard", func(t *testing.T) {
		organization := unique("org")
		name := h.plan(t, organization, 1, "soft")
		k := h.key(t, organization, "ai", "read")
		h.awaitPlan(t, k.Key, name)
		first := h.both(k.Key)[0]
		first.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		a := first.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		if got := a.header.Get("X-Switchyard-Quota-Exceeded"); got != "calls-month" {
			t.Errorf("exceeded %q, want calls-month", got)
		}
		var limits struct {
			Plan   string `json:"plan"`
			Limits []struct {
				Used, Remaining int64
			} `json:"limits"`
		}
		waitFor(t, waitTimeout, "the count of both calls at the other replica", func() error {
			h.both(k.Key)[1].get(t, "/product/v1/_meta/limits").into(t, http.StatusOK, &limits)
			if limits.Plan != name || len(limits.Limits) != 1 || limits.Limits[0].Used != 2 || limits.Limits[0].Remaining != 0 {
				return fmt.Errorf("limits %+v", limits)
			}
			return nil
		})
		h.operator(secondEdge).do(t, http.MethodPut, "/admin/v1/plans/"+name, object{
			"limits": []object{{"meter": "calls", "period": "month", "amount": 1, "kind": "hard"}},
		}).want(t, http.StatusOK)
		awaitRefusal(t, time.Second, []client{first}, http.StatusTooManyRequests)
		h.operator(stack.Edge).do(t, http.MethodDelete, "/admin/v1/plans/"+name, nil).refused(t, http.StatusConflict, "conflict", "1 organizations")
	})
}

// What calls cost in tokens is read from the gateway's ledger. A limit of it is refused on both replicas soon after it is
// used up, also while the gateway is away, and what is shown is what was billed.
func TestEdgeQuotaOfTokens(t *testing.T) {
	h := pairOfEdges(t)
	organization := unique("org")
	name := unique("plan")
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/plans/"+name, object{
		"limits": []object{{"meter": "tokens", "period": "month", "amount": 1, "kind": "hard"}},
	}).want(t, http.StatusOK)
	k := h.keyByOperator(t, http.MethodPost, "/admin/v1/keys", object{
		"organization_id": organization, "product": "ai", "permissions": []string{"read"}, "plan": name,
	}, http.StatusCreated)
	h.awaitPlan(t, k.Key, name)
	replicas := h.both(k.Key)
	replicas[0].post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	awaitRefusal(t, waitTimeout, replicas, http.StatusTooManyRequests)
	waitFor(t, waitTimeout, "the tokens of the ledger", func() error {
		var limits struct {
			Limits []struct {
				Of   string `json:"of"`
				Used int64  `json:"used"`
			} `json:"limits"`
		}
		replicas[0].get(t, "/product/v1/_meta/limits").into(t, http.StatusOK, &limits)
		if billed, _ := h.billed(t, organization); len(limits.Limits) != 1 || limits.Limits[0].Of != "key" || limits.Limits[0].Used != billed || billed == 0 {
			return fmt.Errorf("limits %+v, but %d tokens are billed", limits, billed)
		}
		return nil
	})
}

// An organization on a prepaid plan is served while it has credits, on both replicas. What is left is what was granted
// without what the gateway's ledger says that its calls cost.
func TestEdgeCredits(t *testing.T) {
	h := pairOfEdges(t)
	organization, name := unique("org"), unique("plan")
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/plans/"+name, object{"prepaid": true}).want(t, http.StatusOK)
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/organizations/"+organization+"/plan", object{"plan": name}).want(t, http.StatusOK)
	k := h.key(t, organization, "ai", "read")
	h.awaitPlan(t, k.Key, name)
	replicas := h.both(k.Key)
	for _, replica := range replicas {
		f := replica.post(t, chatRoute, ask("sandbox", "hello")).refused(t, http.StatusForbidden, "credits_exhausted", "")
		if f.Class != "policy" {
			t.Errorf("class %s, want policy", f.Class)
		}
	}
	path := "/admin/v1/organizations/" + organization + "/credits"
	granted := object{"amount_cents": 500, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "note": "a trial", "idempotency_key": "first"}
	h.operator(stack.Edge).post(t, path, granted).want(t, http.StatusCreated)
	h.operator(secondEdge).post(t, path, granted).want(t, http.StatusOK)
	granted["amount_cents"] = 600
	h.operator(secondEdge).post(t, path, granted).refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused", "")
	for i, replica := range replicas {
		waitFor(t, waitTimeout, "a call with credits", func() error {
			if a := replica.post(t, chatRoute, ask("sandbox", "hello")); a.status != http.StatusOK {
				return fmt.Errorf("replica %d: status %d", i, a.status)
			}
			return nil
		})
	}
	waitFor(t, waitTimeout, "the balance", func() error {
		var limits struct {
			Credits struct {
				Left      int64 `json:"balance_pico_usd,string"`
				Uncovered int64 `json:"uncovered_pico_usd,string"`
			} `json:"credits"`
		}
		replicas[1].get(t, "/product/v1/_meta/limits").into(t, http.StatusOK, &limits)
		_, cost := h.billed(t, organization)
		if want := 500*10_000_000_000 - cost; limits.Credits.Left != want || limits.Credits.Uncovered != 0 {
			return fmt.Errorf("%+v, want %d left", limits.Credits, want)
		}
		return nil
	})
}

// billed returns the sums of an organization's tokens and cost, in pico-USD, in the gateway's ledger.
func (h *harness) billed(t *testing.T, organization string) (tokens, cost int64) {
	t.Helper()
	var page struct {
		Records []struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
			Cost   int64 `json:"cost_pico_usd,string"`
		} `json:"records"`
	}
	h.operator(stack.Gateway).get(t, "/v1/usage?limit=200&organization_id="+organization).into(t, http.StatusOK, &page)
	for _, r := range page.Records {
		tokens, cost = tokens+r.Input+r.Output, cost+r.Cost
	}
	return tokens, cost
}

// endOfMonth returns the number of seconds until the end of a month in UTC, rounded up.
func endOfMonth(now time.Time) int {
	now = now.UTC()
	end := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	return int((end.Sub(now) + time.Second - 1) / time.Second)
}
