//go:build e2e

package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// decisionPicture names the file of a picture of the page of decisions; empty for none.
var decisionPicture = flag.String("decision-picture", "", "`file` for a picture of the page on which a person decides")

const (
	paymentServer = "payments"
	paymentTool   = "mcp__switchyard__" + paymentServer + "__pay"
)

// payingAgent is a command line that calls tools of the edge beside its own.
type payingAgent struct {
	name  string
	first vendor
	start func(t *testing.T, npm npmClients, d sdkEndpoint, model, tools string) clientRun
}

var payingAgents = []payingAgent{
	{"claude-code", addVendor(vendor{name: "paying-claude", dialect: "anthropic", model: "paying-claude"}), startPayingClaude},
	{"codex", addVendor(vendor{name: "paying-codex", dialect: "openai", model: "paying-codex", more: object{"responses": true}}), startPayingCodex},
}

// startPayingClaude returns a run of Claude Code that prints all messages, with the results of its tools.
func startPayingClaude(t *testing.T, npm npmClients, d sdkEndpoint, model, tools string) clientRun {
	t.Helper()
	folder := t.TempDir()
	text, _ := json.Marshal(object{"mcpServers": object{"switchyard": object{ // texts never fail
		"type": "http", "url": tools, "headers": object{"Authorization": "Bearer ${SWITCHYARD_KEY}"}, // It hides variables that it knows itself.
	}}})
	config := filepath.Join(folder, "tools.json")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run := startClaudeCode(t, npm, d, model, folder, 0)
	run.env = append(run.env, "SWITCHYARD_KEY="+d.key)
	run.args = []string{
		"-p", "Pay.", "--model", model, "--strict-mcp-config", "--mcp-config", config, "--allowedTools", paymentTool,
		"--output-format", "stream-json", "--verbose",
	}
	return run
}

// startPayingCodex returns a run of Codex, which prints the errors of its tools.
func startPayingCodex(t *testing.T, npm npmClients, d sdkEndpoint, model, tools string) clientRun {
	t.Helper()
	run := startCodex(t, npm, d, model, t.TempDir(), 0)
	run.args = append(run.args,
		"-c", fmt.Sprintf("mcp_servers.switchyard.url=%q", tools), "-c", `mcp_servers.switchyard.bearer_token_env_var="OPENAI_API_KEY"`)
	return run
}

const (
	waitsWords = "The large payment waits for a person."
	paidWords  = "Both payments are made."
)

// pays returns the script of an agent's vendor: it asks for a small payment and, when it reads that it was made, for a large
// one. It says what it reads of that.
func (a payingAgent) pays(payee string) []rule {
	ask := func(cents int) object {
		return object{"answer": object{"tool_calls": []object{toolUse(paymentTool, object{"to": payee, "amount": cents})}}}
	}
	path := a.first.answerPath()
	reads := func(text string) object { return object{"path": path, "body": text} }
	return []rule{
		{reads("paid 700 to " + payee), 0, object{"answer": object{"text": paidWords}}},
		{reads("has to approve this exact call (apr_"), 0, object{"answer": object{"text": waitsWords}}},
		{reads("paid 5 to " + payee), 0, ask(700)},
		{reads(""), 0, ask(5)},
	}
}

// Claude Code and Codex call tools of the edge, unmodified. A small payment is made; a large one is refused with the
// reference of its approval before the agent gives up, and made once it is approved and asked for again. A person approves
// on a phone.
func TestAgentsPay(t *testing.T) {
	t.Parallel()
	h := plan{name: "paying", idle: true, tools: stack.ToolRules, fakes: []stack.Fake{stack.FakeTools}}.start(t)
	t.Run("agents", func(t *testing.T) {
		npm := clients(t)
		for _, agent := range payingAgents {
			t.Run(agent.name, func(t *testing.T) {
				t.Parallel()
				programTurns.take(t, t.Name(), false)
				h.agentPays(t, npm, agent)
			})
		}
	})
	t.Run("phone", h.approvedOnPhone)
}

