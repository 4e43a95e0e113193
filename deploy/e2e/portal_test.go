//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

const portalPath = "/admin/v1/portal/sessions"

// portalLink makes a link to the portal of an organization.
func (h *harness) portalLink(t *testing.T, organization, owner, user string, scopes ...string) string {
	t.Helper()
	var link struct{ URL string }
	h.operator(stack.Edge).unrecorded(t, http.MethodPost, portalPath, object{
		"organization_id": organization, "owner_id": owner, "user_id": user, "scopes": scopes, "return_url": h.URL(string(stack.Edge)) + "/portal/",
	}).into(t, http.StatusCreated, &link)
	return link.URL
}

// inPortal opens a link and returns a client that calls as its pages do.
func (h *harness) inPortal(t *testing.T, link string) client {
	t.Helper()
	edge := h.anonymous(stack.Edge)
	opened := edge.unrecorded(t, http.MethodGet, strings.TrimPrefix(link, edge.base), nil).want(t, http.StatusSeeOther)
	cookie, _, _ := strings.Cut(opened.header.Get("Set-Cookie"), ";")
	_, secret, _ := strings.Cut(cookie, "=")
	knownSecrets.add("a session of the portal", secret)
	return edge.with("Cookie", cookie, "Origin", edge.base, "X-Switchyard-Portal", "1")
}

// browserPage is a page in a headless browser.
type browserPage struct {
	ctx    context.Context // the browser
	faults *[]string
}

func (p browserPage) run(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		t.Fatal(errors.Join(err, fmt.Errorf("faults of the page: %v", *p.faults)))
	}
}

// until waits for a condition in JavaScript.
func (p browserPage) until(t *testing.T, condition string) {
	t.Helper()
	if err := chromedp.Run(p.ctx, chromedp.Poll(condition, nil, chromedp.WithPollingTimeout(waitTimeout))); err != nil {
		var shown string
		p.run(t, chromedp.Evaluate("document.body.innerText", &shown))
		t.Fatalf("%v: %s\nfaults of the page: %v\n%s", err, condition, *p.faults, shown)
	}
}

// visit opens a view of the portal and waits until it is shown.
func (p browserPage) visit(t *testing.T, view string) {
	t.Helper()
	p.run(t, chromedp.Evaluate(fmt.Sprintf(`document.getElementById("content").dataset.ready = ""; location.hash = "#/%s"`, view), nil))
	p.until(t, `document.getElementById("content").dataset.ready === "true"`)
}

func contains(id, text string) string {
	return fmt.Sprintf("document.getElementById(%q)?.textContent.includes(%q)", id, text)
}

