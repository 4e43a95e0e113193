//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

// fill gives the fields of a page values, as pairs of name and value, in their order.
func (p browserPage) fill(t *testing.T, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		p.run(t, chromedp.Evaluate(fmt.Sprintf(`{ const field = document.querySelector("#content [name=%s]"); field.value = %q;
			field.dispatchEvent(new Event("change")); }`, strings.ReplaceAll(fmt.Sprintf("%q", pairs[i]), `"`, `'`), pairs[i+1]), nil))
	}
}

// submit sends the form with a label, press the button with one, and says yes to what it asks.
func (p browserPage) submit(t *testing.T, label string) {
	t.Helper()
	p.run(t, chromedp.Evaluate(fmt.Sprintf(`document.querySelector("form[aria-label='%s']").requestSubmit()`, label), nil))
}

func (p browserPage) press(t *testing.T, label string) {
	t.Helper()
	p.run(t, chromedp.Evaluate(fmt.Sprintf(`window.confirm = () => true; document.querySelector("button[aria-label='%s']").click()`, label), nil))
}

// refused waits until the field with a name is marked, with a rule beside it.
func (p browserPage) refused(t *testing.T, name, rule string) {
	t.Helper()
	p.until(t, fmt.Sprintf(`(() => { const field = document.querySelector("[aria-invalid=true]");
		return field !== null && field.name === %q && field === document.activeElement && document.getElementById("failure").textContent === "" &&
			document.getElementById(field.getAttribute("aria-describedby")).textContent.includes(%q); })()`, name, rule))
}

// exactBalance matches what is left of 5 dollars after calls that cost less than a cent.
var exactBalance = regexp.MustCompile(`^Balance: \$4\.99\d+$`)

