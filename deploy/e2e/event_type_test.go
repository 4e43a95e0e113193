//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

const eventTypePath = "/product/v1/webhooks/event-types"

// A customer registers a type, whose schema then refuses payloads or warns of them, over the edge; the
// service's own face has the same rules.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, receiver := unique("org"), h.receiver()
	customer := h.customer(t, organization, "webhooks", "read,write")
	customer.post(t, "/product/v1/webhooks/endpoints", object{"url": receiver.url(), "event_types": []string{"*"}}).want(t, http.StatusCreated)
	at := eventTypePath + "/order.paid:v2%2Feu"
	kind := object{
		"description": "An order is paid.", "examples": []object{{"order": 7}},
		"schema": object{"type": "object", "required": []string{"order"}, "properties": object{"order": object{"type": "integer"}}, "additionalProperties": false},
	}
	customer.do(t, http.MethodPut, at, kind).want(t, http.StatusCreated)
	emit := func(key string, payload object) answer {
		return customer.post(t, "/product/v1/webhooks/events", object{"event_type": "order.paid:v2/eu", "payload": payload, "idempotency_key": key})
	}
	emit("a", object{"order": 7}).want(t, http.StatusAccepted)
	refusal := emit("b", object{"order": "sk-secret-text", "more": 1})
	refusal.refused(t, http.StatusBadRequest, "invalid_request",
		"payload: breaks the schema of the event type: /more: additionalProperties: must be absent: the schema does not know it; /order: type: must be integer")
	places := `[{"pointer":"/more","rule":"additionalProperties: must be absent: the schema does not know it"},{"pointer":"/order","rule":"type: must be integer"}]`
	if got := gjson.GetBytes(refusal.body, "violations").Raw; got != places {
		t.Errorf("violations %s, want %s", got, places)
	}
	if strings.Contains(string(refusal.body), "sk-secret-text") {
		t.Error("the refusal has a value of the payload")
	}
	internal := h.service(stack.WebhookEgress, organization)
	internal.post(t, "/v1/events", object{"event_type": "order.paid:v2/eu", "payload": object{}}).want(t, http.StatusBadRequest)
	emit("a", object{"order": "x"}).want(t, http.StatusOK) // A repeat has the result of its first event.

	customer.do(t, http.MethodPut, at, kind.with(object{"validation": "warn"})).want(t, http.StatusOK)
	warned := emit("b", object{"order": 1.5}).want(t, http.StatusAccepted)
	if got := gjson.GetBytes(warned.body, "warnings").Raw; got != `[{"pointer":"/order","rule":"type: must be integer"}]` {
		t.Errorf("warnings %s", got)
	}
	customer.do(t, http.MethodPut, at, kind.with(object{"examples": []object{{"order": 1}, {}}})).
		refused(t, http.StatusBadRequest, "invalid_request", "examples[1]: breaks the schema: required: must have the property \"order\"")
	customer.do(t, http.MethodDelete, at, nil).want(t, http.StatusNoContent)
	emit("c", object{"order": "any"}).want(t, http.StatusAccepted)
	waitFor(t, waitTimeout, "three deliveries", func() error {
		if n := len(receiver.arrivals(t)); n != 3 {
			return fmt.Errorf("the receiver got %d", n)
		}
		return nil
	})

	list := customer.get(t, eventTypePath+"?limit=200").want(t, http.StatusOK)
	if n := gjson.GetBytes(list.body, `event_types.#(origin=="switchyard")#|#`).Int(); n < 15 {
		t.Errorf("%d types of Switchyard: %s", n, shorten(list.body))
	}
	house := customer.get(t, eventTypePath+"/switchyard.budget.threshold").want(t, http.StatusOK)
	if gjson.GetBytes(house.body, "schema.title").Str != "switchyard.budget.threshold" || !gjson.GetBytes(house.body, "examples.0.percent").Exists() {
		t.Errorf("type %s", shorten(house.body))
	}
	customer.do(t, http.MethodPut, eventTypePath+"/switchyard.budget.threshold", object{}).want(t, http.StatusBadRequest)
	h.customer(t, organization, "webhooks", "webhooks:event_types:read").do(t, http.MethodPut, at, kind).want(t, http.StatusForbidden)
	h.customer(t, organization, "webhooks", "webhooks:event_types:write").do(t, http.MethodPut, at, kind).want(t, http.StatusCreated)
}
