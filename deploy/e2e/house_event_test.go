//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// threeGateways has three replicas that tell of the same things, and two of control that tell people.
var threeGateways = plan{
	name: "three-gateways", replicas: map[stack.Service]int{stack.Gateway: 3, stack.Control: 2}, fakes: []stack.Fake{stack.FakePush},
	settings: settings{stack.Notify: {"NOTIFY_WEB_PUSH_ENABLED=true"}},
}

const alertsPath = "/product/v1/alerts/rules"

// cloudEvent is an event of Switchyard as its receivers read it.
type cloudEvent struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject"`
	Time        string `json:"time"`
	ContentType string `json:"datacontenttype"`
	Data        object `json:"data"`
}

// name returns what the event is about, in short.
func (e cloudEvent) name() string {
	if percent := e.Data["percent"]; percent != nil {
		return fmt.Sprint(e.Type, " ", e.Subject, " ", percent)
	}
	return e.Type + " " + e.Subject
}

// events returns the structured CloudEvents that arrived, by what they are about: the ids of each, without repeats.
func (r receiver) events(t *testing.T) map[string][]string {
	t.Helper()
	ids := map[string][]string{}
	for _, a := range r.arrivals(t) {
		if got := a.Headers.Get("Content-Type"); got != "application/cloudevents+json" {
			t.Errorf("an event came as %s", got)
		}
		var e cloudEvent
		if err := json.Unmarshal([]byte(a.Body), &e); err != nil {
			t.Fatalf("body %s: %v", a.Body, err)
		}
		if e.SpecVersion != "1.0" || e.ID == "" || !strings.HasPrefix(e.Source, "/switchyard/") || e.Time == "" || e.ContentType != "application/json" {
			t.Errorf("attributes %+v", e)
		}
		if !slices.Contains(ids[e.name()], e.ID) {
			ids[e.name()] = append(ids[e.name()], e.ID)
		}
	}
	return ids
}

// awaitEvents waits until the receiver has got these events, and checks that each has one id, and that there are no others.
func (r receiver) awaitEvents(t *testing.T, want ...string) {
	t.Helper()
	waitFor(t, waitTimeout, "the events", func() error {
		if got := r.events(t); len(got) < len(want) {
			return fmt.Errorf("the receiver got %v", got)
		}
		return nil
	})
	got := r.events(t)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(slices.Values(want))) {
		t.Errorf("the receiver got %v, want %v", names, want)
	}
	for name, ids := range got {
		if len(ids) != 1 {
			t.Errorf("%s came with the ids %v, want one", name, ids)
		}
	}
}

