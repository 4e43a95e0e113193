//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

var journeyVendor = addVendor(vendor{name: "journey", dialect: "openai", model: "journey"})

// journeyTokens are the tokens in and out of each call. Nine calls of 0.36 cents spend 81 % of the ceiling.
const (
	journeyTokens  = 200
	journeyCeiling = 4.0
)

// journey is a customer's: a product key, and the portal in a browser.
type journey struct {
	harness      *harness
	organization string
	customer     client // calls with the key
	receiver     receiver
	secret       string // of the endpoint, as the page has shown it
	page         browserPage
	device       subscriber
}

// A customer with one product key and a link to the portal subscribes an endpoint and a browser, sees a delivery fail, mends
// the receiver and has it sent again, sees what each team spends, and is warned when 80 % of the budget is spent.
func TestCustomerJourney(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	j := journey{
		harness: h, organization: organization, receiver: h.receiver(), device: h.browser(t, organization),
		customer: h.customer(t, organization, "platform", "ai:*,webhooks:*,alerts:*"),
	}
	j.openPortal(t)
	j.subscribe(t)
	j.seeItFailAndResend(t)
	j.registerDevice(t)
	j.askToBeWarned(t)
	for i := range 9 {
		team := []string{"web", "shop"}[i%2]
		j.customer.with("X-Switchyard-Tags", "team="+team).post(t, chatRoute, ask(journeyVendor.model, "hello", object{"max_tokens": journeyTokens})).want(t, http.StatusOK)
	}
	j.compareSpend(t)
	j.checkWarnings(t)
	if len(*j.page.faults) > 0 {
		t.Errorf("the page failed: %v", *j.page.faults)
	}
}

// openPortal opens a link in a browser whose push subscription is one of the fake push service.
func (j *journey) openPortal(t *testing.T) {
	t.Helper()
	link := j.harness.portalLink(t, j.organization, "", "ann", "webhooks:*", "ai:usage:read", "notifications:*")
	key := j.harness.service(stack.Notify, j.organization).get(t, "/v1/push/vapid-public-key").fields(t, http.StatusOK, "public_key")
	made, err := json.Marshal(object{"endpoint": j.device.Endpoint, "expirationTime": nil, "keys": j.device.Keys})
	if err != nil {
		t.Fatal(err)
	}
	ctx := chrome(t)
	j.page = browserPage{ctx, faultsOf(ctx)}
	j.page.run(t,
		browser.GrantPermissions([]browser.PermissionType{browser.PermissionTypeNotifications}).WithOrigin(j.harness.URL(string(stack.Edge))),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(fmt.Sprintf(stubSubscribe, made, key["public_key"])).Do(ctx)
			return err
		}),
		chromedp.Navigate(link))
	j.page.until(t, contains("organization", j.organization)+` && document.getElementById("content").dataset.ready === "true"`)
}

// subscribe adds an endpoint in the page, which shows its secret once.
func (j *journey) subscribe(t *testing.T) {
	t.Helper()
	j.page.run(t, chromedp.SendKeys("#endpoint-url", j.receiver.url()), chromedp.SetValue("#endpoint-types", "order.paid, switchyard.budget.*"),
		chromedp.Click(`#content form button[type=submit]`))
	j.page.until(t, contains("endpoints", j.receiver.url())+` && document.getElementById("secret-text")?.value.startsWith("whsec_")`)
	j.page.until(t, `document.activeElement.id === "secret-text"`)
	j.page.run(t, chromedp.Value("#secret-text", &j.secret))
	knownSecrets.add("an endpoint's secret of the portal", j.secret)
}

