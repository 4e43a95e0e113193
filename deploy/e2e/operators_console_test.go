//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

// signInToConsole opens the operators' console in a browser and signs in.
func (h *harness) signInToConsole(t *testing.T) browserPage {
	t.Helper()
	ctx := chrome(t)
	p := browserPage{ctx, faultsOf(ctx)}
	p.run(t, chromedp.Navigate(h.URL(string(stack.Control))+"/"))
	p.until(t, `location.pathname === "/console/" && document.getElementById("token") !== null`)
	checkAccessible(t, p.ctx, "the sign-in")
	p.run(t, chromedp.SendKeys("#token", "wrong"), chromedp.Click("#sign-in"))
	p.until(t, contains("failure", "not known"))
	p.run(t, chromedp.SendKeys("#token", h.Secrets().Operator+"\n"))
	p.until(t, contains("organization", "operator")+` && document.getElementById("content").dataset.ready === "true"`)
	return p
}

// checkAllViews checks all views that the page leads to, those with the names among them.
func (p browserPage) checkAllViews(t *testing.T, names ...string) {
	t.Helper()
	var found []string
	p.run(t, chromedp.Evaluate(`[...document.querySelectorAll('#nav a[href^="#/"]')].map((link) => link.getAttribute("href").slice(2))`, &found))
	for _, name := range names {
		if !slices.Contains(found, name) {
			t.Errorf("the page does not lead to %s, but to %q", name, found)
		}
	}
	for _, view := range found {
		p.run(t, chromedp.Evaluate(fmt.Sprintf(`document.getElementById("content").dataset.ready = ""; location.hash = "#/%s"`, view), nil))
		// A stack without Web Push has no devices to show, and says so.
		p.until(t, `document.getElementById("content").dataset.ready === "true" || `+contains("failure", "web_push_disabled"))
		checkAccessible(t, p.ctx, view)
	}
}

// actFor chooses an organization in the console, and says yes to what is asked.
func (p browserPage) actFor(t *testing.T, organization, user string) {
	t.Helper()
	p.visit(t, "organizations")
	p.run(t, chromedp.SetValue("#acting-organization", organization), chromedp.SetValue("#acting-user", user),
		chromedp.Evaluate(`window.confirm = () => true; document.querySelector("#content form").requestSubmit()`, nil))
	p.until(t, `location.hash === "#/account" && document.getElementById("content").dataset.ready === "true"`)
}