// A budget that crosses thresholds over three gateways, of which one is killed, and while webhook-egress is away, is
// told once for each threshold; so is an approval, and a run that is used up. People are told by alert rules, once.
func TestHouseEventsOverReplicas(t *testing.T) {
	t.Parallel()
	h := threeGateways.start(t)
	organization, to := unique("org"), h.receiver()
	to.answers(t, object{"status": 204})
	to.subscribe(t, h.service(stack.WebhookEgress, organization), []string{"switchyard.*"})

	browser := h.browser(t, organization)
	h.register(t, organization, browser, object{"user_id": "ann"})
	customer := h.customer(t, organization, "webhooks", "read,write")
	customer.do(t, http.MethodPut, alertsPath, object{"rules": []object{
		{"name": "budget", "types": []string{"switchyard.budget.*"}, "where": object{"percent": 80}, "repeat_after": "24h", "to": []object{
			{"channel": "in_app", "user_id": "ann"}, {"channel": "web_push", "user_id": "ann"},
		}},
		{"name": "approvals", "types": []string{"switchyard.approval.pending"}, "to": []object{{"channel": "in_app", "user_id": "ann"}}},
		{"name": "off", "types": []string{"switchyard.*"}, "enabled": false, "to": []object{{"channel": "in_app", "user_id": "ann"}}},
	}}).want(t, http.StatusOK)

	third := h.service(stack.Gateway, organization)
	third.base = h.URL(string(stack.Gateway + "-3"))
	gateways := append(h.gateways(organization), third)
	operator := h.operator(stack.Gateway)
	run := unique("run")
	gateways[1].with("X-Run-Id", run).post(t, "/v1/runs/mint", object{"max_calls": 1}).want(t, http.StatusCreated)
	gateways[1].with("X-Run-Id", run).post(t, chatPath, ask("sandbox", "hello")).want(t, http.StatusOK)
	const ceiling = 2.0 // cents: many calls, of which each has room for its worst case
	operator.do(t, http.MethodPut, "/v1/admin/orgs/"+organization+"/budget", object{"budget_ceiling_cents": ceiling, "thresholds": []int{80, 50}}).want(t, http.StatusOK)
	// spend calls until a percentage of the ceiling is spent.
	spend := func(percent float64, gateways ...client) {
		t.Helper()
		for spent := 0.0; spent < ceiling*percent/100 && !t.Failed(); {
			var calls sync.WaitGroup
			for i := range gateways {
				calls.Go(func() {
					if a := gateways[i%len(gateways)].post(t, chatPath, ask(guarded.model, "hello", object{"max_tokens": 20})); a.status != http.StatusOK {
						t.Errorf("answered %d: %s", a.status, shorten(a.body))
					}
				})
			}
			calls.Wait()
			spent, _ = operator.get(t, "/v1/admin/orgs/"+organization+"/spend").fields(t, http.StatusOK, "spent_cents")["spent_cents"].(float64)
		}
	}
	if err := h.Kill(string(stack.WebhookEgress)); err != nil {
		t.Fatal(err)
	}
	spend(60, gateways...)
	if err := h.Kill(string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	gateways = []client{gateways[0], gateways[2]}
	spend(82, gateways...)
	made := gateways[0].post(t, approvalsPath, object{"tool": guardedTool, "requested_by": "agent", "arguments": object{}}).fields(t, http.StatusCreated, "ref")
	ref, _ := made["ref"].(string)
	if err := h.Kill(string(stack.Control)); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{string(stack.WebhookEgress), string(secondGateway), string(stack.Control)} {
		if err := h.Restart(t.Context(), member); err != nil {
			t.Fatal(err)
		}
	}
	gateways[0].post(t, approvalsPath+"/"+ref+"/approve", object{"decided_by": "ada"}).want(t, http.StatusOK)
	to.awaitEvents(t,
		"switchyard.budget.threshold organization/"+organization+" 50", "switchyard.budget.threshold organization/"+organization+" 80",
		"switchyard.approval.pending approval/"+ref, "switchyard.approval.decided approval/"+ref, "switchyard.run.exhausted run/"+run)

	h.awaitNotices(t, organization, "80 % of a budget is spent (organization "+organization+")", "An approval waits: "+guardedTool)
	waitFor(t, waitTimeout, "the push", func() error {
		if got := h.pushed(t, browser); len(got) != 1 {
			return fmt.Errorf("%d pushes arrived, want one", len(got))
		}
		return nil
	})

	// A gateway that starts again tells nothing twice, and an organization reads its own events only.
	if err := h.Restart(t.Context(), string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	h.awaitNotices(t, organization, "80 % of a budget is spent (organization "+organization+")", "An approval waits: "+guardedTool)
	var page struct {
		Events []struct {
			Organization string     `json:"organization_id"`
			Event        cloudEvent `json:"cloud_event"`
		} `json:"events"`
	}
	h.service(stack.WebhookEgress, organization).get(t, "/v1/house/events?limit=200").into(t, http.StatusOK, &page)
	if len(page.Events) != 5 {
		t.Errorf("%d events are listed, want 5: %+v", len(page.Events), page.Events)
	}
	h.service(stack.WebhookEgress, unique("org")).get(t, "/v1/house/events").into(t, http.StatusOK, &page)
	if len(page.Events) != 0 {
		t.Errorf("another organization reads %+v", page.Events)
	}
}

// awaitNotices waits until ann's inbox has records of these titles, and checks that it has no others.
func (h *harness) awaitNotices(t *testing.T, organization string, want ...string) {
	t.Helper()
	slices.Sort(want)
	waitFor(t, waitTimeout, "the records", func() error {
		var got []string
		for _, r := range h.inbox(t, organization, "ann").Records {
			got = append(got, r.Subject)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("ann is told %q, want %q", got, want)
		}
		return nil
	})
}

// People are told of an endpoint that is gone, by the rules of its organization only, and not by what is refused.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	webhooks, to := h.service(stack.WebhookEgress, organization), h.receiver()
	customer, other := h.customer(t, organization, "webhooks", "webhooks:*,alerts:*"), h.customer(t, unique("org"), "webhooks", "alerts:rules:read")
	rule := object{"name": "endpoints", "types": []string{"switchyard.endpoint.*"}, "to": []object{
		{"channel": "slack"}, // of which this stack has no secret
		{"channel": "in_app", "user_id": "ann"},
	}}
	customer.do(t, http.MethodPut, alertsPath, object{"rules": []object{rule}}).want(t, http.StatusOK)
	customer.do(t, http.MethodPut, alertsPath, object{"rules": []object{rule, rule}}).refused(t, http.StatusBadRequest, "invalid_request", "rules[1].name")
	other.do(t, http.MethodPut, alertsPath, object{"rules": []object{}}).refused(t, http.StatusForbidden, "permission_denied", "alerts:rules:write")
	if rules := other.get(t, alertsPath).fields(t, http.StatusOK, "rules")["rules"]; fmt.Sprint(rules) != "[]" {
		t.Errorf("another organization reads %v", rules)
	}
	to.answers(t, object{"status": 410})
	e := to.subscribe(t, webhooks, []string{"a"})
	webhooks.emit(t, "a")
	h.awaitNotices(t, organization, "A webhook endpoint is switched off")
	operator := h.operator(stack.Edge)
	operator.get(t, "/admin/v1/alerts/rules/"+organization).fields(t, http.StatusOK, "rules")
	operator.do(t, http.MethodDelete, "/admin/v1/alerts/rules/"+organization, nil).want(t, http.StatusNoContent)
	webhooks.do(t, http.MethodPatch, endpointPath+"/"+e.ID, object{"active": true}).want(t, http.StatusOK)
	if d := ended(t, webhooks, webhooks.emit(t, "a").to(t, e.ID)); d.Status != "failed" {
		t.Errorf("delivery %+v", d)
	}
	waitFor(t, waitTimeout, "the second event", func() error {
		var page struct {
			Events []object `json:"events"`
		}
		webhooks.get(t, "/v1/house/events").into(t, http.StatusOK, &page)
		if len(page.Events) < 4 {
			return fmt.Errorf("%d events", len(page.Events))
		}
		return nil
	})
	h.awaitNotices(t, organization, "A webhook endpoint is switched off")
}
