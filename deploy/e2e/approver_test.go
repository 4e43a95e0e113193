//go:build e2e

package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// approving has two gateways, which hold calls, and two of control, which notify the people who decide.
var approving = plan{
	name: "approving", replicas: map[stack.Service]int{stack.Gateway: 2, stack.Control: 2},
	fakes: []stack.Fake{stack.FakeTools, stack.FakeSlack, stack.FakeSMTP, stack.FakeMailbox, stack.FakePush},
	settings: settings{
		stack.Gateway: {"GATEWAY_MCP_APPROVAL_HOLD=2m"}, stack.Notify: {"NOTIFY_WEB_PUSH_ENABLED=true"},
	},
}

const slackTeam, slackAnn, slackBob = "T0123ACME", "U0123ANN", "U0123BOB"

// A call that a rule of the policy stops reaches its approvers by push, mail, inbox and Slack. One of them approves on the
// page, after programs have opened the link; the call goes through, and the messages say so. A second call is denied by a
// button in Slack, while replicas of control are killed.
func TestPeopleDecideOnCalls(t *testing.T) {
	t.Parallel()
	h := approving.start(t)
	organization, mail, channel := unique("org"), address("ann"), conversation()
	h.app(t, organization)
	browser := h.browser(t, organization)
	h.register(t, organization, browser, object{"user_id": "ann"})
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/approvers/"+organization, object{"groups": []object{{
		"name": "default",
		"members": []object{
			{"user_id": "ann", "email": mail, "slack_user": object{"team_id": slackTeam, "user_id": slackAnn}},
			{"user_id": "bob", "slack_user": object{"team_id": slackTeam, "user_id": slackBob}},
		},
		"steps": []object{
			{"after": "0s", "channels": []string{"in_app", "web_push", "email", "slack"}, "users": []string{"ann"}, "slack_channel": channel},
			{"after": "2s", "channels": []string{"in_app"}, "users": []string{"bob"}},
			{"after": "1h", "channels": []string{"email"}},
		},
	}}}).want(t, http.StatusOK)
	gateways := h.gateways(organization)
	listing := h.registerTools(t, organization, "files", 0)
	gateways[0].post(t, trustPath, object{"server_id": "files", "level": "COMMUNITY", "assigned_by": "olga"}).want(t, http.StatusCreated)
	gateways[0].post(t, serversPath+"/files/review", object{"listing_digest": listing, "decision": "approve", "reviewed_by": "olga"}).want(t, http.StatusOK)

	first := pay(t, gateways[0], "/mcp", "files", "anna", 7)
	h.awaitMessages(t, organization, mail, channel, browser, 1, "files/pay")
	token := h.linkOfMail(t, mail)
	page := h.anonymous(stack.Edge)
	for i := range 50 {
		method := []string{http.MethodGet, http.MethodHead, http.MethodOptions}[i%3]
		if a := page.unrecorded(t, method, "/decisions/"+token, nil); a.status != http.StatusOK && method != http.MethodOptions {
			t.Fatalf("%s: %d %s", method, a.status, shorten(a.body))
		}
	}
	if shown := h.decideOnPage(t, token, "approve"); !strings.Contains(shown, "It is approved by ann") {
		t.Errorf("the page says %s", shown)
	}
	if got := <-first; got.result.Get("content.0.text").Str != "paid 7 to anna" {
		t.Fatalf("the call is answered with %+v", got)
	}
	h.awaitMessages(t, organization, mail, channel, browser, 2, "approved by ann")

	if err := errors.Join(h.Kill(secondControl), h.Kill(string(stack.Control))); err != nil {
		t.Fatal(err)
	}
	second := pay(t, gateways[1], "/mcp", "files", "bert", 7)
	waitFor(t, waitTimeout, "the second approval", func() error {
		if a := gateways[0].get(t, approvalsPath+"?status=pending").want(t, http.StatusOK); gjson.GetBytes(a.body, "approvals.#").Int() != 1 {
			return fmt.Errorf("pending are %s", a.body)
		}
		return nil
	})
	if err := h.Restart(t.Context(), string(stack.Control)); err != nil {
		t.Fatal(err)
	}
	h.awaitMessages(t, organization, mail, channel, browser, 3, "files/pay")
	notice := h.noticeOf(t, channel)
	h.click(t, "U0123EVE", notice, "deny") // a stranger
	if a := gateways[0].get(t, approvalsPath+"?status=pending").want(t, http.StatusOK); gjson.GetBytes(a.body, "approvals.#").Int() != 1 {
		t.Errorf("a stranger's click decides: %s", a.body)
	}
	h.click(t, slackBob, notice, "deny")
	h.click(t, slackBob, notice, "deny") // Slack, or the person, repeats it.
	if got := <-second; got.failure.Get("data.reason").Str != "approval_denied" {
		t.Errorf("the call is answered with %+v", got)
	}
	h.awaitMessages(t, organization, mail, channel, browser, 4, "denied by bob")
}

// paid is the answer to a call that was held for an approval.
type paid struct{ result, failure gjson.Result }

// heldCalls is how often pay makes a call before it gives up. Each call waits for the decision for most of a minute.
const heldCalls = 5