// An operator signs in once and finds what all organizations have: the views of the portal for the one that is chosen,
// keys, plans and credits.
func TestOperatorsConsole(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, receiver := unique("org"), h.receiver()
	h.key(t, organization, "webhooks", "read,write")
	p := h.signInToConsole(t)

	// What is typed narrows the list of organizations, whose buttons choose one.
	p.run(t, chromedp.SendKeys("#acting-organization", organization))
	p.until(t, `document.querySelectorAll("#organizations tbody tr").length === 1 && `+contains("organizations", organization)+" && "+contains("status", "found: 1"))
	checkAccessible(t, p.ctx, "organizations that begin with a name")
	p.press(t, "Act for this organization: "+organization)
	p.until(t, `location.hash === "#/account" && document.getElementById("content").dataset.ready === "true"`)

	p.run(t, emulation.SetTimezoneOverride("America/New_York"))
	p.actFor(t, organization, "ann")
	p.run(t, chromedp.SendKeys("#grant-amount", "12.34"), chromedp.SetValue("#grant-ends", "2099-01-01"),
		chromedp.SendKeys("#grant-note", "<img src=x onerror=alert(1)>"), chromedp.Evaluate(`document.querySelector("#grant-amount").form.requestSubmit()`, nil))
	p.until(t, contains("credits", "12.34")+" && "+contains("credits", "<img src=x onerror=alert(1)>"))
	p.until(t, contains("credits", "Jan 1, 2099, 12:00:00")+" && "+contains("credits", "UTC")) // wherever the operator is

	p.visit(t, "endpoints")
	p.run(t, chromedp.SendKeys("#endpoint-url", receiver.url()), chromedp.Click(`#content form button[type=submit]`))
	p.until(t, contains("endpoints", receiver.url()))

	p.visit(t, "all-keys")
	p.run(t, chromedp.SendKeys("#key-name", "by an operator"), chromedp.SetValue("#key-product", "webhooks"),
		chromedp.Click(`input[type=checkbox][value=read]`), chromedp.Click(`#content form button[type=submit]`))
	p.until(t, contains("keys", "by an operator")+` && document.getElementById("key-text").value.startsWith("swy_live_")`)
	var key string
	p.run(t, chromedp.Value("#key-text", &key))
	knownSecrets.add("a product key of the console", key)
	h.anonymous(stack.Edge).bearer(key).get(t, "/product/v1/webhooks/endpoints").want(t, http.StatusOK)

	// A delivery that failed for good is among the dead letters of all, and is sent again from there.
	receiver.answers(t, object{"status": http.StatusInternalServerError}, object{"status": http.StatusOK})
	var event eventAnswer
	h.customer(t, organization, "webhooks", "write").post(t, "/product/v1/webhooks/events",
		object{"event_type": "order.paid", "payload": object{"n": 1}, "max_attempts": 1}).into(t, http.StatusAccepted, &event)
	dead := event.Deliveries[0].Delivery
	waitFor(t, waitTimeout, "the delivery fails", func() error {
		if status := h.service(stack.WebhookEgress, organization).get(t, "/v1/deliveries/"+dead).fields(t, http.StatusOK, "status")["status"]; status != "failed" {
			return fmt.Errorf("status %v", status)
		}
		return nil
	})
	p.visit(t, "dead-letters")
	box := fmt.Sprintf(`input[type=checkbox][aria-label$=%q]`, dead)
	p.until(t, contains("deliveries", organization)+fmt.Sprintf(" && document.querySelector(%q) !== null", box))
	p.run(t, chromedp.Click(box), chromedp.Click("#resend"))
	p.until(t, contains("status", "1"))
	waitFor(t, waitTimeout, "it arrives", func() error {
		if n := len(receiver.arrivals(t)); n != 2 {
			return fmt.Errorf("%d arrivals", n)
		}
		return nil
	})

	p.visit(t, "audit")
	p.until(t, contains("audit", "console.call")+" && "+contains("audit", "POST /product/v1/webhooks/endpoints"))
	p.until(t, `/\d/.test(document.querySelector("#audit tbody th").textContent)`) // when
	p.checkAllViews(t, "organizations", "all-deliveries-of-all", "dead-letters", "all-endpoints", "circuits", "all-sends", "events", "registrations",
		"all-keys", "plans", "shared-tools", "audit", "account", "endpoints", "deliveries", "event-types", "alerts", "spend", "inbox", "sends", "limits",
		"approvals", "approvers", "devices", "tools", "budget")

	// The gateway's own page needs no further sign-in.
	p.run(t, chromedp.Navigate(h.URL(string(stack.Control))+"/console/gateway/console"))
	p.until(t, contains("role", "operator")+` && document.querySelector("[data-provider]") !== null && document.getElementById("access").hidden`)
	checkAccessible(t, p.ctx, "the gateway's page")
	if _, err := chromedp.RunResponse(p.ctx, chromedp.Click("#operators")); err != nil {
		t.Fatal(err)
	}
	p.until(t, `location.pathname === "/console/"`)

	// The choice and the session outlive a reload of the page, and no script can read the token.
	if _, err := chromedp.RunResponse(p.ctx, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	p.until(t, contains("organization", "operator")+" && "+contains("nav", organization))
	var kept string
	p.run(t, chromedp.Evaluate(`document.documentElement.outerHTML + JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie`, &kept))
	if strings.Contains(kept, h.Secrets().Operator) {
		t.Error("the page keeps the operator's token")
	}

	// Without a mouse: the sign-out is a button that the keyboard reaches.
	p.run(t, chromedp.Focus("#leave"))
	if _, err := chromedp.RunResponse(p.ctx, chromedp.KeyEvent("\r")); err != nil {
		t.Fatal(err)
	}
	p.until(t, `document.getElementById("token") !== null && sessionStorage.length === 0`)
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}

// The root of each face leads somewhere, and the edge relays no console unless it is told to.
func TestRootsLeadSomewhere(t *testing.T) {
	t.Parallel()
	h := use(t)
	for service, want := range map[stack.Service]string{
		stack.Edge: "/docs", stack.Control: "/console/", stack.Gateway: "/docs", stack.WebhookEgress: "/docs", stack.Notify: "/docs",
	} {
		c := h.anonymous(service)
		a := c.with("Accept", "text/html").get(t, "/").want(t, http.StatusSeeOther)
		if at := a.header.Get("Location"); at != want {
			t.Errorf("%s: / leads to %q, want %q", service, at, want)
		}
		c.get(t, want).want(t, http.StatusOK)
	}
	for _, service := range []stack.Service{stack.Gateway, stack.WebhookEgress, stack.Notify} {
		c := h.anonymous(service)
		index := c.get(t, "/").fields(t, http.StatusOK, "name", "version", "documents", "openapi", "health", "ready", "metrics")
		if index["name"] != string(service) {
			t.Errorf("%s: / names %v", service, index["name"])
		}
		for _, name := range []string{"documents", "openapi", "health", "ready", "metrics"} {
			path, _ := index[name].(string)
			c.get(t, path).want(t, http.StatusOK)
		}
	}
	for _, path := range []string{"/console/", "/console/api/session"} {
		h.anonymous(stack.Edge).get(t, path).want(t, http.StatusNotFound)
	}
}

// Lists of every organization are the operators', and name no organization.
func TestListsOfEveryOrganization(t *testing.T) {
	t.Parallel()
	h := use(t)
	first, second, receiver := unique("org"), unique("org"), h.receiver()
	for _, organization := range []string{first, second} {
		h.service(stack.WebhookEgress, organization).post(t, "/v1/endpoints", object{"url": receiver.url(), "event_types": []string{"*"}}).want(t, http.StatusCreated)
		h.service(stack.WebhookEgress, organization).post(t, "/v1/deliveries", receiver.deliver()).want(t, http.StatusAccepted)
	}
	for path, service := range map[string]stack.Service{
		"/v1/deliveries": stack.WebhookEgress, "/v1/endpoints": stack.WebhookEgress,
	} {
		every := path + "?all_organizations=true&limit=200"
		h.service(service, "").get(t, every).refused(t, http.StatusForbidden, "forbidden", "all_organizations")
		h.service(service, first).get(t, every).refused(t, http.StatusForbidden, "forbidden", "all_organizations")
		h.operator(service).with("X-Organization-Id", first).get(t, every).refused(t, http.StatusBadRequest, "invalid_request", "all_organizations")
		a := h.operator(service).get(t, every).want(t, http.StatusOK)
		for _, organization := range []string{first, second} {
			if !strings.Contains(string(a.body), `"`+organization+`"`) {
				t.Errorf("%s has nothing of %s", every, organization)
			}
		}
		if own := h.service(service, first).get(t, path).want(t, http.StatusOK); strings.Contains(string(own.body), second) {
			t.Errorf("%s of an organization has another's", path)
		}
	}
}
