//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/deploy/contract"
	"switchyard.dev/deploy/dev/stack"
)

// ownedBy is how an owner's caller calls an operation of webhook-egress, and the answer that the test expects.
type ownedBy struct {
	// resource is the kind of the resource in the path, which has another owner or none. body is the call's.
	resource string
	body     object
	// status is the expected status: 404 if the call names a resource, 403 if it concerns the whole organization.
	status int
	// list is the answer's field that must hold nothing of others; empty if there is none.
	list string
}

// owned has a row for each operation of the contract, by method.
var owned = map[string]ownedBy{
	"EndpointService.RegisterEndpoint":     {body: object{"url": "http://127.0.0.1:1/", "event_types": []string{"x"}, "owner_id": "other"}, status: 400},
	"EndpointService.ListEndpoints":        {status: 200, list: "endpoints"},
	"EndpointService.GetEndpoint":          {resource: "endpoint", status: 404},
	"EndpointService.UpdateEndpoint":       {resource: "endpoint", body: object{"description": "mine"}, status: 404},
	"EndpointService.RotateEndpointSecret": {resource: "endpoint", body: object{}, status: 404},
	"EndpointService.DeleteEndpoint":       {resource: "endpoint", status: 404},
	"EndpointService.TestEndpoint":         {resource: "endpoint", body: object{}, status: 404},
	"DeliveryService.Enqueue":              {body: object{"url": "http://127.0.0.1:1/", "event_type": "x", "payload": object{}, "owner_id": "other"}, status: 400},
	"DeliveryService.EnqueueBatch":         {body: object{"deliveries": []object{{"url": "http://127.0.0.1:1/", "event_type": "x", "payload": object{}, "owner_id": "other"}}}, status: 400},
	"DeliveryService.GetDelivery":          {resource: "delivery", status: 404},
	"DeliveryService.ListDeliveries":       {status: 200, list: "deliveries"},
	"DeliveryService.ListAttempts":         {resource: "delivery", status: 404},
	"DeliveryService.ResendDelivery":       {resource: "delivery", body: object{}, status: 404},
	"DeliveryService.CancelDelivery":       {resource: "delivery", body: object{}, status: 404},
	"EventService.EmitEvent":               {body: object{"event_type": "order.paid", "payload": object{}}, status: 202, list: "deliveries"},
	"ReplayService.CreateReplay":           {resource: "delivery", body: object{"filter": object{"delivery_ids": []string{"{id}"}, "status": []string{"failed", "delivered", "cancelled"}}}, status: 202, list: "matched"},
	"ReplayService.GetReplay":              {resource: "replay", status: 404},
	"ReplayService.ListReplays":            {status: 200, list: "replays"},
	"ReplayService.CancelReplay":           {resource: "replay", body: object{}, status: 404},
	"EventTypeService.PutEventType":        {body: object{}, status: 403},
	"EventTypeService.DeleteEventType":     {status: 403},
	"CircuitService.ListCircuits":          {status: 403},
	"HouseEventService.EmitHouseEvent":     {body: object{"event_id": "e1", "type": "switchyard.a", "source": "/a", "occurred_at": "2026-01-02T03:04:05Z", "data": object{}}, status: 403},
	"HouseEventService.ListHouseEvents":    {status: 403},
	"EventTypeService.GetEventType":        {status: 404}, // Owners may read the catalog.
	"EventTypeService.ListEventTypes":      {status: 200},
	"SigningKeyService.ListSigningKeys":    {status: 200}, // public
	"DeliveryService.EnqueueStream":        {},            // gRPC alone; TestEnqueueStream
}