// An operator makes a plan, puts an organization and a key on it, sees what is used of it, and can delete it only when
// nothing is on it. What is wrong is said at the field.
func TestConsolePlans(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, plan := unique("org"), unique("plan")
	key := h.key(t, organization, "ai", "read")
	operator := h.operator(stack.Edge)
	p := h.signInToConsole(t)

	p.visit(t, "plans")
	p.fill(t, "plan", plan, "description", "<b>for a start</b>")
	p.run(t, chromedp.Click("#add-limit"), chromedp.Click("#add-limit"))
	p.fill(t, "limits[0]", "cents", "limits[0].amount", "900000001", "limits[1]", "calls", "limits[1].kind", "metered", "limits[1].amount", "1", "limits[1].price_pico_usd", "0.000002")
	p.submit(t, "Add plan")
	p.refused(t, "limits[0].amount", "must be at most 900000000 cents")
	checkAccessible(t, p.ctx, "a plan with an error")
	p.fill(t, "limits[0].amount", "2000")
	p.submit(t, "Add plan")
	p.until(t, contains("plans", plan)+" && "+contains("plans", "<b>for a start</b>")+" && "+contains("plans", "$20.00")+" && "+contains("plans", "$0.000002"))
	p.fill(t, "plan", plan)
	p.submit(t, "Add plan")
	p.refused(t, "plan", "already")
	p.press(t, "Change: "+plan)
	p.until(t, fmt.Sprintf(`document.querySelector("form[aria-label='Change the plan %s']") !== null`, plan))
	p.fill(t, "description", "changed", "limits[1].period", "day") // Limits are in the order of their meters.
	p.submit(t, "Change the plan "+plan)
	p.until(t, contains("plans", "changed"))
	operator.get(t, "/admin/v1/plans/"+plan).holds(t, `"description":"changed","prepaid":false,"limits":[`+
		`{"meter":"calls","period":"month","amount":1,"kind":"metered","price_pico_usd":2000000},{"meter":"cents","period":"day","amount":2000,"kind":"hard"}]`)

	p.actFor(t, organization, "ann")
	p.fill(t, "plan", plan)
	p.submit(t, "Plan")
	p.until(t, contains("status", "Saved"))
	p.fill(t, "rate_limit", "7")
	p.submit(t, "Rate limit")
	p.refused(t, "rate_limit", "")
	p.run(t, chromedp.SetValue("#rate-seconds", "60"))
	p.submit(t, "Rate limit")
	p.until(t, contains("status", "Saved"))
	p.fill(t, "amount_cents", "5", "expires_at", "2001-01-01")
	p.submit(t, "Grant credits")
	p.refused(t, "expires_at", "")
	p.fill(t, "expires_at", "2099-01-01")
	p.submit(t, "Grant credits")
	p.until(t, contains("credits", "$5.00"))
	checkAccessible(t, p.ctx, "account")
	operator.get(t, "/admin/v1/organizations/"+organization+"/rate-limit").holds(t, `"rate_limit":{"requests":7,"window_seconds":60,"burst":7}`)

	h.anonymous(stack.Edge).bearer(key.Key).post(t, "/product/v1/ai/chat", ask("sandbox", "hello")).want(t, http.StatusOK)
	h.anonymous(stack.Edge).bearer(key.Key).post(t, "/product/v1/ai/chat", ask("sandbox", "hello")).want(t, http.StatusOK)
	p.visit(t, "limits")
	p.until(t, `(document.querySelector("#content > button").click(), `+contains("limits", "1 ($0.000002)")+")")
	// The cost of the two calls may be off the balance already.
	p.until(t, contains("limits", plan)+" && "+contains("limits", "$20.00")+` && /Balance: \$(5\.00|4\.99)/.test(document.getElementById("limits").textContent)`)
	checkAccessible(t, p.ctx, "limits")
	p.visit(t, "all-keys")
	waitFor(t, waitTimeout, "the account shows the balance as exactly as the limits", func() error {
		var balance string
		p.visit(t, "limits") // A view is shown anew when another one was shown before.
		p.visit(t, "account")
		p.run(t, chromedp.Text("#balance", &balance, chromedp.ByQuery))
		if !exactBalance.MatchString(balance) {
			return fmt.Errorf("it shows %q", balance)
		}
		return nil
	})

	p.visit(t, "all-keys")
	p.press(t, "Change: "+t.Name())
	p.until(t, fmt.Sprintf(`document.querySelector("form[aria-label='Change the key %s']") !== null`, t.Name()))
	p.fill(t, "plan", plan, "rate_limit", "5", "tpm", "1000", "budget", "2.5")
	p.run(t, chromedp.SetValue("#rate-seconds", "10"), chromedp.SetValue("#rate-burst", "2"))
	checkAccessible(t, p.ctx, "the form of a key")
	p.submit(t, "Change the key "+t.Name())
	p.until(t, contains("keys", plan)+" && "+contains("keys", "5 in 10 s"))
	operator.get(t, "/admin/v1/keys/"+key.ID).holds(t, `"rate_limit":{"requests":5,"window_seconds":10,"burst":2},"tpm":1000,"models":null,`+
		`"budget":{"ceiling_cents":250,"period":"month"},"class":null,"plan":"`+plan+`"`)
	p.press(t, "Change: "+t.Name())
	p.until(t, `document.querySelector("#key-editor table") !== null && `+contains("key-editor", "$20.00"))

	p.visit(t, "plans")
	p.until(t, contains("plans", plan))
	p.press(t, "Delete: "+plan)
	p.until(t, contains("failure", "1 keys and 1 organizations are on the plan: move them first"))
	operator.do(t, http.MethodPatch, "/admin/v1/keys/"+key.ID, object{"plan": nil}).want(t, http.StatusOK)
	operator.do(t, http.MethodDelete, "/admin/v1/organizations/"+organization+"/plan", nil).want(t, http.StatusNoContent)
	p.press(t, "Delete: "+plan)
	p.until(t, contains("status", "Deleted")+" && !"+contains("plans", plan))
	operator.get(t, "/admin/v1/plans/"+plan).want(t, http.StatusNotFound)
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}

