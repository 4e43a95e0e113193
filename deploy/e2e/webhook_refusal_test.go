//go:build e2e

package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"switchyard.dev/deploy/dev/stack"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

func TestDeliveryRefuses(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	headers := func(name, value string) object {
		return to.deliver(object{"custom_headers": object{name: value}})
	}
	tests := map[string]struct {
		body   any
		status int
		code   string
		text   string
	}{
		"a payload of more than 512 KiB":  {to.deliver(object{"payload": object{"a": strings.Repeat("x", 512<<10)}}), 413, "payload_too_large", "payload"},
		"a payload that is no object":     {to.deliver(object{"payload": []int{1}}), 400, "invalid_request", "payload"},
		"no payload":                      {object{"url": to.url(), "event_type": "a.b"}, 400, "invalid_request", "payload"},
		"no event type":                   {to.deliver(object{"event_type": ""}), 400, "invalid_request", "event_type"},
		"no URL":                          {to.deliver(object{"url": ""}), 400, "invalid_request", "url"},
		"a signature as a header":         {headers("X-Webhook-Signature", "x"), 400, "header_not_allowed", "X-Webhook-Signature"},
		"the host as a header":            {headers("host", "internal"), 400, "header_not_allowed", "Host"},
		"a hop-by-hop header":             {headers("Transfer-Encoding", "chunked"), 400, "header_not_allowed", "Transfer-Encoding"},
		"a metadata header":               {headers("Metadata-Flavor", "Google"), 400, "header_not_allowed", "Metadata-Flavor"},
		"a header with a line break":      {headers("X-A", "b\r\nX-C: d"), 400, "header_not_allowed", "X-A"},
		"a signing secret":                {to.deliver(object{"signing_secret": "x"}), 400, "invalid_request", "signing_secret"},
		"an unknown field":                {to.deliver(object{"colour": "red"}), 400, "invalid_request", "colour"},
		"a deadline that has passed":      {to.deliver(object{"deadline_at": time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)}), 400, "deadline_passed", "deadline_at"},
		"another organization":            {to.deliver(object{"organization_id": "org_other"}), 403, "organization_mismatch", "organization_id"},
		"bad JSON":                        {`{"url":`, 400, "invalid_request", ""},
		"no JSON object":                  {`"text"`, 400, "invalid_request", ""},
		"a payload one byte over is over": {to.deliver(object{"payload": object{"a": strings.Repeat("x", 512<<10-len(`{"a":""}`)+1)}}), 413, "payload_too_large", "payload"},
	}
	shop, service := h.customer(t, organization, "webhooks", "write"), h.service(stack.WebhookEgress, organization)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			shop.post(t, deliveryRoute, tt.body).refused(t, tt.status, tt.code, tt.text)
			service.post(t, deliveryPath, tt.body).refused(t, tt.status, tt.code, tt.text)
		})
	}
	t.Run("a payload of 512 KiB is taken", func(t *testing.T) {
		payload := object{"a": strings.Repeat("x", 512<<10-len(`{"a":""}`))}
		shop.post(t, deliveryRoute, to.deliver(object{"payload": payload})).want(t, http.StatusAccepted)
	})
}

// innerTargets are addresses that are not on the public internet, in various spellings.
var innerTargets = map[string]string{
	"cloud metadata":           "http://169.254.169.254/latest/meta-data/",
	"loopback":                 "http://127.0.0.1:1/",
	"loopback by name":         "http://localhost:1/",
	"loopback, version 6":      "http://[::1]/",
	"loopback as a number":     "http://2130706433/",
	"loopback in hexadecimal":  "http://0x7f000001/",
	"loopback in octal":        "http://0177.0.0.1/",
	"loopback, shortened":      "http://127.1/",
	"loopback mapped to IPv6":  "http://[::ffff:127.0.0.1]/",
	"loopback through NAT64":   "http://[64:ff9b::7f00:1]/",
	"unspecified":              "http://0.0.0.0/",
	"private":                  "http://10.0.0.1/",
	"private, version 6":       "http://[fd00::1]/",
	"link-local":               "http://[fe80::1]/",
	"shared address space":     "http://100.64.0.1/",
	"multicast":                "http://224.0.0.1/",
	"a file":                   "file:///etc/passwd",
	"another protocol":         "gopher://127.0.0.1:70/",
	"user and password":        "http://user@127.0.0.1/",
	"loopback with a full dot": "http://localhost./",
}

func TestDeliveryRefusesInnerTargets(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	shop := h.customer(t, organization, "webhooks", "write")
	client := webhooksv1.NewDeliveryServiceClient(h.grpc(t, stack.WebhookEgress))
	for name, url := range innerTargets {
		t.Run(name, func(t *testing.T) {
			shop.post(t, deliveryRoute, to.deliver(object{"url": url})).refused(t, http.StatusBadRequest, "target_not_allowed", "url")
			_, err := client.Enqueue(h.as(t, organization), &webhooksv1.EnqueueRequest{Url: url, EventType: "a.b", Payload: []byte("{}")})
			refusedBy(t, err, codes.InvalidArgument, "target_not_allowed")
		})
	}
}