// pay calls a server's tool pay, which needs an approval, in the background. If the person has not decided when the call
// times out, pay makes the call again, as the error says.
func pay(t *testing.T, c client, path, server, to string, amount int) <-chan paid {
	t.Helper()
	done := make(chan paid, 1)
	go func() {
		var got paid
		defer func() { done <- got }()
		for range heldCalls {
			got.result, got.failure = c.rpc(t, path, "tools/call", object{"name": server + "__pay", "arguments": object{"to": to, "amount": amount}})
			if got.failure.Get("data.reason").Str != "approval_required" {
				return
			}
		}
	}()
	return done
}

// awaitMessages waits until a member has that many mails and pushes, of which the last says something, and as many posts and
// updates are in a conversation of Slack; none of them comes twice.
func (h *harness) awaitMessages(t *testing.T, organization, mail, channel string, browser subscriber, number int, says string) {
	t.Helper()
	waitFor(t, waitTimeout, fmt.Sprintf("message %d: %s", number, says), func() error {
		mails, calls, pushes := h.mails(t, mail), h.calls(t, channel), h.pushed(t, browser)
		if len(mails) != number || len(calls) != number || len(pushes) != number {
			return fmt.Errorf("%d mails, %d calls of Slack, %d pushes", len(mails), len(calls), len(pushes))
		}
		last := pushes[number-1].content(t)
		for what, text := range map[string]string{
			"the mail": unfolded(mails[number-1]), "Slack": calls[number-1].Payload.Text, "the push": last.Title + last.Body,
		} {
			if !strings.Contains(text, says) {
				return fmt.Errorf("%s says %s", what, text)
			}
		}
		inbox := h.inbox(t, organization, "ann") // An update changes its record in place.
		if len(inbox.Records) != (number+1)/2 || !strings.Contains(inbox.Records[0].Subject+inbox.Records[0].Message, says) {
			return fmt.Errorf("the inbox has %d records, the newest %+v", len(inbox.Records), inbox.Records)
		}
		return nil
	})
}

// unfolded returns a mail without the line breaks of quoted-printable.
func unfolded(mail string) string { return strings.ReplaceAll(mail, "=\r\n", "") }

var decisionLink = regexp.MustCompile(`/decisions/([0-9a-f]{64})`)

// linkOfMail returns the token of the link in the last mail to a member.
func (h *harness) linkOfMail(t *testing.T, mail string) string {
	t.Helper()
	mails := h.mails(t, mail)
	found := decisionLink.FindStringSubmatch(unfolded(mails[len(mails)-1]))
	if found == nil {
		t.Fatalf("no link in %s", mails[len(mails)-1])
	}
	knownSecrets.add("a decision token", found[1])
	return found[1]
}

var nonceField = regexp.MustCompile(`name="(nonce|display_version)" value="([^"]+)"`)

// decideOnPage opens the page of a token and sends its form with a decision. It returns the page that answers.
func (h *harness) decideOnPage(t *testing.T, token, choice string) string {
	t.Helper()
	page := h.anonymous(stack.Edge)
	form := url.Values{"decision": {choice}, "reason": {"looks good"}}
	for _, field := range nonceField.FindAllStringSubmatch(string(page.unrecorded(t, http.MethodGet, "/decisions/"+token, nil).body), -1) {
		form.Set(field[1], field[2])
	}
	a := page.with("Content-Type", "application/x-www-form-urlencoded").unrecorded(t, http.MethodPost, "/decisions/"+token, form.Encode())
	if a.status != http.StatusOK {
		t.Errorf("the form: %d %s", a.status, shorten(a.body))
	}
	return string(a.body)
}

// noticeOf returns the value of the buttons of the last message in a conversation of Slack.
func (h *harness) noticeOf(t *testing.T, channel string) string {
	t.Helper()
	calls := h.calls(t, channel)
	for _, block := range calls[len(calls)-1].Payload.Blocks {
		if value := gjson.GetBytes(block, `elements.#(action_id=="deny").value`).Str; value != "" {
			return value
		}
	}
	t.Fatalf("no button to deny in %+v", calls[len(calls)-1])
	return ""
}

// click presses a button in Slack, as Slack tells of it.
func (h *harness) click(t *testing.T, user, notice, button string) {
	t.Helper()
	payload := fmt.Sprintf(`{"type":"block_actions","api_app_id":%q,"team":{"id":%q},"user":{"id":%q,"team_id":%q},"actions":[{"action_id":%q,"value":%q}]}`,
		stack.SlackApp, slackTeam, user, slackTeam, button, notice)
	body, now := "payload="+url.QueryEscape(payload), fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, []byte(h.Secrets().SlackSigning))
	_, _ = fmt.Fprintf(mac, "v0:%s:%s", now, body)
	slack := h.anonymous(stack.Edge).with("Content-Type", "application/x-www-form-urlencoded", "X-Slack-Request-Timestamp", now)
	slack.with("X-Slack-Signature", "v0="+strings.Repeat("0", 64)).post(t, "/slack/interactions", body).want(t, http.StatusUnauthorized)
	slack.with("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil))).post(t, "/slack/interactions", body).want(t, http.StatusOK)
}
