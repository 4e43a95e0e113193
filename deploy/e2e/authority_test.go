//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// tokenForm matches a token of the gateway wherever it is.
var tokenForm = regexp.MustCompile(`[0-9a-f]{64}`)

// decidable is an organization with a group of approvers, and a client that asks for approvals.
type decidable struct {
	h            *harness
	organization string
	asker        client
}

// decidable makes an organization whose default group has these members and steps.
func (h *harness) decidable(t *testing.T, members []object, steps ...object) decidable {
	t.Helper()
	d := decidable{h, unique("org"), client{}}
	d.asker = h.customer(t, d.organization, "ai", "ai:approvals:read,ai:approvals:write")
	d.group(t, members, steps...)
	return d
}

// group replaces the members and steps of the default group.
func (d decidable) group(t *testing.T, members []object, steps ...object) {
	t.Helper()
	d.h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/approvers/"+d.organization, object{
		"groups": []object{{"name": "default", "members": members, "steps": steps}},
	}).want(t, http.StatusOK)
}

// ask asks for an approval and returns its reference.
func (d decidable) ask(t *testing.T, by string) string {
	t.Helper()
	made := d.asker.post(t, approvalsRoute, object{"tool": "wire-money", "requested_by": by, "arguments": object{"cents": 700}}).want(t, http.StatusCreated)
	return gjson.GetBytes(made.body, "ref").Str
}

// is fails unless the approval has a status and contains the texts in says.
func (d decidable) is(t *testing.T, ref, status string, says ...string) {
	t.Helper()
	a := d.asker.get(t, approvalsRoute+"/"+ref).want(t, http.StatusOK)
	for _, text := range append([]string{`"status":"` + status + `"`}, says...) {
		if !strings.Contains(string(a.body), text) {
			t.Errorf("the approval is %s, want %s", a.body, text)
		}
	}
}

// as returns a client with a user's own token, which may decide, read the inbox and register devices.
func (d decidable) as(t *testing.T, user string) client {
	t.Helper()
	var minted struct{ Token string }
	d.h.operator(stack.Edge).unrecorded(t, http.MethodPost, tokensPath, object{
		"organization_id": d.organization, "user_id": user, "ttl_seconds": 600,
		"scopes": []string{"ai:decisions:decide", "notifications:inbox:read", "notifications:push:write"},
	}).into(t, http.StatusCreated, &minted)
	knownSecrets.add("a token of "+user, minted.Token)
	return d.h.anonymous(stack.Edge).bearer(minted.Token)
}

func decisionRoute(ref string) string { return approvalsRoute + "/" + ref + "/decision" }

