//go:build e2e

package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"switchyard.dev/deploy/dev/stack"
)

const (
	deliveryRoute = "/product/v1/webhooks/deliveries"
	deliveryPath  = "/v1/deliveries"
)

// accepted is the answer to an enqueue.
type accepted struct {
	ID             string  `json:"delivery_id"`
	Organization   string  `json:"organization_id"`
	Status         string  `json:"status"`
	IdempotencyKey *string `json:"idempotency_key"`
	Deduplicated   *bool   `json:"deduplicated"`
}

// delivery is the record of a delivery in an answer.
type delivery struct {
	ID               string  `json:"delivery_id"`
	Organization     string  `json:"organization_id"`
	Owner            *string `json:"owner_id"`
	Status           string  `json:"status"`
	Attempts         int     `json:"attempts"`
	MaxAttempts      int     `json:"max_attempts"`
	LastResponseCode *int    `json:"last_response_code"`
	LastError        *string `json:"last_error"`
	NextAttemptAt    *string `json:"next_attempt_at"`
}

type attempt struct {
	Number       int     `json:"number"`
	Outcome      string  `json:"outcome"`
	ResponseCode *int    `json:"response_code"`
	RetryAfter   *string `json:"retry_after"`
}

// code returns the response code, 0 without one.
func (a attempt) code() int {
	if a.ResponseCode == nil {
		return 0
	}
	return *a.ResponseCode
}

var finals = []string{"delivered", "failed", "cancelled", "expired"}

// ended waits for the end of a delivery, and returns its record.
func ended(t *testing.T, webhooks client, id string) delivery {
	t.Helper()
	var d delivery
	waitFor(t, waitTimeout, "the end of delivery "+id, func() error {
		webhooks.get(t, deliveryPath+"/"+id).into(t, http.StatusOK, &d)
		if !slices.Contains(finals, d.Status) {
			return fmt.Errorf("it is %s after %d attempts", d.Status, d.Attempts)
		}
		return nil
	})
	return d
}

func attempts(t *testing.T, webhooks client, id string) []attempt {
	t.Helper()
	var page struct {
		Attempts []attempt `json:"attempts"`
	}
	webhooks.get(t, deliveryPath+"/"+id+"/attempts").into(t, http.StatusOK, &page)
	return page.Attempts
}

// deliver returns a request to deliver a small payload.
func (r receiver) deliver(more ...object) object {
	return object{"url": r.url(), "event_type": "order.paid", "payload": object{"order": 7}}.with(more...)
}

func TestDeliveryThroughTheEdge(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	// The payload must arrive unchanged, to the byte: spaces, order, numbers and escapes.
	const payload = `{"b": 1, "a":12345678901234567890, "e":"\u00e9 <&>", "n":[1.50, 1e3], "o":{}}`
	a := h.customer(t, organization, "webhooks", "write").with("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").
		post(t, deliveryRoute, fmt.Sprintf(`{"url":%q,"event_type":"order.paid","payload":%s,"custom_headers":{"X-Shop":"7"}}`, to.url(), payload))
	var got accepted
	a.into(t, http.StatusAccepted, &got)
	a.fields(t, http.StatusAccepted, "delivery_id", "organization_id", "status", "idempotency_key", "deduplicated")
	if got.ID == "" {
		t.Errorf("accepted without an id: %s", a.body)
	}
	same(t, accepted{ID: got.ID, Organization: organization, Status: "queued", Deduplicated: new(false)}, got)

	webhooks := h.service(stack.WebhookEgress, organization)
	d := ended(t, webhooks, got.ID)
	delivered := d
	delivered.Status, delivered.Attempts, delivered.MaxAttempts = "delivered", 1, 12
	delivered.LastResponseCode, delivered.LastError, delivered.NextAttemptAt = new(200), nil, nil
	same(t, delivered, d)
	record := webhooks.get(t, deliveryPath+"/"+got.ID).fields(t, http.StatusOK, "delivery_id", "organization_id", "owner_id", "url",
		"event_type", "status", "attempts", "max_attempts", "last_response_code", "last_error", "endpoint_id", "signing_mode",
		"next_attempt_at", "created_at", "updated_at")
	if record["endpoint_id"] != nil || record["signing_mode"] != "org_timestamp" || record["url"] != to.url() {
		t.Errorf("record %v", record)
	}
	if made := attempts(t, webhooks, got.ID); len(made) != 1 || made[0].Outcome != "delivered" || made[0].code() != 200 {
		t.Errorf("attempts %+v", made)
	}

	arrived := to.arrivals(t)
	if len(arrived) != 1 {
		t.Fatalf("%d arrivals, want one", len(arrived))
	}
	one := arrived[0]
	if one.Body != payload {
		t.Errorf("body %s, want %s", one.Body, payload)
	}
	want := map[string]string{
		"X-Webhook-Id": got.ID, "X-Webhook-Event": "order.paid", "X-Webhook-Attempt": "1", "X-Shop": "7", "Content-Type": "application/json",
	}
	for name, value := range want {
		if one.Headers.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, one.Headers.Get(name), value)
		}
	}
	if trace := one.Headers.Get("Traceparent"); len(trace) != 55 {
		t.Errorf("Traceparent: %q", trace)
	}
	if agent := one.Headers.Get("User-Agent"); agent == "" || strings.HasPrefix(agent, "Go-http-client") {
		t.Errorf("User-Agent: %q", agent)
	}
	verify(t, h.Secrets().Webhook, one)
	verifyStandard(t, h.Secrets().Webhook, one)
}

