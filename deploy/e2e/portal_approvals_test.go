//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

const (
	approversPath = "/product/v1/ai/approvers"
	standingPath  = "/product/v1/ai/standing-approvals"
	// approvalsRoute is where customers have approvals.
	approvalsRoute = "/product/v1/ai/approvals"
)

// decideInPortal has a person with a link make a group of approvers, approve a call that waits, and end a standing approval,
// each in the name that the link has. Sessions that name no one, or an owner, don't.
func (h *harness) decideInPortal(t *testing.T) {
	organization := unique("org")
	service := h.service(stack.Gateway, organization)
	listing := h.registerTools(t, organization, "files", 2.5)
	service.post(t, trustPath, object{"server_id": "files", "level": "COMMUNITY", "assigned_by": "olga"}).want(t, http.StatusCreated)
	service.post(t, serversPath+"/files/review", object{"listing_digest": listing, "decision": "approve", "reviewed_by": "olga"}).want(t, http.StatusOK)
	ctx := chrome(t)
	p := browserPage{ctx, faultsOf(ctx)}
	p.run(t, chromedp.Navigate(h.portalLink(t, organization, "", "ann", "ai:approvers:read", "ai:approvers:write", "ai:approvals:read", "ai:approvals:decide")))
	p.until(t, contains("organization", organization)+` && document.getElementById("content").dataset.ready === "true"`)

	h.groupsByPage(t, p, organization)
	checkAccessible(t, p.ctx, "approvers")
	ref := h.approveByPage(t, p, organization)
	h.endByPage(t, p, organization, ref)
	checkAccessible(t, p.ctx, "approvals")
	h.onlyRead(t, p, organization)
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}