// Keys, operators, and holders of a device that a key has registered in the approver's name can read the approver's
// inbox, pushes or deliveries, but learn nothing with which to decide. The approver decides with her own session or
// token, and her own device and her mail get a link that decides.
func TestReadersDecideNothing(t *testing.T) {
	t.Parallel()
	h := deciding.get(t)
	mail := address("ann")
	d := h.decidable(t, []object{{"user_id": "ann", "email": mail}}, object{"after": "0s", "channels": []string{"in_app", "web_push", "email"}})
	organization := d.organization
	annsBrowser, foreignBrowser := h.browser(t, organization), h.browser(t, organization)
	body := func(b subscriber) object {
		return object{"user_id": "ann", "subscription": object{"endpoint": b.Endpoint, "keys": b.Keys}}
	}
	const registrations = "/product/v1/notifications/push/registrations"
	ann := d.as(t, "ann")
	holder := h.customer(t, organization, "notifications", "notifications:push:write").with("X-User-Id", "ann", "X-User-Verified", "true")
	if a := ann.post(t, registrations, body(annsBrowser)).want(t, http.StatusCreated); !gjson.GetBytes(a.body, "registered_by_user").Bool() {
		t.Errorf("ann's device is %s", a.body)
	}
	if a := holder.post(t, registrations, body(foreignBrowser)).want(t, http.StatusCreated); gjson.GetBytes(a.body, "registered_by_user").Bool() {
		t.Errorf("the device of a key is %s", a.body)
	}
	ref := d.ask(t, "agent-7")
	d.asker.post(t, approvalsRoute+"/"+ref+"/approve", object{"decided_by": "ann"}).refused(t, http.StatusForbidden, "permission_denied", "")

	reader := h.customer(t, organization, "notifications", "read")
	control := h.anonymous(stack.Control)
	signedIn := control.with("Origin", control.base, "X-Switchyard-Portal", "1").unrecorded(t, http.MethodPost, "/console/api/session", object{"token": h.Secrets().Operator}).want(t, http.StatusCreated)
	cookie, _, _ := strings.Cut(signedIn.header.Get("Set-Cookie"), ";")
	console := control.with("Cookie", cookie)
	inConsole := "/console/api/organizations/" + organization + "/product/v1/notifications"
	var link string
	waitFor(t, waitTimeout, "ann's messages", func() error {
		inbox := reader.get(t, inboxRoute+"?user_id=ann").want(t, http.StatusOK)
		link = gjson.GetBytes(inbox.body, "notifications.0.url").Str
		if link == "" || len(h.pushed(t, annsBrowser)) != 1 || len(h.pushed(t, foreignBrowser)) != 1 || len(h.mails(t, mail)) != 1 {
			return fmt.Errorf("the inbox is %s", inbox.body)
		}
		return nil
	})
	notification := gjson.GetBytes(reader.get(t, inboxRoute+"?user_id=ann").body, "notifications.0.notification_id").Str
	for _, a := range []answer{
		reader.get(t, inboxRoute+"?user_id=ann"), reader.get(t, "/product/v1/notifications/push/history?user_id=ann"),
		reader.get(t, "/product/v1/notifications/sends/"+notification), ann.get(t, inboxRoute),
		console.get(t, inConsole+"/inbox?user_id=ann"), console.get(t, inConsole+"/push/history?user_id=ann"), console.get(t, inConsole+"/sends/"+notification),
		console.get(t, "/console/api/notifications/sends?organization_id="+organization), h.service(stack.Notify, organization).get(t, "/v1/push/history"),
	} {
		if a.want(t, http.StatusOK); tokenForm.Match(a.body) {
			t.Errorf("%s has what decides: %s", a.label, a.body)
		}
	}
	if push := h.pushed(t, foreignBrowser)[0].Plaintext; tokenForm.MatchString(push) || !strings.Contains(push, link) {
		t.Errorf("a device that a key has registered gets %s", push)
	}
	own := tokenForm.FindString(h.pushed(t, annsBrowser)[0].Plaintext)
	knownSecrets.add("the token of a push", own)
	mailed := h.linkOfMail(t, mail)
	if own == "" || own == mailed {
		t.Errorf("ann's device gets %s", h.pushed(t, annsBrowser)[0].Plaintext)
	}

	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	page := h.anonymous(stack.Edge)
	for _, c := range []client{page, reader, console.with("Host", "")} {
		c.base = page.base
		if a := c.get(t, at.Path).want(t, http.StatusOK); strings.Contains(string(a.body), "wire-money") || nonceField.Match(a.body) {
			t.Errorf("the page of the link shows %s", a.body)
		}
		for path, status := range map[string]int{at.Path: 405, "/portal/api" + decisionRoute(ref): 403} {
			if a := c.with("Content-Type", "application/json").post(t, path, object{"decision": "approve"}); a.status != status && a.status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s", a.label, a.status, a.body)
			}
		}
	}
	deciding := h.customer(t, organization, "ai", "ai:decisions:decide")
	for _, c := range []client{d.asker, deciding, deciding.with("X-User-Id", "ann", "X-User-Verified", "true")} {
		c.get(t, decisionRoute(ref)).refused(t, http.StatusForbidden, "permission_denied", "")
		c.post(t, decisionRoute(ref), object{"decision": "deny"}).refused(t, http.StatusForbidden, "permission_denied", "")
	}
	minter := h.customer(t, organization, "notifications", "read,notifications:tokens:mint")
	minter.post(t, userTokensRoute, object{"user_id": "ann", "scopes": []string{"ai:decisions:decide"}, "ttl_seconds": 60}).refused(t, http.StatusForbidden, "permission_denied", "scopes")
	d.is(t, ref, "pending")

	bob := d.as(t, "bob")
	bob.get(t, decisionRoute(ref)).refused(t, http.StatusForbidden, "not_an_approver", "")
	bob.post(t, decisionRoute(ref), object{"decision": "deny"}).refused(t, http.StatusForbidden, "not_an_approver", "")
	session := h.inPortal(t, h.portalLink(t, organization, "", "ann", "webhooks:*"))
	shown := session.get(t, "/portal/api"+decisionRoute(ref)).fields(t, http.StatusOK, "display_version", "tool", "arguments")
	session.post(t, "/portal/api"+decisionRoute(ref), object{"decision": "approve", "display_version": "another"}).refused(t, http.StatusConflict, "display_changed", "")
	session.post(t, "/portal/api"+decisionRoute(ref), object{"decision": "approve", "display_version": shown["display_version"], "reason": "as agreed"}).want(t, http.StatusOK)
	d.is(t, ref, "approved", `"decided_by":"ann"`, `"decided_via":"portal"`, `"reason":"as agreed"`)
	ann.post(t, decisionRoute(ref), object{"decision": "deny"}).want(t, http.StatusConflict)
	d.is(t, ref, "approved", `"decided_via":"portal"`)

	second := d.ask(t, "agent-7")
	shown = ann.get(t, decisionRoute(second)).fields(t, http.StatusOK, "display_version")
	ann.with("Origin", h.URL(string(stack.Edge)), "Sec-Fetch-Site", "same-origin").
		post(t, decisionRoute(second), object{"decision": "approve", "display_version": shown["display_version"]}).want(t, http.StatusOK)
	d.is(t, second, "approved", `"decided_by":"ann"`, `"decided_via":"user_token"`)
}

