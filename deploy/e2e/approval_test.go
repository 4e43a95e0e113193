//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/deploy/dev/stack"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

const (
	approvalsPath = "/v1/approvals"
	trustPath     = "/v1/mcp/trust"
)

// guardedCall returns a chat request that the sandbox answers with a call of the tool that needs an approval.
func guardedCall(ref string, more ...object) object {
	return ask("sandbox", "call "+guardedTool, append([]object{{
		"approval_ref": ref, "tools": []object{{"type": "function", "function": object{"name": guardedTool, "parameters": object{"type": "object"}}}},
	}}, more...)...)
}

// Every replica withholds a tool call from its caller until the call is approved, and the decision survives a restart
// of all replicas.
func TestApprovalHoldsEverywhere(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization := unique("org")
	gateways := h.gateways(organization)
	made := gateways[0].post(t, approvalsPath, object{"tool": guardedTool, "requested_by": "agent", "arguments": object{}}).fields(t, http.StatusCreated, "ref", "status", "expires_at")
	ref, _ := made["ref"].(string)
	for _, gateway := range gateways {
		gateway.post(t, chatPath, guardedCall("")).refused(t, http.StatusForbidden, "approval_required", guardedTool)
		gateway.post(t, chatPath, guardedCall(ref)).refused(t, http.StatusForbidden, "approval_required", "pending")
		stream := gateway.post(t, chatPath, guardedCall(ref, object{"stream": true})).want(t, http.StatusOK)
		if !bytes.Contains(stream.body, []byte(`"error":"approval_required"`)) || bytes.Contains(stream.body, []byte("tool_calls")) {
			t.Errorf("the stream says %s", stream.body)
		}
	}
	gateways[1].post(t, approvalsPath+"/"+ref+"/approve", object{"decided_by": "ada", "reason": "fine"}).fields(t, http.StatusOK, "decided_at")
	served := func(when string) {
		t.Helper()
		for _, gateway := range gateways {
			if a := gateway.post(t, chatPath, guardedCall(ref)).want(t, http.StatusOK); !bytes.Contains(a.body, []byte(guardedTool)) {
				t.Errorf("%s: no call in %s", when, a.body)
			}
			if a := gateway.post(t, chatPath, guardedCall(ref, object{"stream": true})).want(t, http.StatusOK); !bytes.Contains(a.body, []byte(guardedTool)) {
				t.Errorf("%s: no call in the stream %s", when, a.body)
			}
		}
	}
	served("approved")
	for _, member := range []string{string(stack.Gateway), string(secondGateway)} {
		if err := h.Restart(t.Context(), member); err != nil {
			t.Fatal(err)
		}
	}
	served("restarted")
	gateways[0].post(t, approvalsPath+"/"+ref+"/deny", object{"decided_by": "eve"}).refused(t, http.StatusConflict, "approval_decided", "")
	h.service(stack.Gateway, unique("org")).get(t, approvalsPath+"/"+ref).refused(t, http.StatusNotFound, "not_found", "approval")
	h.service(stack.Gateway, unique("org")).post(t, chatPath, guardedCall(ref)).refused(t, http.StatusForbidden, "approval_required", "")
	audit := h.operator(stack.Gateway).get(t, "/v1/admin/audit?subject="+ref).want(t, http.StatusOK)
	if !bytes.Contains(audit.body, []byte("approval.approve")) || !bytes.Contains(audit.body, []byte("approval.create")) || bytes.Contains(audit.body, []byte("approval.deny")) {
		t.Errorf("audit %s", audit.body)
	}
}

// Fifty concurrent decisions on two replicas: one takes effect, and a later one over gRPC is refused.
func TestConcurrentDecisionsSettleOnce(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization := unique("org")
	gateways := h.gateways(organization)
	made := gateways[0].post(t, approvalsPath, object{"tool": "t", "requested_by": "agent"}).fields(t, http.StatusCreated, "ref")
	ref, _ := made["ref"].(string)
	var settled atomic.Int64
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			a := gateways[i%2].post(t, approvalsPath+"/"+ref+"/"+[]string{"approve", "deny"}[i/2%2], object{"decided_by": fmt.Sprint("decider-", i)})
			switch a.status {
			case http.StatusOK:
				settled.Add(1)
			case http.StatusConflict:
			default:
				t.Errorf("answered %d: %s", a.status, a.body)
			}
		})
	}
	group.Wait()
	if settled.Load() != 1 {
		t.Errorf("%d decisions took effect, want 1", settled.Load())
	}
	client := gatewayv1.NewApprovalServiceClient(h.grpc(t, stack.Gateway))
	_, err := client.Approve(h.as(t, organization), &gatewayv1.ApproveRequest{Ref: ref, DecidedBy: "late"})
	refusedBy(t, err, codes.Aborted, "approval_decided")
}