// verify verifies the signature of a delivery as its receiver does.
func verify(t *testing.T, secret string, a arrival) {
	t.Helper()
	timestamp := a.Headers.Get("X-Webhook-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		t.Errorf("X-Webhook-Timestamp: %q", timestamp)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "." + a.Body))
	if want := hex.EncodeToString(mac.Sum(nil)); a.Headers.Get("X-Webhook-Signature") != want {
		t.Errorf("X-Webhook-Signature: %q, want %q", a.Headers.Get("X-Webhook-Signature"), want)
	}
}

// verifyStandard verifies the headers of Standard Webhooks with that project's library.
func verifyStandard(t *testing.T, secret string, a arrival) {
	t.Helper()
	standard, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := standard.Verify([]byte(a.Body), a.Headers); err != nil || a.Headers.Get("Webhook-Id") != a.ID {
		t.Errorf("Webhook-Signature: %q of %s: %v", a.Headers.Get("Webhook-Signature"), a.Headers.Get("Webhook-Id"), err)
	}
	if err := standard.Verify([]byte(a.Body+" "), a.Headers); err == nil {
		t.Error("Webhook-Signature: is right for another body too")
	}
}

func TestDeliverySignedWithTheOrganizationsSecret(t *testing.T) {
	t.Parallel()
	h := use(t)
	to := h.receiver()
	var got accepted
	webhooks := h.service(stack.WebhookEgress, secretOrganization)
	webhooks.post(t, deliveryPath, to.deliver()).into(t, http.StatusAccepted, &got)
	if d := ended(t, webhooks, got.ID); d.Status != "delivered" {
		t.Fatalf("record %+v", d)
	}
	verify(t, organizationSecret, to.arrivals(t)[0])
}

// Answers of receivers, and the outcome of the delivery.
func TestDeliveryOutcomes(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	webhooks := h.service(stack.WebhookEgress, organization)
	fail, well := object{"status": 500}, object{"status": 204}
	tests := map[string]struct {
		answers []object
		most    int
		status  string
		codes   []int
	}{
		"two failures, then success":  {[]object{fail, fail, well}, 12, "delivered", []int{500, 500, 204}},
		"a client error is retried":   {[]object{{"status": 404}, well}, 12, "delivered", []int{404, 204}},
		"a dropped connection":        {[]object{{"drop": true}, well}, 12, "delivered", []int{0, 204}},
		"attempts used up":            {[]object{fail}, 3, "failed", []int{500, 500, 500}},
		"a redirect is not followed":  {[]object{{"redirect": h.receiver().url()}}, 1, "failed", []int{302}},
		"gone ends it":                {[]object{{"status": 410}}, 12, "failed", []int{410}},
		"at least one attempt":        {[]object{fail}, 0, "failed", []int{500}},
		"a 200 with a body of errors": {[]object{{"status": 200, "body": `{"error":"no"}`}}, 3, "delivered", []int{200}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := h.receiver()
			to.answers(t, tt.answers...)
			var got accepted
			webhooks.post(t, deliveryPath, to.deliver(object{"max_attempts": tt.most})).into(t, http.StatusAccepted, &got)
			d := ended(t, webhooks, got.ID)
			if d.Status != tt.status || d.Attempts != len(tt.codes) {
				t.Errorf("record %+v, want %s after %d attempts", d, tt.status, len(tt.codes))
			}
			if failed := d.LastError != nil; failed != (tt.status == "failed") {
				t.Errorf("last_error of a delivery that is %s: %v", d.Status, d.LastError)
			}
			var codes []int
			for i, a := range attempts(t, webhooks, got.ID) {
				codes = append(codes, a.code())
				outcome := "retry"
				if i == len(tt.codes)-1 {
					outcome = map[int]string{200: "delivered", 204: "delivered", 410: "gone"}[a.code()]
				}
				if outcome == "" {
					outcome = "failed"
				}
				if a.Number != i+1 || a.Outcome != outcome {
					t.Errorf("attempt %+v, want number %d with outcome %s", a, i+1, outcome)
				}
			}
			if diff := cmp.Diff(tt.codes, codes); diff != "" {
				t.Errorf("codes (-want +got):\n%s", diff)
			}
			checkArrivals(t, to, got.ID, len(tt.codes))
		})
	}
}