// A person who leaves the group of approvers can't decide any more: not by the page, the button of a push, a click in
// Slack, the API in that person's name, a session or a token. A key with the scope still decides in the name of a
// present member.
func TestWhoHasLeftDecidesNothing(t *testing.T) {
	t.Parallel()
	h := deciding.get(t)
	mail, channel := address("ann"), conversation()
	member := object{"user_id": "ann", "email": mail, "slack_user": object{"team_id": slackTeam, "user_id": slackAnn}}
	other := object{"user_id": "bob", "slack_user": object{"team_id": slackTeam, "user_id": slackBob}}
	step := object{"after": "0s", "channels": []string{"web_push", "email", "slack"}, "users": []string{"ann"}, "slack_channel": channel}
	d := h.decidable(t, []object{member, other}, step)
	h.app(t, d.organization)
	browser, ann := h.browser(t, d.organization), d.as(t, "ann")
	ann.post(t, "/product/v1/notifications/push/registrations", object{"subscription": object{"endpoint": browser.Endpoint, "keys": browser.Keys}}).want(t, http.StatusCreated)
	ref := d.ask(t, "agent-7")
	waitFor(t, waitTimeout, "the messages", func() error {
		if len(h.mails(t, mail)) != 1 || len(h.pushed(t, browser)) != 1 || len(h.calls(t, channel)) != 1 {
			return fmt.Errorf("%d mails, %d pushes, %d posts", len(h.mails(t, mail)), len(h.pushed(t, browser)), len(h.calls(t, channel)))
		}
		return nil
	})
	token := h.linkOfMail(t, mail)
	var push struct {
		Approval struct {
			URL     string `json:"decide_url"`
			Version string `json:"display_version"`
		} `json:"approval"`
	}
	if err := json.Unmarshal(h.pushed(t, browser)[0].content(t).Data, &push); err != nil {
		t.Fatal(err)
	}
	knownSecrets.add("the token of a push", tokenForm.FindString(push.Approval.URL))
	page := h.anonymous(stack.Edge)
	form := url.Values{"decision": {"approve"}, "reason": {""}}
	for _, field := range nonceField.FindAllStringSubmatch(string(page.unrecorded(t, http.MethodGet, "/decisions/"+token, nil).want(t, http.StatusOK).body), -1) {
		form.Set(field[1], field[2])
	}
	session := h.inPortal(t, h.portalLink(t, d.organization, "", "ann", "ai:approvals:read", "ai:approvals:decide"))
	session.get(t, "/portal/api"+decisionRoute(ref)).want(t, http.StatusOK)
	ann.get(t, decisionRoute(ref)).want(t, http.StatusOK)

	d.group(t, []object{other}, object{"after": "0s", "channels": []string{"slack"}, "slack_channel": channel})
	page.unrecorded(t, http.MethodGet, "/decisions/"+token, nil).want(t, http.StatusForbidden)
	page.with("Content-Type", "application/x-www-form-urlencoded").unrecorded(t, http.MethodPost, "/decisions/"+token, form.Encode()).want(t, http.StatusForbidden)
	button, err := url.Parse(push.Approval.URL)
	if err != nil {
		t.Fatal(err)
	}
	page.unrecorded(t, http.MethodPost, button.Path, object{"decision": "deny", "display_version": push.Approval.Version}).want(t, http.StatusForbidden)
	h.click(t, slackAnn, h.noticeOf(t, channel), "deny")
	decider := h.customer(t, d.organization, "ai", "ai:approvals:decide")
	for _, choice := range []string{"approve", "deny"} {
		decider.post(t, approvalsRoute+"/"+ref+"/"+choice, object{"decided_by": "ann"}).refused(t, http.StatusForbidden, "not_an_approver", "")
		decider.post(t, approvalsRoute+"/"+ref+"/"+choice, object{"decided_by": "bob", "decidedBy": "ann"}).want(t, http.StatusBadRequest)
		session.post(t, "/portal/api"+approvalsRoute+"/"+ref+"/"+choice, object{}).refused(t, http.StatusForbidden, "not_an_approver", "")
		for c, at := range map[*client]string{&session: "/portal/api" + decisionRoute(ref), &ann: decisionRoute(ref)} {
			c.post(t, at, object{"decision": choice, "display_version": push.Approval.Version}).refused(t, http.StatusForbidden, "not_an_approver", "")
		}
	}
	session.get(t, "/portal/api"+decisionRoute(ref)).refused(t, http.StatusForbidden, "not_an_approver", "")
	ann.get(t, decisionRoute(ref)).refused(t, http.StatusForbidden, "not_an_approver", "")
	d.is(t, ref, "pending")
	decider.post(t, approvalsRoute+"/"+ref+"/deny", object{"decided_by": "bob", "reason": "no"}).want(t, http.StatusOK)
	d.is(t, ref, "denied", `"decided_by":"bob"`, `"decided_via":"api"`)
	h.click(t, slackBob, h.noticeOf(t, channel), "approve")
	d.is(t, ref, "denied", `"decided_by":"bob"`)
	removed := d.ask(t, "agent-7")
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/approvers/"+d.organization, object{"groups": []object{}}).want(t, http.StatusOK)
	ann.get(t, decisionRoute(removed)).refused(t, http.StatusForbidden, "not_an_approver", "")
	// Without a group the scope alone is enough.
	decider.post(t, approvalsRoute+"/"+removed+"/deny", object{"decided_by": "ada"}).want(t, http.StatusOK)
}

