//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

const decisionsPath = "/v1/decisions/"

// held is the answer of a call that was held.
type held struct {
	answer answer
	err    error
	at     time.Time
}

// A call that needs an approval is held by one replica, decided by token at the other one, and made once. When the replica
// that holds a call is killed, its approval is still there, and the call is made once by the other replica.
func TestToolApprovals(t *testing.T) {
	t.Parallel()
	h := plan{
		name: "tool-approvals", replicas: map[stack.Service]int{stack.Gateway: 2}, fakes: []stack.Fake{stack.FakeTools},
		settings: settings{stack.Gateway: {"GATEWAY_MCP_APPROVAL_HOLD=2m"}},
	}.start(t)
	organization := unique("org")
	gateways := h.gateways(organization)
	listing := h.registerTools(t, organization, "files", 0)
	gateways[0].post(t, trustPath, object{"server_id": "files", "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	gateways[0].post(t, serversPath+"/files/review", object{"listing_digest": listing, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)

	first := hold(t, gateways[0], "anna")
	ref := waitingApproval(t, gateways[1])
	decided := h.approveByToken(t, gateways[1], ref)
	got := <-first
	if result := messageOf(got.answer).Get("result.content.0.text").Str; got.err != nil || result != "paid 7 to anna" {
		t.Fatalf("%v %s", got.err, got.answer.body)
	}
	if late := got.at.Sub(decided); late > 10*time.Second {
		t.Errorf("the call was made %s after its decision", late)
	}
	gateways[1].inAdvance(t, ref)
	second := hold(t, gateways[0], "bert")
	ref = waitingApproval(t, gateways[1])
	if err := h.Kill(string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	if got := <-second; got.err == nil && got.answer.status == http.StatusOK {
		t.Errorf("a killed replica answered: %s", got.answer.body)
	}
	h.approveByToken(t, gateways[1], ref)
	if got := <-hold(t, gateways[1], "bert"); got.err != nil || messageOf(got.answer).Get("result.content.0.text").Str != "paid 7 to bert" {
		t.Errorf("%v %s", got.err, got.answer.body)
	}
	approval := gateways[1].get(t, approvalsPath+"/"+ref).want(t, http.StatusOK)
	if call := gjson.GetBytes(approval.body, "call"); call.Get("state").Str != "done" || call.Get("attempts").Int() != 1 || call.Get("definition_reviewed_by").Str != "bob" {
		t.Errorf("%s", call.Raw)
	}
	third := hold(t, gateways[1], "bert")
	denied := waitingApproval(t, gateways[1])
	if denied == ref {
		t.Errorf("the approval %s is used twice", ref)
	}
	gateways[1].post(t, approvalsPath+"/"+denied+"/deny", object{"decided_by": "ada"}).want(t, http.StatusOK)
	if got := <-third; messageOf(got.answer).Get("error.data.reason").Str != "approval_denied" || messageOf(got.answer).Get("error.data.approval_ref").Str != denied {
		t.Errorf("%v %s", got.err, got.answer.body)
	}
}

// inAdvance approves the next call of the tool in advance, from the approval of one, and checks that it is approved so.
func (c client) inAdvance(t *testing.T, ref string) {
	t.Helper()
	const path = approvalsPath + "/standing"
	body := object{"approval_ref": ref, "created_by": "ann", "when": "args.amount < 10 && args.to == 'cora'", "uses": 1, "ttl_seconds": 600}
	c.post(t, path, body).want(t, http.StatusCreated)
	if got := <-hold(t, c, "cora"); got.err != nil || messageOf(got.answer).Get("result.content.0.text").Str != "paid 7 to cora" {
		t.Errorf("%v %s", got.err, got.answer.body)
	}
	list := c.get(t, path).want(t, http.StatusOK)
	if used := gjson.GetBytes(list.body, "standing_approvals.0"); used.Get("status").Str != "used_up" || used.Get("used").Int() != 1 {
		t.Errorf("%s", used.Raw)
	}
	made := c.post(t, path, body).want(t, http.StatusCreated)
	c.do(t, http.MethodDelete, path+"/"+gjson.GetBytes(made.body, "standing_id").Str, nil).want(t, http.StatusNoContent)
}

// hold calls the tool pay in the background.
func hold(t *testing.T, c client, to string) <-chan held {
	t.Helper()
	done := make(chan held, 1)
	go func() {
		a, err := c.with("MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "files__pay", "Accept", "application/json, text/event-stream").
			try(t, http.MethodPost, "/mcp", object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{
				"name": "files__pay", "arguments": object{"to": to, "amount": 7},
				"_meta": object{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": object{}},
			}})
		done <- held{a, err, time.Now()}
	}()
	return done
}

// waitingApproval waits until an approval of the organization is pending.
func waitingApproval(t *testing.T, c client) (ref string) {
	t.Helper()
	waitFor(t, waitTimeout, "the approval", func() error {
		a := c.get(t, approvalsPath+"?status=pending").want(t, http.StatusOK)
		if ref = gjson.GetBytes(a.body, "approvals.0.ref").Str; ref == "" {
			return fmt.Errorf("none is pending: %s", a.body)
		}
		return nil
	})
	return ref
}

// approveByToken approves by the token of an approver, and returns when it was approved.
func (h *harness) approveByToken(t *testing.T, c client, ref string) time.Time {
	t.Helper()
	minted := c.post(t, approvalsPath+"/"+ref+"/tokens", object{"approver": "ann", "channel": "email"}).want(t, http.StatusCreated)
	path := decisionsPath + gjson.GetBytes(minted.body, "token").Str
	holder := h.anonymous(stack.Gateway)
	holder.base = c.base
	holder.get(t, path).refused(t, http.StatusUnauthorized, "unauthenticated", "")
	shown := c.get(t, path).want(t, http.StatusOK)
	version := gjson.GetBytes(shown.body, "display_version").Str
	c.post(t, path, object{"decision": "approve", "display_version": version}).refused(t, http.StatusForbidden, "proof_required", "page")
	c.post(t, path, object{"decision": "approve", "display_version": version, "proof": "page"}).want(t, http.StatusOK)
	return time.Now()
}