// seeItFailAndResend has the receiver fail, reads the attempts in the page, and sends again once the receiver works. The
// page follows the delivery by itself.
func (j *journey) seeItFailAndResend(t *testing.T) {
	t.Helper()
	broken := object{"status": http.StatusInternalServerError, "body": "out of order"}
	j.receiver.answers(t, broken, broken, object{"status": http.StatusOK})
	event := j.emit(t)
	j.page.visit(t, "deliveries")
	j.page.until(t, contains("deliveries", "order.paid"))
	j.page.visit(t, "deliveries/"+event)
	j.page.until(t, contains("delivery", "failed")+" && "+contains("attempts", "out of order")+` && document.querySelectorAll("#attempts tbody tr").length === 2`)
	if n := len(j.receiver.arrivals(t)); n != 2 {
		t.Fatalf("%d arrivals before the resend, want the two attempts", n)
	}
	j.page.run(t, chromedp.Click("#resend"))
	j.page.until(t, `document.activeElement !== document.body`) // Who uses the keyboard stays where the button was.
	j.page.until(t, contains("delivery", "delivered")+` && document.querySelectorAll("#attempts tbody tr").length === 3`)
	arrived := j.receiver.arrivals(t)
	if len(arrived) != 3 {
		t.Fatalf("%d arrivals, want two attempts and the one sent again", len(arrived))
	}
	for _, a := range arrived {
		if id := a.Headers.Get("X-Webhook-Id"); id != event {
			t.Errorf("the delivery's id is %q, want %q", id, event)
		}
		verifyBody(t, j.secret, a)
		verifyStandard(t, j.secret, a)
	}
}

// emit emits an event with two attempts and returns the id of its delivery.
func (j *journey) emit(t *testing.T) string {
	t.Helper()
	var event eventAnswer
	j.customer.post(t, "/product/v1/webhooks/events", object{"event_type": "order.paid", "payload": object{"order": 7}, "max_attempts": 2}).into(t, http.StatusAccepted, &event)
	if len(event.Deliveries) != 1 {
		t.Fatalf("the event has %d deliveries, want one", len(event.Deliveries))
	}
	return event.Deliveries[0].Delivery
}

func (j *journey) registerDevice(t *testing.T) {
	t.Helper()
	j.page.visit(t, "devices")
	j.page.run(t, chromedp.Click("#register"))
	j.page.until(t, contains("devices", j.harness.FakeURL(stack.FakePush)))
}

// askToBeWarned sets a rule with the key, and as an operator the budget.
func (j *journey) askToBeWarned(t *testing.T) {
	t.Helper()
	j.customer.do(t, http.MethodPut, alertsPath, object{"rules": []object{{
		"name": "budget", "types": []string{"switchyard.budget.*"}, "where": object{"percent": 80},
		"to": []object{{"channel": "web_push", "user_id": "ann"}, {"channel": "in_app", "user_id": "ann"}},
	}}}).want(t, http.StatusOK)
	j.harness.operator(stack.Gateway).do(t, http.MethodPut, "/v1/admin/orgs/"+j.organization+"/budget",
		object{"budget_ceiling_cents": journeyCeiling, "thresholds": []int{80}}).want(t, http.StatusOK)
	j.harness.script(t, stack.FakeProvider, rule{Match: journeyVendor.match(), Action: object{
		"answer": object{"text": "hello", "usage": object{"input": journeyTokens, "output": journeyTokens}},
	}})
}