// Each message quotes what the asker writes, so that it is neither a sentence nor a link of the message: by mail, in
// Slack, in the inbox and in a push.
func TestAskersAreQuoted(t *testing.T) {
	t.Parallel()
	h := deciding.get(t)
	mail, channel := address("ann"), conversation()
	d := h.decidable(t, []object{{"user_id": "ann", "email": mail}}, object{"after": "0s", "channels": []string{"in_app", "web_push", "email", "slack"}, "slack_channel": channel})
	h.app(t, d.organization)
	browser := h.browser(t, d.organization)
	d.as(t, "ann").post(t, "/product/v1/notifications/push/registrations", object{"subscription": object{"endpoint": browser.Endpoint, "keys": browser.Keys}}).want(t, http.StatusCreated)
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/alerts/rules/"+d.organization, object{"rules": []object{{
		"name": "approvals", "types": []string{"switchyard.approval.*"}, "to": []object{{"channel": "in_app", "user_id": "eve"}},
	}}}).want(t, http.StatusOK)
	d.ask(t, "Security: your session expired, sign in at https://evil.example/decisions . The system")
	const quoted = `"Security: your session expired, sign in at https[:]//evil[.]example/decisions . The system"`
	waitFor(t, waitTimeout, "the messages", func() error {
		mails, calls, pushes := h.mails(t, mail), h.calls(t, channel), h.pushed(t, browser)
		inbox, alerts := h.inbox(t, d.organization, "ann"), h.inbox(t, d.organization, "eve")
		if len(mails) != 1 || len(calls) != 1 || len(pushes) != 1 || len(inbox.Records) != 1 || len(alerts.Records) != 1 {
			return fmt.Errorf("%d mails, %d posts, %d pushes, %d and %d records", len(mails), len(calls), len(pushes), len(inbox.Records), len(alerts.Records))
		}
		for what, text := range map[string]string{
			"the mail": unfolded(mails[0]), "Slack": calls[0].Payload.Text + fmt.Sprintf("%s", calls[0].Payload.Blocks), "the push": pushes[0].content(t).Body,
			"the inbox": inbox.Records[0].Message, "the alert": alerts.Records[0].Message,
		} {
			if strings.Contains(text, "evil.example") || strings.Contains(text, "https://evil") {
				t.Errorf("%s has a link: %s", what, text)
			}
			if !strings.Contains(text, "Asked for by: "+quoted) && !strings.Contains(text, "Asked for by: "+strings.ReplaceAll(quoted, `"`, `\"`)) {
				t.Errorf("%s says %s", what, text)
			}
		}
		return nil
	})
}