// An operator sets the budget of an organization and decides on an approval, under the operator's own name; the gateway's
// page opens with the chosen organization.
func TestConsoleBudgetsAndApprovals(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, other := unique("org"), unique("org")
	own := h.service(stack.Gateway, organization)
	for _, tool := range []string{"refund", "<i>pay</i>"} {
		own.post(t, approvalsPath, object{"tool": tool, "requested_by": "agent", "arguments": object{"cents": 500}}).want(t, http.StatusCreated)
	}
	h.service(stack.Gateway, other).post(t, approvalsPath, object{"tool": "of-another", "requested_by": "agent"}).want(t, http.StatusCreated)
	own.post(t, chatPath, ask("sandbox", "hello")).want(t, http.StatusOK)
	p := h.signInToConsole(t)
	p.actFor(t, organization, "ann")

	p.visit(t, "approvals")
	p.until(t, contains("approvals", "refund")+" && "+contains("approvals", "<i>pay</i>")+" && "+contains("approvals", `"cents": 500`))
	checkAccessible(t, p.ctx, "approvals")
	decide := func(decision, tool string) {
		t.Helper()
		p.run(t, chromedp.Evaluate(fmt.Sprintf(`document.querySelector("button[aria-label^='%s: %s']").click()`, decision, tool), nil))
	}
	p.run(t, chromedp.SetValue("#approval-reason", "as agreed"))
	decide("Approve", "refund")
	p.until(t, contains("status", "Approved")+" && !"+contains("approvals", "refund"))
	decide("Deny", "<i>pay</i>")
	p.until(t, contains("status", "Denied"))
	p.run(t, chromedp.Evaluate(`{ const status = document.getElementById("approval-status"); status.value = ""; status.dispatchEvent(new Event("change")); }`, nil))
	p.until(t, contains("approvals", "local-operator: as agreed")+" && "+contains("approvals", "denied")+" && !"+contains("approvals", "of-another"))
	own.get(t, approvalsPath+"?status=approved").holds(t, `"decided_by":"local-operator"`)
	operator := h.operator(stack.Edge)
	operator.get(t, "/admin/v1/audit?organization_id="+organization).holds(t, `"operation":"POST /product/v1/ai/approvals/{ref}/approve"`)

	p.visit(t, "budget")
	p.fill(t, "budget_ceiling_cents", "12.5", "period", "day", "thresholds", "60, 101")
	p.submit(t, "Ceiling")
	p.refused(t, "thresholds", "100")
	p.fill(t, "thresholds", "60, 90", "reason", "agreed")
	p.submit(t, "Ceiling")
	p.until(t, contains("budget", "$12.50")+" && "+contains("budget", "60 %, 90 %"))
	checkAccessible(t, p.ctx, "budget")
	h.operator(stack.Gateway).get(t, "/v1/admin/orgs/"+organization+"/spend").holds(t, `"budget_ceiling_cents":1250`)
	operator.get(t, "/admin/v1/audit?organization_id="+organization).holds(t, `"operation":"PUT /v1/admin/orgs/{organization}/budget"`)

	if _, err := chromedp.RunResponse(p.ctx, chromedp.Click(`#nav a[href^="gateway/console"]`)); err != nil {
		t.Fatal(err)
	}
	p.until(t, fmt.Sprintf(`document.getElementById("org").value === %q && `, organization)+contains("spend", "of $12.50 a day")+
		` && document.querySelector("#traces tr.open-able") !== null`)
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}

// holds checks that an answer is 200 and has a text.
func (a answer) holds(t *testing.T, text string) {
	t.Helper()
	if a.want(t, http.StatusOK); !strings.Contains(string(a.body), text) {
		t.Errorf("the answer is %s, want %s in it", a.body, text)
	}
}