// A person with nothing but a link subscribes an endpoint, sees a delivery fail, has it sent again once the receiver works,
// sees the spend by tag, makes a key, and reads the inbox as it fills.
func TestPortal(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, receiver := unique("org"), h.receiver()
	link := h.portalLink(t, organization, "", "ann", "webhooks:*", "ai:usage:read", "notifications:*", "keys:write", "alerts:*")
	receiver.answers(t, object{"status": http.StatusInternalServerError, "body": "<b>broken</b>"}, object{"status": http.StatusOK})
	h.customer(t, organization, "ai", "read").with("X-Switchyard-Tags", "team=web").
		post(t, "/product/v1/ai/chat", ask("sandbox", "hello")).want(t, http.StatusOK)

	ctx := chrome(t)
	p := browserPage{ctx, faultsOf(ctx)}
	p.run(t, chromedp.Navigate(link))
	p.until(t, contains("organization", organization)+` && document.getElementById("content").dataset.ready === "true"`)

	p.run(t, chromedp.SendKeys("#endpoint-url", "ftp://example.com"), chromedp.Click(`#content form button[type=submit]`))
	p.refused(t, "url", "scheme")
	p.run(t, chromedp.Evaluate(`document.getElementById("endpoint-url").value = ""`, nil),
		chromedp.SendKeys("#endpoint-url", receiver.url()), chromedp.SendKeys("#endpoint-note", "<script>alert(1)</script>"), chromedp.Click(`#content form button[type=submit]`))
	p.until(t, contains("endpoints", receiver.url())+" && "+contains("endpoints", "<script>alert(1)</script>"))
	var event eventAnswer
	h.customer(t, organization, "webhooks", "write").post(t, "/product/v1/webhooks/events",
		object{"event_type": "order.paid", "payload": object{"n": 1}, "max_attempts": 1}).into(t, http.StatusAccepted, &event)
	h.awaitStatus(t, organization, event.Deliveries[0].Endpoint, "failing")
	p.visit(t, "deliveries")
	p.visit(t, "endpoints")
	p.until(t, contains("endpoints", "Failing since"))

	h.customer(t, organization, "webhooks", "write").do(t, http.MethodPut, "/product/v1/webhooks/event-types/order.shipped", object{
		"description": "<i>The parcel</i> has left.", "schema": object{"required": []string{"parcel"}}, "examples": []object{{"parcel": "<b>7</b>"}},
	}).want(t, http.StatusCreated)
	p.visit(t, "event-types")
	p.until(t, contains("event-types", "<i>The parcel</i> has left.")+" && "+contains("event-types", "switchyard.budget.threshold"))
	p.visit(t, "event-types/order.shipped")
	p.until(t, contains("event-type-schema", `"parcel"`)+" && "+contains("event-type-example-1", "<b>7</b>"))
	p.run(t, chromedp.Click("#content .form button"))
	p.until(t, contains("status", "delivered 200"))

	p.visit(t, "deliveries")
	p.until(t, contains("deliveries", "order.paid"))
	p.visit(t, "deliveries/"+event.Deliveries[0].Delivery)
	refreshed := `(document.getElementById("refresh").click(), `
	p.until(t, refreshed+contains("attempts", "500")+" && "+contains("attempts", "<b>broken</b>")+")")
	p.until(t, `document.getElementById("resend") !== null`)
	p.run(t, chromedp.Evaluate(`document.getElementById("resend").click()`, nil)) // A refresh may replace it at any time.
	p.until(t, refreshed+contains("delivery", "delivered")+")")
	if n := len(receiver.arrivals(t)); n != 3 {
		t.Errorf("%d arrivals, want the failed one, the example, and the one sent again", n)
	}

	p.visit(t, "spend")
	p.run(t, chromedp.Evaluate(`{ const by = document.getElementById("spend-by"); by.value = "tag"; by.dispatchEvent(new Event("change")); }`, nil),
		chromedp.SendKeys("#spend-tag", "team"))
	p.until(t, `(document.querySelector("form").requestSubmit(), `+contains("spend", "web")+")")

	p.visit(t, "keys")
	p.run(t, chromedp.SendKeys("#key-name", "<img src=x onerror=alert(1)>"), chromedp.Click(`input[type=checkbox]`))
	p.run(t, chromedp.SetValue("#key-product", "webhooks"), chromedp.Click(`input[value="webhooks:*"]`), chromedp.Click(`input[type=checkbox]`), chromedp.Click(`#content form button[type=submit]`))
	p.until(t, contains("keys", "<img src=x onerror=alert(1)>")+` && document.getElementById("key-text").value.startsWith("swy_live_")`)
	var key string
	p.run(t, chromedp.Value("#key-text", &key))
	knownSecrets.add("a product key of the portal", key)
	h.anonymous(stack.Edge).bearer(key).get(t, "/product/v1/webhooks/endpoints").want(t, http.StatusOK)

	p.run(t, network.Enable(), network.SetBlockedURLs([]string{"*/inbox/stream*"}))
	p.visit(t, "inbox")
	p.until(t, contains("inbox", "nothing"))
	h.customer(t, organization, "notifications", "write").post(t, "/product/v1/notifications/send", object{
		"channels": []string{"in_app"}, "subject": "Order 7", "message": "<i>shipped</i>", "target": object{"user_id": "ann", "url": "https://app.example/orders/7"},
	}).want(t, http.StatusAccepted)
	p.run(t, network.SetBlockedURLs(nil)) // What came before the stream began is shown, too.
	p.until(t, contains("inbox", "<i>shipped</i>")+` && document.querySelector("#inbox a").href === "https://app.example/orders/7"`)
	p.run(t, chromedp.Click("#inbox .actions button"))
	p.until(t, contains("unread", "0"))
	p.until(t, `document.querySelectorAll("script:not([src]), #content img, #content i, #content b").length === 0`)

	addAlertRule(t, h, p, organization)

	if again := h.anonymous(stack.Edge).unrecorded(t, http.MethodGet, link[len(h.URL(string(stack.Edge))):], nil); again.status != http.StatusGone {
		t.Errorf("the link again: %d, want 410", again.status)
	}
	p.checkAllViews(t, "endpoints", "deliveries", "event-types", "spend", "limits", "keys", "inbox", "devices", "alerts")
	for _, view := range []string{"deliveries/" + event.Deliveries[0].Delivery, "event-types/order.shipped", "event-types/switchyard.budget.threshold"} {
		p.visit(t, view)
		checkAccessible(t, p.ctx, view)
	}
	p.visit(t, "alerts")
	p.run(t, chromedp.SetValue("#language", "de"), chromedp.Evaluate(`document.getElementById("language").dispatchEvent(new Event("change"))`, nil))
	p.until(t, contains("title", "Benachrichtigungen")+" && "+contains("alert-rules", "Kanäle"))
	if _, err := chromedp.RunResponse(p.ctx, chromedp.Click("#leave")); err != nil { // It returns to where the person came from.
		t.Fatal(err)
	}
	p.until(t, contains("failure", "Sitzung"))
	checkAccessible(t, p.ctx, "after the session")
	p.run(t, chromedp.Navigate(h.URL(string(stack.Edge))+"/portal/refused.html"))
	checkAccessible(t, p.ctx, "a link that can't be used")
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}

