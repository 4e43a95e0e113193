//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

const (
	endpointPath = "/v1/endpoints"
	eventPath    = "/v1/events"
	replayPath   = "/v1/replays"
)

// subscription is an endpoint in an answer.
type subscription struct {
	ID             string  `json:"endpoint_id"`
	Owner          *string `json:"owner_id"`
	URL            string  `json:"url"`
	Active         bool    `json:"active"`
	SigningMode    string  `json:"signing_mode"`
	PreviousUntil  *string `json:"previous_secret_expires_at"`
	DisabledReason *string `json:"disabled_reason"`
	// EarlierUntil are the ends of the secrets that rotations replaced.
	EarlierUntil []string `json:"earlier_secrets_expire_at"`
	Signatures   []string `json:"signatures"`
	Warnings     []string `json:"warnings"`
}

// eventAnswer is the answer to an event.
type eventAnswer struct {
	ID            string `json:"event_id"`
	Matched       int    `json:"matched"`
	SkippedPaused int    `json:"skipped_paused"`
	Deduplicated  bool   `json:"deduplicated"`
	Deliveries    []struct {
		Delivery string `json:"delivery_id"`
		Endpoint string `json:"endpoint_id"`
	} `json:"deliveries"`
}

// to returns the id of the delivery for an endpoint.
func (f eventAnswer) to(t *testing.T, endpoint string) string {
	t.Helper()
	for _, d := range f.Deliveries {
		if d.Endpoint == endpoint {
			return d.Delivery
		}
	}
	t.Fatalf("no delivery for %s in %+v", endpoint, f)
	return ""
}

// subscribe creates an endpoint with the receiver's URL.
func (r receiver) subscribe(t *testing.T, webhooks client, types []string, more ...object) (s subscription) {
	t.Helper()
	webhooks.post(t, endpointPath, object{"url": r.url(), "event_types": types}.with(more...)).into(t, http.StatusCreated, &s)
	return s
}

func (c client) emit(t *testing.T, eventType string, more ...object) (f eventAnswer) {
	t.Helper()
	c.post(t, eventPath, object{"event_type": eventType, "payload": object{"n": 1}}.with(more...)).into(t, http.StatusAccepted, &f)
	return f
}

func TestEndpointLife(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	webhooks := h.service(stack.WebhookEgress, organization)
	ann := webhooks.with("X-Owner-Id", "ann")
	a := ann.post(t, endpointPath, object{"url": to.url(), "event_types": []string{"order.*"}, "description": "shop"})
	created := a.fields(t, http.StatusCreated, "endpoint_id", "organization_id", "owner_id", "url", "event_types", "active", "signing_mode", "created_at", "updated_at")
	id, _ := created["endpoint_id"].(string)
	for field, want := range map[string]any{"owner_id": "ann", "active": true, "signing_mode": "org_timestamp", "organization_id": organization} {
		if created[field] != want {
			t.Errorf("created with %s %v, want %v", field, created[field], want)
		}
	}
	path := endpointPath + "/" + id
	for name, otherCaller := range map[string]client{
		"no owner": webhooks, "another owner": webhooks.with("X-Owner-Id", "bob"),
		"another organization": h.service(stack.WebhookEgress, unique("org")).with("X-Owner-Id", "ann"),
	} {
		for verb, body := range map[string]any{http.MethodGet: nil, http.MethodPatch: object{"active": false}, http.MethodDelete: nil} {
			if got := otherCaller.do(t, verb, path, body); got.status != http.StatusNotFound {
				t.Errorf("%s by %s: %d", verb, name, got.status)
			}
		}
	}
	var list struct {
		Endpoints []subscription `json:"endpoints"`
		Next      string         `json:"next_cursor"`
	}
	other := to.subscribe(t, webhooks, []string{"*"})
	webhooks.get(t, endpointPath+"?limit=1").into(t, http.StatusOK, &list)
	if len(list.Endpoints) != 1 || list.Endpoints[0].ID != other.ID || list.Next == "" {
		t.Errorf("first page %+v", list)
	}
	webhooks.get(t, endpointPath+"?cursor="+list.Next).into(t, http.StatusOK, &list)
	if len(list.Endpoints) != 1 || list.Endpoints[0].ID != id || list.Next != "" {
		t.Errorf("second page %+v", list)
	}
	ann.get(t, endpointPath).into(t, http.StatusOK, &list)
	if len(list.Endpoints) != 1 || list.Endpoints[0].ID != id {
		t.Errorf("ann's %+v", list)
	}
	var changed subscription
	ann.do(t, http.MethodPatch, path, object{"active": false, "event_types": []string{"user.made"}}).into(t, http.StatusOK, &changed)
	if changed.Active {
		t.Errorf("changed %+v", changed)
	}
	ann.do(t, http.MethodDelete, path, nil).want(t, http.StatusNoContent)
	ann.get(t, path).want(t, http.StatusNotFound)
	ann.do(t, http.MethodDelete, path, nil).want(t, http.StatusNotFound)
}