func TestDeliveryOfOthers(t *testing.T) {
	t.Parallel()
	h := use(t)
	to, webhooks := h.receiver(), h.service(stack.WebhookEgress, unique("org"))
	ann, bob := webhooks.with("X-Owner-Id", "ann"), webhooks.with("X-Owner-Id", "bob")

	ann.post(t, deliveryPath, to.deliver(object{"owner_id": "bob"})).refused(t, http.StatusBadRequest, "identity_mismatch", "owner_id")
	var byHeader, byField accepted
	ann.post(t, deliveryPath, to.deliver()).into(t, http.StatusAccepted, &byHeader)
	ann.post(t, deliveryPath, to.deliver(object{"owner_id": "ann"})).into(t, http.StatusAccepted, &byField)
	for _, id := range []string{byHeader.ID, byField.ID} {
		if d := ended(t, webhooks, id); d.Owner == nil || *d.Owner != "ann" {
			t.Errorf("record %+v, want ann's", d)
		}
		for who, tt := range map[string]struct {
			client client
			status int
		}{
			"the owner":            {ann, 200},
			"another owner":        {bob, 404},
			"another organization": {h.service(stack.WebhookEgress, unique("org")), 404},
		} {
			for _, path := range []string{deliveryPath + "/" + id, deliveryPath + "/" + id + "/attempts"} {
				if a := tt.client.get(t, path); tt.status == http.StatusNotFound {
					a.refused(t, http.StatusNotFound, "not_found", "")
				} else if a.status != tt.status {
					t.Errorf("%s of %s got %d: %s", path, who, a.status, a.body)
				}
			}
		}
	}
	for _, id := range []string{"nothing", strings.Repeat("x", 64), "00000000-0000-0000-0000-000000000000"} {
		webhooks.get(t, deliveryPath+"/"+id).refused(t, http.StatusNotFound, "not_found", "")
	}
}

func TestDeliveryOverGRPC(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	client := webhooksv1.NewDeliveryServiceClient(h.grpc(t, stack.WebhookEgress))
	request := &webhooksv1.EnqueueRequest{
		Url: to.url(), EventType: "order.paid", Payload: []byte(`{"b": 1, "a":2}`), IdempotencyKey: "k", OwnerId: "ann", MaxAttempts: new(int32(99)),
	}
	first, err := client.Enqueue(h.as(t, organization), request)
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.Enqueue(h.as(t, organization), request)
	if err != nil {
		t.Fatal(err)
	}
	if again.GetDeliveryId() != first.GetDeliveryId() {
		t.Fatalf("the repeat is %s, want %s", again.GetDeliveryId(), first.GetDeliveryId())
	}
	if first.GetDeduplicated() || !again.GetDeduplicated() {
		t.Fatalf("deduplicated %t, then %t, want only the repeat", first.GetDeduplicated(), again.GetDeduplicated())
	}
	if d := ended(t, h.service(stack.WebhookEgress, organization), first.GetDeliveryId()); d.Status != "delivered" {
		t.Fatalf("record %+v", d)
	}
	record, err := client.GetDelivery(h.as(t, organization, "x-owner-id", "ann"), &webhooksv1.GetDeliveryRequest{Id: first.GetDeliveryId(), IncludePayload: true})
	if err != nil {
		t.Fatal(err)
	}
	if record.GetStatus() != "delivered" || record.GetMaxAttempts() != 20 {
		t.Errorf("%s in at most %d attempts, want delivered and 20", record.GetStatus(), record.GetMaxAttempts())
	}
	if payload := string(record.GetPayload()); payload != `{"b": 1, "a":2}` {
		t.Errorf("payload %s", payload)
	}
	if id := record.GetEndpointId(); id != nil {
		t.Errorf("endpoint %v, want none", id)
	}
	made, err := client.ListAttempts(h.as(t, organization), &webhooksv1.ListAttemptsRequest{Id: first.GetDeliveryId()})
	if err != nil || len(made.GetAttempts()) != 1 || made.GetAttempts()[0].GetResponseCode().GetValue() != 200 {
		t.Errorf("attempts %v, %v", made, err)
	}
	arrived := to.arrivals(t)
	if len(arrived) != 1 || arrived[0].Body != `{"b": 1, "a":2}` {
		t.Fatalf("arrivals %+v", arrived)
	}
	verify(t, h.Secrets().Webhook, arrived[0])

	_, err = client.GetDelivery(h.as(t, organization, "x-owner-id", "bob"), &webhooksv1.GetDeliveryRequest{Id: first.GetDeliveryId()})
	refusedBy(t, err, codes.NotFound, "not_found")
	_, err = client.GetDelivery(h.as(t, unique("org")), &webhooksv1.GetDeliveryRequest{Id: first.GetDeliveryId()})
	refusedBy(t, err, codes.NotFound, "not_found")
	_, err = client.Enqueue(h.as(t, organization), &webhooksv1.EnqueueRequest{Url: to.url(), EventType: "a.b", Payload: []byte(`[]`)})
	refusedBy(t, err, codes.InvalidArgument, "invalid_request")
}