// addAlertRule adds a rule in the portal, changes it, pauses it, and compares each time with what the operation of customers
// returns; then it adds a second one and removes that.
func addAlertRule(t *testing.T, h *harness, p browserPage, organization string) {
	t.Helper()
	const name = "<b>budget</b>"
	customer := h.customer(t, organization, "ai", "alerts:rules:read")
	same := func(want object) {
		t.Helper()
		got := customer.get(t, alertsPath).fields(t, http.StatusOK, "rules")["rules"]
		wanted, err := json.Marshal([]object{want})
		if err != nil {
			t.Fatal(err)
		}
		have, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(wanted, &a) != nil || json.Unmarshal(have, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("the rules are %s, want %s", have, wanted)
		}
	}
	target := func(row int, channel, recipient string) []chromedp.Action {
		at := fmt.Sprintf(`document.querySelectorAll("#alert-editor .row")[%d]`, row)
		return []chromedp.Action{chromedp.Evaluate(fmt.Sprintf(`{
			const channel = %[1]s.querySelector("select"); channel.value = %[2]q; channel.dispatchEvent(new Event("change"));
			%[1]s.querySelector("input").value = %[3]q; }`, at, channel, recipient), nil)}
	}
	const submit = `#alert-editor button[type=submit]`
	p.visit(t, "alerts")
	p.run(t, chromedp.SendKeys("#alert-name", name), chromedp.Click(`#alert-editor input[value="switchyard.budget.threshold"]`),
		chromedp.SendKeys("#alert-percent", "80"), chromedp.SetValue("#alert-repeat", "1h"))
	for i, to := range [][2]string{{"in_app", "ann"}, {"web_push", ""}, {"email", "ann@example.com"}, {"webhook", "https://example.com/hook"}} {
		if i > 0 {
			p.run(t, chromedp.Click(`#alert-editor fieldset > button`))
		}
		p.run(t, target(i, to[0], to[1])...)
	}
	p.run(t, chromedp.Click(submit))
	p.until(t, contains("alert-rules", name)+" && "+contains("alert-rules", "percent = 80"))
	rule := object{
		"name": name, "types": []string{"switchyard.budget.threshold"}, "where": object{"percent": 80}, "repeat_after": "1h",
		"to": []object{
			{"channel": "in_app", "user_id": "ann"},
			{"channel": "web_push", "broadcast": true},
			{"channel": "email", "email": "ann@example.com"},
			{"channel": "webhook", "url": "https://example.com/hook"},
		},
	}
	same(rule)

	p.run(t, chromedp.Click(`#alert-rules .actions button`))
	p.until(t, `document.getElementById("alert-percent").value === "80" && document.activeElement.id === "alert-name"`)
	p.run(t, chromedp.SetValue("#alert-percent", "50"), chromedp.Click(`#alert-editor input[value="switchyard.quota.reached"]`), chromedp.Click(submit))
	p.until(t, contains("alert-rules", "percent = 50"))
	rule["where"], rule["types"] = object{"percent": 50}, []string{"switchyard.budget.threshold", "switchyard.quota.reached"}
	same(rule)

	p.run(t, chromedp.Click("#alert-active-0"))
	p.until(t, contains("alert-rules", "Paused")+` && document.activeElement.id === "alert-active-0"`)
	rule["enabled"] = false
	same(rule)

	p.run(t, chromedp.SendKeys("#alert-name", "second"), chromedp.Click(`#alert-editor input[value="switchyard.approval.pending"]`), chromedp.Click(submit))
	p.until(t, contains("alert-rules", "second"))
	p.run(t, chromedp.Evaluate(`window.confirm = () => true; document.querySelector('#alert-rules [aria-label="Delete: second"]').click()`, nil))
	p.until(t, "!"+contains("alert-rules", "second"))
	same(rule)
}