// A caller that acts for an owner reaches nothing of another owner, or of none, by any operation of the contract.
func TestOwnersReachTheirOwnAlone(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	all := h.service(stack.WebhookEgress, organization)
	ann := all.with("X-Owner-Id", "ann")
	operations, _ := contract.Operations(contracts[stack.WebhookEgress])
	for _, other := range []struct {
		name   string
		client client
	}{{"no owner", all}, {"another owner", all.with("X-Owner-Id", "bob")}} {
		ids := make(map[string]string)
		ids["endpoint"] = to.subscribe(t, other.client, []string{"order.*"}).ID
		var made accepted
		other.client.post(t, deliveryPath, to.deliver()).into(t, http.StatusAccepted, &made)
		ids["delivery"] = made.ID
		ended(t, all, made.ID)
		var job struct {
			ID string `json:"replay_id"`
		}
		other.client.post(t, replayPath, object{"filter": object{"delivery_ids": []string{made.ID}}}).into(t, http.StatusAccepted, &job)
		ids["replay"] = job.ID
		for _, o := range operations {
			method := strings.TrimPrefix(o.Method, string(contracts[stack.WebhookEgress])+".")
			row, ok := owned[method]
			if !ok {
				t.Errorf("%s %s (%s) has no row in owned", o.Verb, o.Path, method)
				continue
			}
			t.Run(other.name+"/"+method, func(t *testing.T) {
				id := ids[row.resource]
				if id == "" {
					id = "unknown"
				}
				var body any
				if o.Verb != http.MethodGet && o.Verb != http.MethodDelete {
					body = withID(row.body, id)
				}
				answer := ann.do(t, o.Verb, o.At(id), body)
				answer.want(t, row.status)
				if row.list == "" {
					return
				}
				// Ann's own replay of nothing is hers to see.
				if found := fmt.Sprint(answer.fields(t, row.status, row.list)[row.list]); found != "[]" && found != "0" && method != "ReplayService.ListReplays" || strings.Contains(found, ids["replay"]) {
					t.Errorf("%s: %s, want none of another owner", row.list, found)
				}
			})
		}
		other.client.get(t, endpointPath+"/"+ids["endpoint"]).want(t, http.StatusOK)
	}
	var methods []string
	for _, o := range operations {
		methods = append(methods, strings.TrimPrefix(o.Method, string(contracts[stack.WebhookEgress])+"."))
	}
	for method := range owned {
		if !slices.Contains(methods, method) && method != "DeliveryService.EnqueueStream" {
			t.Errorf("owned: the contract has no operation %s", method)
		}
	}
}

// withID returns a body with the id of a resource in place of "{id}".
func withID(body object, id string) object {
	filter, ok := body["filter"].(object)
	if !ok {
		return body
	}
	return body.with(object{"filter": filter.with(object{"delivery_ids": []string{id}})})
}

// An owner's session in the portal can't read, change, test or delete the organization's own endpoint. The endpoint's
// credentials stay with the host for which they were given.
func TestPortalOwnerTakesNoEndpointOver(t *testing.T) {
	t.Parallel()
	h := use(t)
	const api, mine = "/portal/api/product/v1/webhooks/endpoints", "https://1.1.1.1/mine"
	organization, to := unique("org"), h.receiver()
	customer := h.customer(t, organization, "webhooks", "write")
	bearer, value := endpointCredential("token"), endpointCredential("header")
	var made subscription
	customer.post(t, "/product/v1/webhooks/endpoints", object{
		"url": to.url(), "event_types": []string{"*"}, "auth": object{"bearer": object{"token": bearer}}, "custom_headers": object{"X-Api-Key": value},
	}).into(t, http.StatusCreated, &made)
	owner := h.inPortal(t, h.portalLink(t, organization, "o1", "ann", "webhooks:*"))
	owner.get(t, api+"/"+made.ID).want(t, http.StatusNotFound)
	owner.do(t, http.MethodPatch, api+"/"+made.ID, object{"url": mine}).want(t, http.StatusNotFound)
	owner.post(t, api+"/"+made.ID+"/test", object{}).want(t, http.StatusNotFound)
	owner.do(t, http.MethodDelete, api+"/"+made.ID, nil).want(t, http.StatusNotFound)

	whole := h.inPortal(t, h.portalLink(t, organization, "", "ann", "webhooks:*"))
	for field, body := range map[string]object{
		"auth":           {"url": mine},
		"custom_headers": {"url": mine, "auth": object{"none": object{}}},
	} {
		whole.do(t, http.MethodPatch, api+"/"+made.ID, body).refused(t, http.StatusBadRequest, "invalid_request", field)
	}
	whole.do(t, http.MethodPatch, api+"/"+made.ID, object{"auth": object{"oauth2": object{"token_url": mine, "client_id": "c"}}}).
		refused(t, http.StatusBadRequest, "invalid_request", "client_secret")
	whole.do(t, http.MethodPatch, api+"/"+made.ID, object{"url": to.url() + "?moved=1"}).want(t, http.StatusOK) // the same origin
	whole.post(t, api+"/"+made.ID+"/test", object{}).want(t, http.StatusOK)
	if all := to.arrivals(t); len(all) != 1 || all[0].Headers.Get("Authorization") != "Bearer "+hashed(bearer) || all[0].Headers.Get("X-Api-Key") != hashed(value) {
		t.Errorf("arrivals %v", all)
	}
	whole.do(t, http.MethodPatch, api+"/"+made.ID, object{
		"url": mine, "auth": object{"none": object{}}, "custom_headers": object{"X-Api-Key": ""},
	}).want(t, http.StatusOK)
}
