//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// threeGateways has three replicas that tell of the same things.
var threeGateways = plan{name: "three-gateways", replicas: map[stack.Service]int{stack.Gateway: 3}}

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
		if e.SpecVersion != "1.0" || e.ID == "" || e.Source != "/switchyard/gateway" || e.Time == "" || e.ContentType != "application/json" {
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
// told once for each threshold; so is an approval, and a run that is used up.
func TestHouseEventsOverReplicas(t *testing.T) {
	h := threeGateways.start(t)
	organization, to := unique("org"), h.receiver()
	to.answers(t, object{"status": 204})
	to.subscribe(t, h.service(stack.WebhookEgress, organization), []string{"switchyard.*"})

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
			for i := range len(gateways) {
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
	for _, member := range []string{string(stack.WebhookEgress), string(secondGateway)} {
		if err := h.Restart(t.Context(), member); err != nil {
			t.Fatal(err)
		}
	}
	gateways[0].post(t, approvalsPath+"/"+ref+"/approve", object{"decided_by": "ada"}).want(t, http.StatusOK)
	to.awaitEvents(t,
		"switchyard.budget.threshold organization/"+organization+" 50", "switchyard.budget.threshold organization/"+organization+" 80",
		"switchyard.approval.pending approval/"+ref, "switchyard.approval.decided approval/"+ref, "switchyard.run.exhausted run/"+run)

	// A gateway that starts again tells nothing twice, and an organization reads its own events only.
	if err := h.Restart(t.Context(), string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
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