// groupsByPage makes a group in the portal, changes it, and compares each time with what the operation of customers returns;
// then it makes a second one and removes that.
func (h *harness) groupsByPage(t *testing.T, p browserPage, organization string) {
	t.Helper()
	customer := h.customer(t, organization, "ai", "ai:approvers:read")
	same := func(want object) {
		t.Helper()
		wanted, err := json.Marshal([]object{want})
		if err != nil {
			t.Fatal(err)
		}
		got := gjson.GetBytes(customer.get(t, approversPath).want(t, http.StatusOK).body, "groups").Raw
		var a, b any
		if json.Unmarshal(wanted, &a) != nil || json.Unmarshal([]byte(got), &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("the groups are %s, want %s", got, wanted)
		}
	}
	tick := func(row, value string) {
		t.Helper()
		p.run(t, chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll("[aria-label='%s'] label")].find((l) => l.textContent === %q).click()`, row, value), nil))
	}
	p.visit(t, "approvers")
	p.run(t, chromedp.Click("#add-member"), chromedp.Click("#add-step"))
	p.fill(t, "name", "default", "members[0].user_id", "ann", "members[0].email", "ann@example.com",
		"members[1].user_id", "<b>bob</b>", "members[1].slack_user.team_id", "T0123ABCD", "members[1].slack_user.user_id", "U0123ABCD", "steps[1].after", "0s")
	p.run(t, chromedp.Evaluate(`document.querySelector("[name='members[1].user_id']").dispatchEvent(new Event("input"))`, nil))
	tick("Step 1", "Push")
	tick("Step 2", "Slack")
	tick("Step 2", "<b>bob</b>")
	p.submit(t, "Add group")
	p.refused(t, "steps[1].after", "longer than that of the step before")
	p.fill(t, "steps[1].after", "10m", "steps[1].slack_channel", "C0123ABCD")
	p.submit(t, "Add group")
	p.until(t, contains("approver-groups", "after 10m: Inbox, Slack C0123ABCD (<b>bob</b>)")+" && "+contains("status", "Created"))
	group := object{
		"name": "default",
		"members": []object{
			{"user_id": "ann", "email": "ann@example.com"},
			{"user_id": "<b>bob</b>", "slack_user": object{"team_id": "T0123ABCD", "user_id": "U0123ABCD"}},
		},
		"steps": []object{
			{"after": "0s", "channels": []string{"in_app", "web_push"}},
			{"after": "10m", "channels": []string{"in_app", "slack"}, "users": []string{"<b>bob</b>"}, "slack_channel": "C0123ABCD"},
		},
	}
	same(group)

	p.press(t, "Change: default")
	p.until(t, `document.activeElement.id === "approver-group" && document.querySelectorAll("#approver-editor .row").length === 4`)
	tick("Step 1", "E-mail")
	p.submit(t, "Change the group default")
	p.until(t, contains("approver-groups", "Inbox, Push, E-mail")+" && "+contains("status", "Saved"))
	group["steps"].([]object)[0]["channels"] = []string{"in_app", "web_push", "email"}
	same(group)

	p.fill(t, "name", "second", "members[0].user_id", "eve")
	p.submit(t, "Add group")
	p.until(t, contains("approver-groups", "second"))
	p.press(t, "Delete: second")
	p.until(t, "!"+contains("approver-groups", "second"))
	same(group)
}

// approveByPage approves a call that waits, which then is made, and returns the approval.
func (h *harness) approveByPage(t *testing.T, p browserPage, organization string) (ref string) {
	t.Helper()
	service := h.service(stack.Gateway, organization)
	call := hold(t, service, "an\u202ena")
	ref = waitingApproval(t, service)
	p.visit(t, "approvals")
	p.until(t, contains("approvals", "files/pay")+" && "+contains("approvals", `"amount": 7`)+" && "+contains("approvals", `an\u{202e}na`)+
		" && "+contains("approvals", "$0.025")+" && "+contains("approvals", "payments; default decide")+" && "+contains("content", "You decide as ann"))
	checkAccessible(t, p.ctx, "an approval that waits")
	p.run(t, chromedp.SetValue("#approval-reason", "as agreed"))
	p.press(t, "Approve: files/pay "+ref)
	p.until(t, contains("status", "Approved")+" && !"+contains("approvals", "files/pay"))
	if got := <-call; got.err != nil || gjson.GetBytes(got.answer.body, "result.content.0.text").Str != "paid 7 to an\u202ena" {
		t.Errorf("%v %s", got.err, got.answer.body)
	}
	p.filter(t, "approval-status", "approved")
	p.until(t, contains("approvals", "ann: as agreed")+" && "+contains("approvals", "is made"))
	service.get(t, approvalsPath+"/"+ref).holds(t, `"decided_by":"ann"`)
	p.filter(t, "approval-status", "superseded")
	p.until(t, "!"+contains("approvals", "files/pay")+" && "+contains("approvals", "nothing")+` && document.getElementById("failure").textContent === ""`)
	return ref
}

// endByPage ends a standing approval, which no other organization can.
func (h *harness) endByPage(t *testing.T, p browserPage, organization, ref string) {
	t.Helper()
	service := h.service(stack.Gateway, organization)
	made := service.post(t, approvalsPath+"/standing", object{
		"approval_ref": ref, "created_by": "bob", "when": "args.amount < 10", "uses": 3, "ttl_seconds": 600, "reason": "small ones",
	}).want(t, http.StatusCreated)
	id := gjson.GetBytes(made.body, "standing_id").Str
	h.customer(t, unique("org"), "ai", "ai:approvals:decide").do(t, http.MethodDelete, standingPath+"/"+id, nil).want(t, http.StatusNotFound)
	h.customer(t, organization, "ai", "write").do(t, http.MethodDelete, standingPath+"/"+id, nil).want(t, http.StatusForbidden)
	p.visit(t, "approvers") // The view that is open already isn't read again.
	p.visit(t, "approvals")
	p.until(t, contains("standing-approvals", "args.amount < 10")+" && "+contains("standing-approvals", "0 of 3")+" && "+contains("standing-approvals", "bob: small ones"))
	p.press(t, "End: files/pay "+id)
	p.until(t, contains("status", "has ended")+" && "+contains("standing-approvals", "revoked"))
	listed := h.customer(t, organization, "ai", "read").get(t, standingPath).want(t, http.StatusOK)
	if one := gjson.GetBytes(listed.body, "standing_approvals.0"); one.Get("status").Str != "revoked" || one.Get("revoked_by").Str != "ann" {
		t.Errorf("the standing approval is %s", one.Raw)
	}
}

// onlyRead opens sessions that don't decide: one names no one, one has asked itself, and one is an owner's.
func (h *harness) onlyRead(t *testing.T, p browserPage, organization string) {
	t.Helper()
	own := h.service(stack.Gateway, organization)
	asked := own.post(t, approvalsPath, object{"tool": "refund", "requested_by": "bob", "arguments": object{"cents": 500}}).want(t, http.StatusCreated)
	ref := gjson.GetBytes(asked.body, "ref").Str
	for _, session := range []struct {
		owner, user, says string
		scopes            []string
	}{
		{"", "", "names no person", []string{"ai:approvals:read", "ai:approvals:decide"}},
		{"", "ann", "not decide on them", []string{"ai:approvals:read", "ai:approvers:read"}},
		{"", "bob", "You have asked for this yourself", []string{"ai:approvals:read", "ai:approvals:decide"}},
	} {
		link := h.portalLink(t, organization, session.owner, session.user, session.scopes...)
		p.run(t, chromedp.Navigate(link))
		p.until(t, contains("organization", organization)+` && document.getElementById("content").dataset.ready === "true"`)
		p.until(t, contains("approvals", "refund")+" && "+contains("content", session.says)+` && document.querySelector("#approvals .actions") === null`)
		h.inPortal(t, h.portalLink(t, organization, session.owner, session.user, session.scopes...)).
			post(t, "/portal/api"+approvalsRoute+"/"+ref+"/approve", object{}).want(t, http.StatusForbidden)
	}
	own.post(t, approvalsPath, object{"tool": "void", "requested_by": "key_agent", "arguments": object{"cents": 7}}).want(t, http.StatusCreated)
	p.visit(t, "approvals")
	p.until(t, contains("approvals", "void")+" && !"+contains("approvals", "key_agent")) // An id says nothing to a person.
	for _, scope := range []string{"ai:*", "ai:usage:read", "ai:approvals:read", "ai:approvals:decide", "ai:runs:read", "ai:sessions:write", "notifications:sends:read"} {
		h.operator(stack.Edge).post(t, portalPath, object{
			"organization_id": organization, "owner_id": "owner-a", "user_id": "ann", "scopes": []string{"webhooks:*", scope}, "return_url": "https://app.example.com",
		}).refused(t, http.StatusBadRequest, "invalid_request", scope)
	}
}