// payments registers the fake as the server of payments of an organization, trusts it and approves its definitions.
func (h *harness) payments(t *testing.T, organization string) client {
	t.Helper()
	service := h.service(stack.Gateway, organization)
	listing := h.registerTools(t, organization, paymentServer, 0.5)
	service.post(t, trustPath, object{"server_id": paymentServer, "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	service.post(t, serversPath+"/"+paymentServer+"/review", object{"listing_digest": listing, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)
	return service
}

func (h *harness) agentPays(t *testing.T, npm npmClients, agent payingAgent) {
	t.Helper()
	organization, payee := unique("org"), unique("payee")
	service := h.payments(t, organization)
	edge := h.sdkEndpointsOf(t, organization)[1]
	edge.key = h.key(t, organization, "ai", "read,write").Key
	h.script(t, stack.FakeProvider, agent.pays(payee)...)
	run := agent.start(t, npm, edge, agent.first.named(), h.URL(string(stack.Edge))+toolsPath)

	out := run.run(t)
	ref := waitingApproval(t, service)
	if !strings.Contains(out, waitsWords) || !strings.Contains(out, "has to approve this exact call ("+ref+")") {
		t.Errorf("the agent was not refused with the reference %s:\n%s", ref, out)
	}
	h.approveByToken(t, service, ref)
	if out = run.run(t); !strings.Contains(out, paidWords) {
		t.Errorf("the approved payment was not made:\n%s", out)
	}

	if paid := h.paidTo(t, payee); !slices.Equal(paid, []int64{5, 5, 700}) {
		t.Errorf("%s got %v, want a small payment in each run and the large one once", payee, paid)
	}
	model, tool := agent.first.name, "mcp/"+paymentServer
	want := []string{model, tool, model, model, model, tool, model, tool, model}
	waitFor(t, waitTimeout, "the ledger rows of both runs", func() error {
		if served := h.servedBy(t, organization); !slices.Equal(served, want) {
			return fmt.Errorf("served by %q, want %q", served, want)
		}
		return nil
	})
}

// paidTo returns the amounts that the fake has paid to a payee.
func (h *harness) paidTo(t *testing.T, payee string) (amounts []int64) {
	t.Helper()
	a := h.fake(stack.FakeTools).get(t, "/_executed?tool=pay").want(t, http.StatusOK)
	for _, call := range gjson.GetBytes(a.body, "executed").Array() {
		if call.Get("arguments.to").Str == payee {
			amounts = append(amounts, call.Get("arguments.amount").Int())
		}
	}
	return amounts
}

// approvedOnPhone has a person decide on two held calls on the page, to which the inbox has the link.
func (h *harness) approvedOnPhone(t *testing.T) {
	organization := unique("org")
	h.payments(t, organization)
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/approvers/"+organization, object{"groups": []object{{
		"name": "default", "members": []object{{"user_id": "ann"}}, "steps": []object{{"after": "0s", "channels": []string{"in_app"}}},
	}}}).want(t, http.StatusOK)
	customer := h.customer(t, organization, "ai", "write")
	ctx := chrome(t)
	p := browserPage{ctx, faultsOf(ctx)}
	p.run(t, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))

	answered := pay(t, customer, toolsPath, paymentServer, "bert", 500)
	first := h.linkInInbox(t, organization, "")
	ann := h.decider(t, organization, "ann")
	p.identifies(t, first, ann)
	if *decisionPicture != "" {
		var picture []byte
		p.run(t, chromedp.FullScreenshot(&picture, 100))
		if err := os.WriteFile(*decisionPicture, picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if paid := h.paidTo(t, "bert"); len(paid) > 0 {
		t.Errorf("paid %v before the decision", paid)
	}
	p.run(t, chromedp.SendKeys("#reason", "agreed"))
	p.decides(t, "#decide button.approve", "It is approved by ann")
	if got := <-answered; got.result.Get("content.0.text").Str != "paid 500 to bert" {
		t.Errorf("the call is answered with %+v", got)
	}

	answered = pay(t, customer, toolsPath, paymentServer, "bert", 900)
	p.identifies(t, h.linkInInbox(t, organization, first), ann)
	checkAccessible(t, ctx, "the page of decisions")
	p.decides(t, "#decide button.deny", "It is denied by ann")
	if got := <-answered; got.failure.Get("data.reason").Str != "approval_denied" {
		t.Errorf("the denied call is answered with %+v", got)
	}
	if paid := h.paidTo(t, "bert"); !slices.Equal(paid, []int64{500}) {
		t.Errorf("paid %v", paid)
	}
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}

// decider returns an end user's token that decides on approvals.
func (h *harness) decider(t *testing.T, organization, user string) (token string) {
	t.Helper()
	var minted struct{ Token string }
	h.operator(stack.Edge).unrecorded(t, http.MethodPost, tokensPath, object{
		"organization_id": organization, "user_id": user, "ttl_seconds": 900, "scopes": []string{"ai:decisions:decide"},
	}).into(t, http.StatusCreated, &minted)
	knownSecrets.add("a token of "+user, minted.Token)
	return minted.Token
}

// identifies opens the page of an approval, and gives it the person's token, without which it shows nothing.
func (p browserPage) identifies(t *testing.T, link, token string) {
	t.Helper()
	p.run(t,
		chromedp.Navigate(link), chromedp.WaitVisible("#token"), chromedp.SendKeys("#token", token), chromedp.Click("#who button"),
		chromedp.WaitVisible("#decide button.approve"))
}

// decides presses a button of the page, and waits for what the page that answers says.
func (p browserPage) decides(t *testing.T, button, want string) {
	t.Helper()
	p.run(t, chromedp.Click(button, chromedp.ByQuery))
	waitFor(t, waitTimeout, "the page after the decision", func() error {
		var shown string
		// It fails while the browser loads the page.
		if err := chromedp.Run(p.ctx, chromedp.Evaluate("document.body.innerText", &shown)); err != nil || !strings.Contains(shown, want) {
			return fmt.Errorf("want %q in %q, error %w", want, shown, err)
		}
		return nil
	})
}

// linkInInbox waits for a link to the page of an approval, other than the one before.
func (h *harness) linkInInbox(t *testing.T, organization, before string) (link string) {
	t.Helper()
	waitFor(t, waitTimeout, "the link in the inbox", func() error {
		inbox := h.service(stack.Notify, organization).unrecorded(t, http.MethodGet, inboxPath+"?user_id=ann", nil).want(t, http.StatusOK)
		newest := gjson.GetBytes(inbox.body, "notifications.0")
		if link = newest.Get("url").Str; link == "" || link == before {
			return fmt.Errorf("the newest message is %q", newest.Get("subject").Str)
		}
		return nil
	})
	return link
}
