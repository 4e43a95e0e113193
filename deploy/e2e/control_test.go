//go:build e2e

package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// Operators' controls apply on every replica. The tests here use the stack with two gateways, which they may kill.

var (
	guarded = addVendor(vendor{name: "guarded", dialect: "openai", model: "guarded-model"})
	stalled = addVendor(vendor{name: "dripping", dialect: "openai", model: "dripping-model"})
)

// gateways returns clients of both gateways for an organization.
func (h *harness) gateways(organization string) []client {
	first := h.service(stack.Gateway, organization)
	second := first
	second.base = h.URL(string(secondGateway))
	return []client{first, second}
}

// restartAll restarts the stores, then both gateways.
func (h *harness) restartAll(t *testing.T) {
	t.Helper()
	for _, name := range []string{store.Redis, store.Postgres, string(stack.Gateway), string(secondGateway)} {
		if err := h.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// waitForSpread waits until condition returns nil, as it does once a change has reached every replica.
func waitForSpread(t *testing.T, what string, condition func() error) {
	t.Helper()
	waitFor(t, spreadTimeout, what, condition)
}

func (h *harness) stallStreams(t *testing.T) {
	t.Helper()
	h.script(t, stack.FakeProvider, rule{Match: stalled.match(), Action: object{"stall_after_chunks": 3}})
}

// A suspension ends all streams in flight on every replica within a second, refuses further calls on every replica, and
// outlives a restart of the stores and of all replicas.
func TestSuspensionHoldsEverywhere(t *testing.T) {
	h := pairOfGateways(t)
	h.stallStreams(t)
	organization := unique("org")
	gateways, operator := h.gateways(organization), h.operator(stack.Gateway)
	const streams = 100
	var open, ended sync.WaitGroup
	var failed, latest atomic.Int64
	var suspended atomic.Int64 // time of the suspension, in Unix milliseconds
	for i := range streams {
		open.Add(1)
		ended.Go(func() {
			opened := sync.OnceFunc(open.Done)
			defer opened()
			response, err := gateways[i%2].send(t, http.MethodPost, chatPath, ask(stalled.model, "hello", streamed))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			head := make([]byte, 8)
			if _, err := io.ReadFull(response.Body, head); err != nil {
				t.Error(err)
				return
			}
			opened()
			rest, err := io.ReadAll(response.Body)
			if err != nil || !strings.Contains(string(rest), "event: error") || !strings.Contains(string(rest), "organization_suspended") {
				t.Errorf("ended with %v: %s", err, shorten(rest))
				return
			}
			failed.Add(1)
			latest.Store(max(latest.Load(), time.Now().UnixMilli()-suspended.Load()))
		})
	}
	open.Wait()
	suspended.Store(time.Now().UnixMilli())
	operator.post(t, "/v1/admin/orgs/"+organization+"/suspend", object{"reason": "abuse"}).want(t, http.StatusOK)
	ended.Wait()
	if failed.Load() != streams || latest.Load() > 1000 {
		t.Errorf("%d of %d streams ended, the last after %d ms", failed.Load(), streams, latest.Load())
	}
	t.Logf("the last of %d streams ended after %d ms", streams, latest.Load())
	refused := func() {
		t.Helper()
		for _, gateway := range gateways {
			gateway.post(t, chatPath, ask("sandbox", "hello")).refused(t, http.StatusForbidden, "organization_suspended", "suspended")
		}
	}
	refused()
	h.awaitRecorded(t, organization, "", "aborted", streams)
	h.restartAll(t)
	refused()
	operator.post(t, "/v1/admin/orgs/"+organization+"/unsuspend", object{}).want(t, http.StatusOK)
	for _, gateway := range gateways {
		waitForSpread(t, "restored", func() error {
			if a := gateway.post(t, chatPath, ask("sandbox", "hello")); a.status != http.StatusOK {
				return fmt.Errorf("answered %d: %s", a.status, a.body)
			}
			return nil
		})
	}
	audit := operator.get(t, "/v1/admin/audit?organization_id="+organization)
	for _, action := range []string{"org.suspend", "org.unsuspend"} {
		if !strings.Contains(string(audit.body), action) {
			t.Errorf("the audit lacks %s: %s", action, shorten(audit.body))
		}
	}
}

// recorded returns the number of ledger rows with an outcome, of an organization or of one of its runs.
func (h *harness) recorded(t *testing.T, organization, run, outcome string) (n int) {
	t.Helper()
	var page struct {
		Records []struct {
			Outcome string `json:"outcome"`
		} `json:"records"`
	}
	query := url.Values{"organization_id": {organization}, "limit": {"200"}}
	if run != "" {
		query.Set("run_id", run)
	}
	h.service(stack.Gateway, organization).get(t, "/v1/usage?"+query.Encode()).into(t, http.StatusOK, &page)
	for _, r := range page.Records {
		if r.Outcome == outcome {
			n++
		}
	}
	return n
}

// awaitRecorded waits until the feed has n rows with an outcome. Open transactions of other calls delay it.
func (h *harness) awaitRecorded(t *testing.T, organization, run, outcome string, n int) {
	t.Helper()
	waitFor(t, waitTimeout, "ledger rows", func() error {
		if got := h.recorded(t, organization, run, outcome); got != n {
			return fmt.Errorf("%d are %s, want %d", got, outcome, n)
		}
		return nil
	})
}