// checkArrivals fails the test unless there is one arrival for each attempt, each with its number and a new signature.
func checkArrivals(t *testing.T, to receiver, id string, count int) {
	t.Helper()
	arrived := to.arrivals(t)
	if len(arrived) != count {
		t.Errorf("%d arrivals, want %d", len(arrived), count)
	}
	for i, a := range arrived {
		if a.ID != id || a.Headers.Get("X-Webhook-Attempt") != strconv.Itoa(i+1) {
			t.Errorf("arrival %d is attempt %s of %s, want %d of %s", i, a.Headers.Get("X-Webhook-Attempt"), a.ID, i+1, id)
		}
		verify(t, to.harness.Secrets().Webhook, a)
	}
}

func TestDeliveryIsDeduplicated(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	shop := h.customer(t, organization, "webhooks", "write")
	var first, again, byHeader, other accepted
	shop.post(t, deliveryRoute, to.deliver(object{"idempotency_key": "k"})).into(t, http.StatusAccepted, &first)
	shop.post(t, deliveryRoute, to.deliver(object{"idempotency_key": "k"})).into(t, http.StatusOK, &again)
	shop.with("Idempotency-Key", "k").post(t, deliveryRoute, to.deliver()).into(t, http.StatusOK, &byHeader)
	if first.IdempotencyKey == nil || *first.IdempotencyKey != "k" || *first.Deduplicated {
		t.Errorf("first %+v", first)
	}
	for _, repeat := range []accepted{again, byHeader} {
		if repeat.ID != first.ID || !*repeat.Deduplicated {
			t.Errorf("repeat %+v, want delivery %s again", repeat, first.ID)
		}
	}
	elsewhere := h.customer(t, unique("org"), "webhooks", "write")
	elsewhere.post(t, deliveryRoute, to.deliver(object{"idempotency_key": "k"})).into(t, http.StatusAccepted, &other)
	if other.ID == first.ID || *other.Deduplicated {
		t.Errorf("another organization's %+v", other)
	}
	waitFor(t, waitTimeout, "both deliveries", func() error {
		if n := len(to.arrivals(t)); n != 2 {
			return fmt.Errorf("%d arrivals", n)
		}
		return nil
	})
	if d := ended(t, h.service(stack.WebhookEgress, organization), first.ID); d.Attempts != 1 {
		t.Errorf("record %+v", d)
	}
}
