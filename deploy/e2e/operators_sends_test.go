//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

// filter sets a field of a form that an operator narrows a list with, and sends the form.
func (p browserPage) filter(t *testing.T, field, value string) {
	t.Helper()
	p.run(t, chromedp.Evaluate(fmt.Sprintf(`(() => {
		const field = document.getElementById(%q);
		field.value = %q;
		field.form.requestSubmit();
	})()`, field, value), nil))
}

// An operator finds what failed, whichever organization's it is: a send with the errors of its channels and attempts, and
// the targets that deliveries wait for.
func TestOperatorsConsoleFindsFailures(t *testing.T) {
	h := use(t)
	organization, gone, broken := unique("org"), h.receiver(), h.receiver()
	gone.answers(t, object{"status": http.StatusGone})
	broken.answers(t, object{"status": http.StatusInternalServerError})
	id := h.send(t, organization, object{
		"channels": []string{"in_app", "webhook"}, "message": "m", "target": object{"user_id": "ann", "url": gone.url()},
	})
	if log := h.ended(t, organization, id); log.Status != "partial" {
		t.Fatalf("the send is %s: %s", log.Status, log.summary())
	}
	for range 5 {
		h.service(stack.WebhookEgress, organization).post(t, "/v1/deliveries", broken.deliver().with(object{"max_attempts": 1})).want(t, http.StatusAccepted)
	}
	p := h.signInToConsole(t)

	p.visit(t, "all-sends")
	shown := fmt.Sprintf(`document.querySelector('#sends button[aria-label$=%q]')`, id)
	p.filter(t, "send-organization", organization)
	p.until(t, shown+" !== null && "+contains("sends", "http_4xx"))
	for _, other := range []struct{ field, value, back string }{
		{"send-status", "delivered", ""},
		{"send-channel", "slack", ""},
		{"send-organization", unique("org"), organization},
		{"send-from", "2999-01-01T00:00", ""},
		{"send-until", "2001-01-01T00:00", ""},
	} {
		p.filter(t, other.field, other.value)
		p.until(t, shown+" === null")
		p.filter(t, other.field, other.back)
		p.until(t, shown+" !== null")
	}
	p.filter(t, "send-organization", "")
	p.filter(t, "send-status", "partial")
	p.until(t, shown+" !== null")
	checkAccessible(t, p.ctx, "all-sends")

	p.run(t, chromedp.Evaluate(shown+".click()", nil))
	p.until(t, fmt.Sprintf(`location.hash === "#/sends/%s"`, id)+" && "+contains("send", id)+" && "+contains("send", "webhook")+" && "+contains("attempts", "410"))
	checkAccessible(t, p.ctx, "a send")
	p.visit(t, "sends")
	p.until(t, shown+" !== null")
	checkAccessible(t, p.ctx, "sends")

	p.visit(t, "circuits")
	p.filter(t, "circuit-organization", organization)
	p.until(t, contains("circuits", organization)+" && "+contains("circuits", "open"))
	checkAccessible(t, p.ctx, "circuits")
	p.filter(t, "circuit-state", "closed")
	p.until(t, "!"+contains("circuits", organization))
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}

// The lists that the pages read are the operators' own: a service reads its organization's alone.
func TestSendsAndCircuitsOfEveryOrganization(t *testing.T) {
	t.Parallel()
	h := use(t)
	first, second, receiver := unique("org"), unique("org"), h.receiver()
	for _, organization := range []string{first, second} {
		h.send(t, organization, object{"channels": []string{"in_app"}, "message": "m"})
		h.service(stack.WebhookEgress, organization).post(t, "/v1/deliveries", receiver.deliver()).want(t, http.StatusAccepted)
	}
	for _, list := range []struct {
		service     stack.Service
		path, every string
	}{
		{stack.Notify, "/v1/notifications/sends", "?all_organizations=true&limit=200"},
		{stack.WebhookEgress, "/v1/circuits", "?all_organizations=true&limit=200"},
	} {
		for _, c := range []client{h.service(list.service, ""), h.service(list.service, first)} {
			if a := c.get(t, list.path+list.every).want(t, http.StatusForbidden); !strings.Contains(string(a.body), "all_organizations") {
				t.Errorf("%s: refused by %s", list.path, a.body)
			}
		}
		h.operator(list.service).with("X-Organization-Id", first).get(t, list.path+list.every).want(t, http.StatusBadRequest)
		h.customer(t, first, "webhooks", "read,write").get(t, "/product"+list.path).want(t, http.StatusNotFound)
		found := map[string]bool{}
		for cursor := ""; ; {
			var page struct {
				Sends, Circuits []struct {
					Organization string `json:"organization_id"`
				}
				Next string `json:"next_cursor"`
			}
			h.operator(list.service).get(t, list.path+list.every+"&cursor="+cursor).into(t, http.StatusOK, &page)
			for _, one := range append(page.Sends, page.Circuits...) {
				found[one.Organization] = true
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if !found[first] || !found[second] {
			t.Errorf("%s of all lacks an organization", list.path)
		}
		if own := h.service(list.service, first).get(t, list.path).want(t, http.StatusOK); !strings.Contains(string(own.body), first) || strings.Contains(string(own.body), second) {
			t.Errorf("%s of one organization: %s", list.path, own.body)
		}
	}
}