// The level VERIFIED applies only after another principal has approved it, on every replica.
func TestTrustIsReviewed(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization := unique("org")
	gateways := h.gateways(organization)
	gateways[0].post(t, trustPath, object{"server_id": "files", "level": "VERIFIED", "assigned_by": "ada"}).fields(t, http.StatusCreated, "level", "review_status")
	review := trustPath + "/" + organization + "/files/review"
	level := func(want string) {
		t.Helper()
		for _, gateway := range gateways {
			if a := gateway.get(t, trustPath+"/"+organization).want(t, http.StatusOK); !strings.Contains(string(a.body), `"effective_level":"`+want+`"`) {
				t.Errorf("want %s: %s", want, a.body)
			}
		}
	}
	level("UNTRUSTED")
	gateways[1].post(t, review, object{"reviewed_by": "ada"}).refused(t, http.StatusForbidden, "reviewer_not_independent", "")
	h.service(stack.Gateway, unique("org")).post(t, review, object{"reviewed_by": "bob"}).refused(t, http.StatusForbidden, "organization_mismatch", "")
	gateways[1].post(t, review, object{"reviewed_by": "bob"}).want(t, http.StatusOK)
	level("VERIFIED")
	gateways[0].post(t, review, object{"reviewed_by": "bob"}).refused(t, http.StatusConflict, "conflict", "")
	gateways[0].post(t, trustPath, object{"server_id": "files", "level": "UNTRUSTED", "assigned_by": "bob"}).want(t, http.StatusCreated)
	level("UNTRUSTED")
	if a := gateways[1].get(t, trustPath+"/"+organization+"/files/history").want(t, http.StatusOK); strings.Count(string(a.body), `"version"`) != 2 {
		t.Errorf("history %s", a.body)
	}
}

// The blast radius counts calls of every replica at once, and still after a restart.
func TestBlastRadiusCountsEverything(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization, run := unique("org"), unique("run")
	const calls = 5
	for i := range calls {
		h.gateways(organization)[i%2].with("X-Run-Id", run).post(t, chatPath, ask("sandbox", "hello")).want(t, http.StatusOK)
	}
	operator := h.operator(stack.Gateway)
	counted := func() int {
		var radius struct {
			Runs []struct {
				RunID          string `json:"run_id"`
				OrganizationID string `json:"organization_id"`
				Calls          int    `json:"calls"`
			} `json:"runs"`
		}
		operator.get(t, "/v1/security/blast-radius?provider=sandbox&limit=1000").into(t, http.StatusOK, &radius)
		for _, r := range radius.Runs {
			if r.RunID == run && r.OrganizationID == organization {
				return r.Calls
			}
		}
		return 0
	}
	if n := counted(); n != calls {
		t.Errorf("%d calls at once, want %d", n, calls)
	}
	if err := h.Restart(t.Context(), string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	if n := counted(); n != calls {
		t.Errorf("%d calls after a restart, want %d", n, calls)
	}
	h.service(stack.Gateway, organization).get(t, "/v1/security/blast-radius?provider=sandbox").refused(t, http.StatusForbidden, "forbidden", "")
	client := gatewayv1.NewSecurityServiceClient(h.grpc(t, stack.Gateway))
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+h.Secrets().Operator))
	if got, err := client.GetBlastRadius(ctx, &gatewayv1.GetBlastRadiusRequest{Provider: "Sandbox"}); err != nil || got.GetProvider() != "sandbox" || got.GetCalls() < calls {
		t.Errorf("gRPC: %v, %v", got, err)
	}
	_, err := client.ListAudit(h.as(t, organization), &gatewayv1.ListAuditRequest{})
	refusedBy(t, err, codes.PermissionDenied, "forbidden")
}
