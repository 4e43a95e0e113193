//go:build e2e

package e2e_test

import (
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
