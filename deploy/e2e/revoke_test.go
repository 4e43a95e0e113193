//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// A run that is revoked at one replica, and a session that is aborted at one, end on the other.
func TestRevokeAndAbortReachTheOtherReplica(t *testing.T) {
	h := pairOfGateways(t)
	h.stallStreams(t)
	organization := unique("org")
	gateways := h.gateways(organization)
	for _, c := range []struct {
		name, reason  string
		minted, known bool // known: the other replica must know the session first
		end           func(run string)
	}{
		{"revoke", "run_revoked", true, false, func(run string) {
			gateways[0].post(t, "/v1/runs/"+run+"/revoke", object{"reason": "runaway"}).want(t, http.StatusOK)
		}},
		{"abort", "run_aborted", false, false, func(run string) {
			h.operator(stack.Gateway).post(t, "/v1/admin/sessions/"+run+"/abort", object{"organization_id": organization}).want(t, http.StatusOK)
		}},
		{"abort by the organization", "run_aborted", false, true, func(run string) {
			gateways[0].post(t, "/v1/sessions/"+run+"/abort", object{"reason": "runaway"}).want(t, http.StatusOK)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := unique("run")
			if c.minted {
				gateways[0].post(t, "/v1/runs/mint", object{"run_id": run}).want(t, http.StatusCreated)
			}
			s := gateways[1].with("X-Run-Id", run).stream(t, chatPath, ask(stalled.model, "hello", streamed))
			if _, ok := s.next(t); !ok {
				t.Fatal("no stream")
			}
			if c.known {
				waitFor(t, waitTimeout, "the other replica's session", func() error {
					if a := gateways[0].get(t, "/v1/sessions/"+run); a.status != http.StatusOK {
						return fmt.Errorf("%d %s", a.status, a.body)
					}
					return nil
				})
			}
			start := time.Now()
			c.end(run)
			if got := s.read(t); got.failed == nil || got.failed.Error != c.reason {
				t.Errorf("the stream ended with %+v", got)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("after %s", took)
			}
			for _, gateway := range gateways {
				gateway.with("X-Run-Id", run).post(t, chatPath, ask("sandbox", "hello")).refused(t, http.StatusForbidden, c.reason, "")
			}
		})
	}
}
