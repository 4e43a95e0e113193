//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// awaitStatus waits until an endpoint has a status.
func (h *harness) awaitStatus(t *testing.T, organization, endpoint, want string) {
	t.Helper()
	waitFor(t, waitTimeout, "the endpoint's status "+want, func() error {
		var found struct {
			Status string  `json:"status"`
			Since  *string `json:"failing_since"`
		}
		h.service(stack.WebhookEgress, organization).get(t, endpointPath+"/"+endpoint).into(t, http.StatusOK, &found)
		if found.Status != want || (found.Since != nil) != (want == "failing") {
			return fmt.Errorf("it is %q, failing since %v", found.Status, found.Since)
		}
		return nil
	})
}

// arrive waits until a number of deliveries have arrived.
func (r receiver) arrive(t *testing.T, want int) {
	t.Helper()
	waitFor(t, waitTimeout, fmt.Sprint(want, " deliveries at ", r.path), func() error {
		if got := len(r.arrivals(t)); got < want {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

// An endpoint that answers each delivery with 500 doesn't hold back another endpoint of its host, however long its
// circuit is open. The other endpoint gets each event, and the failing one is shown as failing.
func TestFailingEndpointStopsNoOther(t *testing.T) {
	t.Parallel()
	h := pausing.get(t)
	organization, bad, good := unique("org"), h.receiver(), h.receiver()
	webhooks := h.service(stack.WebhookEgress, organization)
	bad.answers(t, object{"status": http.StatusInternalServerError})
	good.answers(t, object{"status": http.StatusOK})
	failing := bad.subscribe(t, webhooks, []string{"o.*"})
	healthy := good.subscribe(t, webhooks, []string{"o.*"})
	const events = 30
	for n := range events {
		webhooks.emit(t, "o.made")
		good.arrive(t, n+1)
	}
	h.awaitStatus(t, organization, failing.ID, "failing")
	h.awaitStatus(t, organization, healthy.ID, "active")
	var page struct {
		Circuits []struct {
			State        string `json:"state"`
			HostState    string `json:"host_state"`
			WaitingFlows int    `json:"waiting_flows"`
			Flows        []struct {
				Endpoint string `json:"endpoint_id"`
				State    string `json:"state"`
			} `json:"flows"`
		} `json:"circuits"`
	}
	waitFor(t, waitTimeout, "the circuit of the endpoint", func() error {
		page.Circuits = nil
		webhooks.get(t, "/v1/circuits?state=open").into(t, http.StatusOK, &page)
		if len(page.Circuits) != 1 || page.Circuits[0].HostState != "closed" || len(page.Circuits[0].Flows) != 1 ||
			page.Circuits[0].Flows[0].Endpoint != failing.ID || page.Circuits[0].WaitingFlows != 1 {
			return fmt.Errorf("circuits %+v", page.Circuits)
		}
		return nil
	})
	if n := len(bad.arrivals(t)); n >= events {
		t.Errorf("the endpoint whose circuit is open got %d attempts", n)
	}
}

// Paths that fail don't hold back other paths of their host, whether they answer with errors or break the connection.
func TestFailingPathsStopNoOther(t *testing.T) {
	t.Parallel()
	h := pausing.get(t)
	for name, action := range map[string]object{
		"answer 500": {"status": http.StatusInternalServerError},
		"answer 429": {"status": http.StatusTooManyRequests, "retry_after": "3600"},
		"drop":       {"drop": true},
	} {
		t.Run(name, func(t *testing.T) {
			organization, good, other := unique("org"), h.receiver(), h.receiver()
			webhooks := h.service(stack.WebhookEgress, organization)
			deliver := func(to receiver) {
				webhooks.post(t, deliveryPath, to.deliver()).want(t, http.StatusAccepted)
			}
			deliver(good)
			good.arrive(t, 1)
			var bad []receiver
			for range 3 {
				r := h.receiver()
				r.answers(t, action)
				bad = append(bad, r)
			}
			for n := range 20 {
				for _, r := range bad {
					deliver(r)
				}
				deliver(good)
				deliver(other)
				good.arrive(t, n+2)
				other.arrive(t, n+1)
			}
		})
	}
}

// A Slack URL that answers with errors doesn't hold back other URLs of Slack's host.
func TestFailingSlackURLStopsNoOther(t *testing.T) {
	t.Parallel()
	h := pausing.get(t)
	organization := unique("org")
	bad, path := h.hook()
	good, _ := h.hook()
	h.script(t, stack.FakeSlack, rule{Match: object{"path": path}, Action: object{"status": http.StatusInternalServerError}})
	send := func(url string) string {
		return h.send(t, organization, object{"channels": []string{"slack"}, "message": "m", "target": object{"webhook_url": url}})
	}
	for range 10 {
		send(bad)
		if log := h.ended(t, organization, send(good)); log.Status != "delivered" {
			t.Fatalf("the other URL's message: %+v", log)
		}
	}
}