func TestEndpointRefuses(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	secret := endpointSecret(t)
	body := object{"url": to.url(), "event_types": []string{"*"}}
	for name, tt := range map[string]struct {
		change object
		code   string
		text   string
	}{
		"no secret":                      {object{"signing_mode": "endpoint_body"}, "signing_secret_required", "signing_secret"},
		"a secret in a mode without one": {object{"signing_secret": secret}, "signing_secret_not_allowed", "signing_secret"},
		"a private target":               {object{"url": "https://10.0.0.1/x"}, "target_not_allowed", "url"},
		"the metadata service":           {object{"url": "https://169.254.169.254/latest"}, "target_not_allowed", "url"},
		"another port of this machine":   {object{"url": "http://127.0.0.1:1/x"}, "target_not_allowed", "url"},
		"all and one":                    {object{"event_types": []string{"*", "a"}}, "invalid_request", "event_types"},
		"an unknown mode":                {object{"signing_mode": "none"}, "invalid_request", "signing_mode"},
		"v1 with too short a secret": {
			object{"signing_mode": "endpoint_body", "signing_secret": secret[:16], "signatures": []string{"v1"}}, "invalid_request", "24 to 64 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			webhooks.post(t, endpointPath, body.with(tt.change)).refused(t, http.StatusBadRequest, tt.code, tt.text)
		})
	}
	e := to.subscribe(t, webhooks, []string{"*"})
	path := endpointPath + "/" + e.ID
	webhooks.do(t, http.MethodPatch, path, object{"url": "https://[::1]/x"}).refused(t, http.StatusBadRequest, "target_not_allowed", "url")
	webhooks.do(t, http.MethodPatch, path, object{"signing_secret": secret}).refused(t, http.StatusBadRequest, "signing_secret_not_allowed", "signing_secret")
	webhooks.do(t, http.MethodPatch, path, object{"signing_mode": "endpoint_body"}).refused(t, http.StatusBadRequest, "invalid_request", "signing_mode")
}

func TestEndpointThatIsGone(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to, watcher := h.service(stack.WebhookEgress, unique("org")), h.receiver(), h.receiver()
	to.answers(t, object{"status": 410})
	e := to.subscribe(t, webhooks, []string{"a"})
	watcher.subscribe(t, webhooks, []string{"switchyard.*"})
	if d := ended(t, webhooks, webhooks.emit(t, "a").to(t, e.ID)); d.Status != "failed" || d.Attempts != 1 {
		t.Errorf("record %+v", d)
	}
	var now subscription
	webhooks.get(t, endpointPath+"/"+e.ID).into(t, http.StatusOK, &now)
	if now.Active || now.DisabledReason == nil || *now.DisabledReason != "gone" {
		t.Errorf("endpoint %+v", now)
	}
	waitFor(t, waitTimeout, "the operational events", func() error {
		var reported []string
		for _, a := range watcher.arrivals(t) {
			if !strings.Contains(a.Body, e.ID) {
				t.Errorf("body %s", a.Body)
			}
			reported = append(reported, a.Headers.Get("X-Webhook-Event"))
		}
		slices.Sort(reported)
		if !slices.Equal(reported, []string{"switchyard.delivery.failed", "switchyard.endpoint.disabled"}) {
			return fmt.Errorf("the receiver got %v", reported)
		}
		return nil
	})
	webhooks.do(t, http.MethodPatch, endpointPath+"/"+e.ID, object{"active": true}).into(t, http.StatusOK, &now)
	if !now.Active || now.DisabledReason != nil {
		t.Errorf("endpoint %+v", now)
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	to.answers(t, object{"status": 204}, object{"status": 500})
	secret := endpointSecret(t)
	e := to.subscribe(t, webhooks, []string{"a"}, object{"signing_mode": "endpoint_body", "signing_secret": secret})
	path := endpointPath + "/" + e.ID
	webhooks.do(t, http.MethodPatch, path, object{"active": false}).want(t, http.StatusOK)
	var answer struct {
		Delivery delivery `json:"delivery"`
		Attempt  *attempt `json:"attempt"`
	}
	webhooks.post(t, path+"/test", object{}).into(t, http.StatusOK, &answer)
	if answer.Delivery.Status != "delivered" || answer.Attempt == nil || answer.Attempt.code() != 204 {
		t.Errorf("ping %+v", answer)
	}
	webhooks.post(t, path+"/test", object{"event_type": "order.paid", "payload": object{"x": 1}}).into(t, http.StatusOK, &answer)
	if answer.Delivery.Status != "failed" || answer.Delivery.Attempts != 1 || answer.Attempt.code() != 500 {
		t.Errorf("failed ping %+v", answer)
	}
	arrived := to.arrivals(t)
	if len(arrived) != 2 {
		t.Fatalf("%d arrivals, want 2", len(arrived))
	}
	if event := arrived[0].Headers.Get("X-Webhook-Event"); event != "switchyard.ping" || !strings.Contains(arrived[0].Body, e.ID) {
		t.Fatalf("%s arrived with %s, want a ping about %s", event, arrived[0].Body, e.ID)
	}
	if body := arrived[1].Body; body != `{"x":1}` {
		t.Fatalf("the test's own payload arrived as %s", body)
	}
	verifyBody(t, secret, arrived[0])
}

// listIDs returns the ids on all pages of a list of deliveries.
func listIDs(t *testing.T, webhooks client, query string) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Deliveries []delivery `json:"deliveries"`
			Next       string     `json:"next_cursor"`
		}
		webhooks.get(t, deliveryPath+query+"&cursor="+cursor).into(t, http.StatusOK, &page)
		for _, d := range page.Deliveries {
			ids = append(ids, d.ID)
		}
		if cursor = page.Next; cursor == "" {
			return ids
		}
	}
}