// A session reaches nothing of another organization, owner or user, whatever its requests name.
func TestPortalIsolation(t *testing.T) {
	t.Parallel()
	h := use(t)
	const api = "/portal/api/product/v1"
	organization, receiver := unique("org"), h.receiver()
	scopes := []string{"webhooks:*", "notifications:inbox:read", "notifications:inbox:write"}
	ann := h.inPortal(t, h.portalLink(t, organization, "owner-a", "ann", scopes...))
	others := map[string]client{
		"another owner and user": h.inPortal(t, h.portalLink(t, organization, "owner-b", "bob", scopes...)),
		"another organization":   h.inPortal(t, h.portalLink(t, unique("org"), "owner-a", "ann", scopes...)),
	}
	var made struct {
		Endpoint string `json:"endpoint_id"`
		Delivery string `json:"delivery_id"`
	}
	ann.post(t, api+"/webhooks/endpoints", object{"url": receiver.url(), "event_types": []string{"*"}}).into(t, http.StatusCreated, &made)
	ann.post(t, api+"/webhooks/deliveries", receiver.deliver()).into(t, http.StatusAccepted, &made)
	endpoint, delivery := made.Endpoint, made.Delivery
	h.customer(t, organization, "notifications", "write").post(t, "/product/v1/notifications/send", object{
		"channels": []string{"in_app"}, "message": "for ann", "target": object{"user_id": "ann"},
	}).want(t, http.StatusAccepted)
	var inbox struct{ Notifications []struct{ ID string } }
	ann.get(t, api+"/notifications/inbox").into(t, http.StatusOK, &inbox)
	if len(inbox.Notifications) != 1 {
		t.Fatalf("the inbox has %d records, want 1", len(inbox.Notifications))
	}
	ann.get(t, api+"/webhooks/deliveries/"+delivery+"?owner_id=owner-b").want(t, http.StatusOK) // as itself
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/webhooks/endpoints/" + endpoint, "/webhooks/deliveries/" + delivery, "/webhooks/deliveries/" + delivery + "/attempts"} {
				other.with("X-Owner-Id", "owner-a", "X-Organization-Id", organization).get(t, api+path+"?owner_id=owner-a").want(t, http.StatusNotFound)
			}
			other.post(t, api+"/webhooks/deliveries/"+delivery+"/resend", object{}).want(t, http.StatusNotFound)
			other.do(t, http.MethodDelete, api+"/webhooks/endpoints/"+endpoint, nil).want(t, http.StatusNotFound)
			other.do(t, http.MethodPut, api+"/notifications/inbox/"+inbox.Notifications[0].ID+"/read", object{}).want(t, http.StatusNotFound)
			for path, list := range map[string]string{"/webhooks/endpoints?owner_id=owner-a": "endpoints", "/webhooks/deliveries?owner_id=owner-a": "deliveries", "/notifications/inbox?user_id=ann": "notifications"} {
				if all := other.get(t, api+path).fields(t, http.StatusOK, list)[list]; len(fmt.Sprint(all)) > len("[]") {
					t.Errorf("%s: %v, want none", path, all)
				}
			}
		})
	}
	bob := others["another owner and user"]
	for path, body := range map[string]object{
		"/webhooks/endpoints":  {"url": receiver.url(), "event_types": []string{"*"}, "owner_id": "owner-a"},
		"/webhooks/deliveries": receiver.deliver(object{"owner_id": "owner-a"}),
	} {
		bob.post(t, api+path, body).want(t, http.StatusBadRequest)
	}
	bob.do(t, http.MethodPut, api+"/notifications/inbox/read-all", object{"user_id": "ann"}).want(t, http.StatusBadRequest)
	bob.get(t, "/portal/api/keys").want(t, http.StatusForbidden)
	bob.with("X-Switchyard-Portal", "").post(t, api+"/webhooks/endpoints", object{}).want(t, http.StatusForbidden)
}
