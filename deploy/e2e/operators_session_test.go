//go:build e2e

package e2e_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

// endElsewhere ends the session of a page as another tab would: the page doesn't know.
func (p browserPage) endElsewhere(t *testing.T) {
	t.Helper()
	var status int64
	p.run(t, chromedp.Evaluate(`fetch(new URL("api/session", document.baseURI), { method: "DELETE", headers: { "X-Switchyard-Portal": "1" } }).then((a) => a.status)`,
		&status, awaitPromise))
	if status != 204 {
		t.Fatalf("the end of the session: %d", status)
	}
}

// A page whose session has ended elsewhere shows the sign-in and says why; its sign-out works, too.
func TestConsoleSessionEndsElsewhere(t *testing.T) {
	t.Parallel()
	h := use(t)
	p := h.signInToConsole(t)
	p.endElsewhere(t)
	p.run(t, chromedp.Click(`#nav a[href="#/plans"]`))
	p.until(t, `document.getElementById("token") !== null && document.getElementById("nav").hidden && document.getElementById("leave").hidden && `+
		contains("failure", "Your session has ended. Sign in again.")+` && document.getElementById("organization").textContent === ""`)
	checkAccessible(t, p.ctx, "the sign-in after the session")
	p.run(t, chromedp.SendKeys("#token", h.Secrets().Operator+"\n"))
	p.until(t, `document.getElementById("title").textContent === "Plans" && `+contains("organization", "operator")+` && document.getElementById("failure").textContent === ""`)

	p.endElsewhere(t)
	if _, err := chromedp.RunResponse(p.ctx, chromedp.Click("#leave")); err != nil {
		t.Fatal(err)
	}
	p.until(t, `document.getElementById("token") !== null && document.getElementById("failure").textContent === ""`)
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}

// The portal's page says how to come back, and its sign-out returns to where the person came from.
func TestPortalSessionEndsElsewhere(t *testing.T) {
	t.Parallel()
	h := use(t)
	ctx := chrome(t)
	p := browserPage{ctx, faultsOf(ctx)}
	p.run(t, chromedp.Navigate(h.portalLink(t, unique("org"), "", "ann", "webhooks:*")))
	p.until(t, `document.getElementById("content").dataset.ready === "true"`)
	p.endElsewhere(t)
	p.run(t, chromedp.Click(`#nav a[href="#/deliveries"]`))
	p.until(t, contains("failure", "Ask for another link"))
	p.run(t, chromedp.EmulateViewport(360, 300))
	const uncovered = `document.getElementById("view").getBoundingClientRect().bottom <= document.getElementById("failure").getBoundingClientRect().top`
	p.until(t, "(scrollTo(0, document.body.scrollHeight), "+uncovered+")")
	if _, err := chromedp.RunResponse(p.ctx, chromedp.Click("#leave")); err != nil {
		t.Fatal(err)
	}
	p.until(t, `document.getElementById("nav").hidden && `+contains("failure", "Ask for another link"))
	var at string
	p.run(t, chromedp.Location(&at))
	if want := h.URL(string(stack.Edge)) + "/portal/"; at != want {
		t.Errorf("the sign-out leads to %s, want %s", at, want)
	}
}

// An organization that no key belongs to may be a mistyped name: the console reads without a question, and changes nothing
// before the operator has confirmed the name, once.
func TestConsoleConfirmsUnknownOrganizations(t *testing.T) {
	t.Parallel()
	h := use(t)
	known, mistyped := unique("org"), unique("gro")
	h.key(t, known, "ai", "read")
	p := h.signInToConsole(t)
	grant := func(amount, answer string) {
		t.Helper()
		p.run(t, chromedp.Evaluate("window.asked = []; window.confirm = (text) => { asked.push(text); return "+answer+"; }", nil))
		p.fill(t, "amount_cents", amount, "expires_at", "2099-01-01")
		p.submit(t, "Grant credits")
	}

	p.actFor(t, known, "ann")
	grant("7", "false")
	p.until(t, contains("credits", "$7.00")+" && asked.length === 0")

	p.actFor(t, mistyped, "ann")
	grant("8", "false")
	p.until(t, contains("status", "Nothing is changed.")+fmt.Sprintf(" && asked.length === 1 && asked[0].includes(%q)", mistyped))
	h.operator(stack.Edge).get(t, "/admin/v1/organizations/"+mistyped+"/credits").holds(t, `"grants":[]`)
	grant("9", "true")
	p.until(t, contains("credits", "$9.00")+" && asked.length === 1")
	grant("10", "false")
	p.until(t, contains("credits", "$10.00")+" && asked.length === 0")
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}