// compareSpend compares the costs by team of the page and of the API with those of the calls.
func (j *journey) compareSpend(t *testing.T) {
	t.Helper()
	want := map[string]string{"web": dollars(5 * cents(journeyTokens, journeyTokens)), "shop": dollars(4 * cents(journeyTokens, journeyTokens))}
	var spend struct {
		Rows []struct {
			Groups map[string]string
			Sums   struct {
				Cents json.Number `json:"cost_cents"`
			}
		}
	}
	query := url.Values{"from": {time.Now().UTC().AddDate(0, 0, -1).Format("2006-01-02T00:00:00Z")}, "interval": {"day"}, "group_by": {"tag.team"}}
	j.customer.get(t, "/product/v1/ai/spend?"+query.Encode()).into(t, http.StatusOK, &spend)
	sums := map[string]float64{}
	for _, row := range spend.Rows {
		sum, err := row.Sums.Cents.Float64()
		if err != nil {
			t.Fatal(err)
		}
		sums[row.Groups["tag.team"]] += sum
	}
	answered := map[string]string{}
	for team, sum := range sums {
		answered[team] = dollars(sum)
	}
	if !maps.Equal(answered, want) {
		t.Errorf("the API answers the costs %v, want %v", answered, want)
	}

	j.page.visit(t, "spend")
	j.page.until(t, `document.getElementById("spend-tag").offsetParent === null`) // It has no box before tags are chosen.
	j.page.run(t, chromedp.SetValue("#spend-by", "tag"), chromedp.Evaluate(`document.getElementById("spend-by").dispatchEvent(new Event("change"))`, nil),
		chromedp.SendKeys("#spend-tag", "team"), chromedp.Click(`#content form button[type=submit]`))
	j.page.until(t, contains("spend", "web")+" && "+contains("spend", "shop"))
	var shown [][2]string
	j.page.run(t, chromedp.Evaluate(`[...document.querySelectorAll("#spend table:last-of-type tbody tr")].map((row) => [...row.cells].slice(0, 2).map((c) => c.textContent))`, &shown))
	seen := map[string]string{}
	for _, row := range shown {
		seen[row[0]] = row[1]
	}
	if !maps.Equal(seen, want) {
		t.Errorf("the page shows the costs %v, want %v", seen, want)
	}
}

// dollars returns cents as the page shows them.
func dollars(cents float64) string {
	text := strings.TrimRight(strconv.FormatFloat(cents/100, 'f', 6, 64), "0")
	for strings.IndexByte(text, '.') > len(text)-3 {
		text += "0"
	}
	return "$" + text
}

// checkWarnings waits for the warning by webhook, by push and in the inbox's page.
func (j *journey) checkWarnings(t *testing.T) {
	t.Helper()
	title := "80 % of a budget is spent"
	waitFor(t, waitTimeout, "the warning by webhook", func() error {
		if !slices.ContainsFunc(j.receiver.arrivals(t), isCloudEvent) {
			return fmt.Errorf("none of the arrivals is a CloudEvent")
		}
		return nil
	})
	arrived := j.receiver.arrivals(t)
	warning := arrived[slices.IndexFunc(arrived, isCloudEvent)]
	verifyBody(t, j.secret, warning)
	verifyStandard(t, j.secret, warning)
	var event cloudEvent
	if err := json.Unmarshal([]byte(warning.Body), &event); err != nil {
		t.Fatalf("the warning by webhook: %v: %s", err, warning.Body)
	}
	if got, want := event.name(), "switchyard.budget.threshold organization/"+j.organization+" 80"; got != want || event.SpecVersion != "1.0" || event.ID == "" || event.Source != "/switchyard/gateway" {
		t.Errorf("the warning by webhook is %s of %+v, want %s", got, event, want)
	}
	if got := warning.Headers.Get("X-Webhook-Event"); got != event.Type {
		t.Errorf("X-Webhook-Event is %q, want %q", got, event.Type)
	}

	waitFor(t, waitTimeout, "the warning by push", func() error {
		if n := len(j.harness.pushed(t, j.device)); n != 1 {
			return fmt.Errorf("%d pushes arrived, want one", n)
		}
		return nil
	})
	if content := j.harness.pushed(t, j.device)[0].content(t); !strings.HasPrefix(content.Title, title) {
		t.Errorf("the push says %q, want %q", content.Title, title)
	}

	j.page.visit(t, "inbox")
	j.page.until(t, contains("inbox", title)+" && "+contains("unread", "1"))
}

func isCloudEvent(a arrival) bool {
	return a.Headers.Get("Content-Type") == "application/cloudevents+json"
}
