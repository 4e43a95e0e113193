//go:build e2e

package e2e_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

const (
	registrationsPath = "/v1/push/registrations"
	historyPath       = "/v1/push/history"
	sendsPath         = "/v1/notifications/sends/"
)

// subscriber is a subscription of the fake push service.
type subscriber struct {
	Endpoint string            `json:"endpoint"`
	Keys     map[string]string `json:"keys"`
}

func (b subscriber) path(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}

// browser returns a new subscription, as a page's browser makes it, and adds its secrets to knownSecrets.
func (h *harness) browser(t *testing.T, organization string) subscriber {
	t.Helper()
	key := h.service(stack.Notify, organization).get(t, "/v1/push/vapid-public-key").fields(t, http.StatusOK, "public_key", "key_id")
	var b subscriber
	h.fake(stack.FakePush).unrecorded(t, http.MethodPost, "/_subscriptions", object{"application_server_key": key["public_key"]}).into(t, http.StatusCreated, &b)
	knownSecrets.add("an endpoint's path", strings.TrimPrefix(b.path(t), "/push/"))
	knownSecrets.add("an auth secret", b.Keys["auth"])
	return b
}

// register registers a browser as a device and returns its id.
func (h *harness) register(t *testing.T, organization string, b subscriber, more ...object) string {
	t.Helper()
	body := object{"subscription": object{"endpoint": b.Endpoint, "keys": b.Keys, "expirationTime": nil}}.with(more...)
	a := h.service(stack.Notify, organization).post(t, registrationsPath, body)
	id, _ := a.fields(t, a.status, "sub_id", "endpoint_origin", "vapid_key_id", "status")["sub_id"].(string)
	if id == "" || a.status != http.StatusCreated && a.status != http.StatusOK {
		t.Fatalf("registration: %d %s", a.status, shorten(a.body))
	}
	return id
}

// pushed returns the messages that a browser got.
func (h *harness) pushed(t *testing.T, b subscriber) []pushMessage {
	t.Helper()
	var page struct{ Messages []pushMessage }
	h.fake(stack.FakePush).unrecorded(t, http.MethodGet, "/_messages?limit=100000&path="+url.QueryEscape(b.path(t)), nil).into(t, http.StatusOK, &page)
	return page.Messages
}

type pushMessage struct {
	Path      string `json:"path"`
	TTL       int    `json:"ttl"`
	Urgency   string `json:"urgency"`
	Topic     string `json:"topic"`
	Plaintext string `json:"plaintext"`
	Failed    string `json:"decrypt_error"`
}

// content decodes the text that a service worker gets.
func (m pushMessage) content(t *testing.T) (c struct {
	ID    string          `json:"notification_id"`
	Tag   string          `json:"tag"`
	Title string          `json:"title"`
	Body  string          `json:"body"`
	URL   string          `json:"url"`
	Site  string          `json:"site_id"`
	Data  json.RawMessage `json:"data"`

	Actions []map[string]string `json:"actions"`
},
) {
	t.Helper()
	if err := json.Unmarshal([]byte(m.Plaintext), &c); err != nil {
		t.Fatalf("decode the push: %v: %s %s", err, m.Plaintext, m.Failed)
	}
	return c
}

// clearScript removes the rules of the fake push service.
func (h *harness) clearScript(t *testing.T) {
	t.Helper()
	a := h.fake(stack.FakePush).unrecorded(t, http.MethodDelete, "/_script", nil)
	if a.status >= http.StatusBadRequest {
		t.Fatalf("the script was not cleared: %d %s", a.status, a.body)
	}
}

// pushLog is the delivery log of a send by web push.
type pushLog struct {
	Status   string `json:"status"`
	Channels []struct {
		Channel    string  `json:"channel"`
		Status     string  `json:"status"`
		Outcome    *string `json:"outcome"`
		LastError  *string `json:"last_error"`
		Attempts   int     `json:"attempts"`
		Targeted   int     `json:"targeted_count"`
		Delivered  int     `json:"delivered_count"`
		Failed     int     `json:"failed_count"`
		Removed    int     `json:"removed_count"`
		Truncated  bool    `json:"truncated"`
		Duplicated bool    `json:"possibly_duplicated"`
	} `json:"channels"`
}

// push sends over web push and returns the id.
func (h *harness) push(t *testing.T, organization string, target object, more ...object) string {
	t.Helper()
	body := object{"channels": []string{"web_push"}, "subject": "Order", "message": "Shipped", "target": target}.with(more...)
	id, _ := h.service(stack.Notify, organization).post(t, notifyPath, body).fields(t, http.StatusAccepted, "notification_id")["notification_id"].(string)
	return id
}

// pushEnded waits until a send has ended, and returns its log.
func (h *harness) pushEnded(t *testing.T, organization, id string) (log pushLog) {
	t.Helper()
	waitFor(t, waitTimeout, "the send ends", func() error {
		a, err := h.service(stack.Notify, organization).try(t, http.MethodGet, sendsPath+id, nil)
		if err != nil {
			return err
		}
		a.into(t, http.StatusOK, &log)
		if log.Status == "pending" {
			return fmt.Errorf("still pending: %s", shorten(a.body))
		}
		return nil
	})
	return log
}

type historyItem struct {
	ID        string  `json:"notification_id"`
	User      string  `json:"user_id"`
	Title     string  `json:"title"`
	Body      string  `json:"body"`
	Status    string  `json:"status"`
	Delivered int     `json:"delivered_count"`
	CreatedAt float64 `json:"created_at"`
}

func (h *harness) history(t *testing.T, organization, query string) []historyItem {
	t.Helper()
	var page struct{ History []historyItem }
	h.service(stack.Notify, organization).get(t, historyPath+query).into(t, http.StatusOK, &page)
	return page.History
}

// onTheWire returns a caller's topic as push services get it.
func onTheWire(organization, site, topic string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", organization, site, topic))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

func TestPushToAUser(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	phone, laptop, other := h.browser(t, organization), h.browser(t, organization), h.browser(t, organization)
	h.register(t, organization, phone, object{"user_id": "ann"})
	h.register(t, organization, laptop, object{"user_id": "ann", "site_id": "shop"})
	h.register(t, organization, other, object{"user_id": "bob"})
	id := h.push(t, organization, object{"user_id": "ann", "url": "/orders/7", "data": object{"a": 1}, "ttl_seconds": 60, "urgency": "high", "topic": "order-7"})
	log := h.pushEnded(t, organization, id)
	if log.Status != "delivered" {
		t.Errorf("status %s, want delivered", log.Status)
	}
	c := log.Channels[0]
	want := c
	want.Targeted, want.Delivered, want.Attempts, want.Outcome = 2, 2, 2, new("ok")
	same(t, want, c)
	for _, b := range []subscriber{phone, laptop} {
		got := h.pushed(t, b)
		if len(got) != 1 {
			t.Fatalf("pushed %d messages, want 1", len(got))
		}
		sent := got[0]
		sent.TTL, sent.Urgency, sent.Topic = 60, "high", onTheWire(organization, "", "order-7")
		same(t, sent, got[0])
		shown := got[0].content(t)
		want := shown
		want.ID, want.Title, want.Body, want.URL, want.Data = id, "Order", "Shipped", "/orders/7", json.RawMessage(`{"a":1}`)
		same(t, want, shown)
	}
	if got := h.pushed(t, other); len(got) != 0 {
		t.Errorf("bob got %+v", got)
	}
	rows := h.history(t, organization, "?user_id=ann")
	if len(rows) != 1 {
		t.Fatalf("%d rows of history, want 1", len(rows))
	}
	row := rows[0]
	row.ID, row.Status, row.Delivered, row.Title = id, "delivered", 2, "Order"
	same(t, row, rows[0])
	if at := rows[0].CreatedAt; at < 1e9 {
		t.Errorf("created at %v, want seconds since 1970", at)
	}
	for _, d := range h.devices(t, organization, "?user_id=ann") {
		if d.Delivered == nil {
			t.Errorf("device %+v was never delivered to", d)
		}
	}
	if n := len(h.history(t, unique("org"), "")) + len(h.devices(t, unique("org"), "")); n != 0 {
		t.Error("another organization sees them")
	}
}

func TestPushWithoutDevicesAndToOneDevice(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	log := h.pushEnded(t, organization, h.push(t, organization, object{"user_id": "nobody"}))
	if log.Status != "failed" || log.Channels[0].Targeted != 0 {
		t.Errorf("log %+v", log)
	}
	b := h.browser(t, organization)
	long := strings.Repeat("long ", 2000)
	id := h.push(t, organization, object{"subscription": object{"endpoint": b.Endpoint, "keys": b.Keys}}, object{"message": long})
	if log := h.pushEnded(t, organization, id); log.Status != "delivered" || !log.Channels[0].Truncated {
		t.Errorf("log %+v", log)
	}
	got := h.pushed(t, b)
	if len(got) != 1 || !strings.HasSuffix(got[0].content(t).Body, "…") || len(got[0].Plaintext) > 2717 {
		t.Fatalf("pushed %+v", got)
	}
	rows := h.history(t, organization, "")
	if len(rows) != 2 {
		t.Fatalf("%d rows of history, want 2", len(rows))
	}
	if rows[0].User != "" || rows[0].Body != long {
		t.Errorf("the last one is for %q with %d bytes, want no user and %d", rows[0].User, len(rows[0].Body), len(long))
	}
	if rows[1].Status != "no_devices" {
		t.Errorf("the first one is %s, want no_devices", rows[1].Status)
	}
	if n := len(h.devices(t, organization, "")); n != 0 {
		t.Errorf("%d devices stored", n)
	}
}

// Only 404 and 410 remove a device, and a wrong key quarantines it. No other answer changes it.
func TestPushOutcomes(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	tests := map[string]struct {
		action  object
		times   int
		log     string // status of the send
		error   string
		devices int
		status  string // of the device
	}{
		"410":              {object{"status": 410}, 0, "failed", "subscription_gone", 0, ""},
		"404":              {object{"status": 404}, 0, "failed", "subscription_gone", 0, ""},
		"403":              {object{"status": 403, "body": "the key in the authorization header does not match"}, 0, "failed", "vapid_key_mismatch", 1, "quarantined"},
		"Mozilla's 401":    {object{"status": 401, "body": `{"code":401,"errno":109,"error":"Unauthorized","message":"VAPID public key mismatch"}`}, 0, "failed", "vapid_key_mismatch", 1, "quarantined"},
		"a bad token once": {object{"status": 403, "body": `{"reason":"BadJwtToken"}`}, 1, "delivered", "credential_refused", 1, "active"},
		"400":              {object{"status": 400}, 0, "failed", "http_4xx", 1, "active"},
		"413":              {object{"status": 413}, 0, "failed", "payload_too_large", 1, "active"},
		"a redirect":       {object{"redirect": "http://127.0.0.1:1/", "status": 307}, 0, "failed", "http_3xx", 1, "active"},
		"429 once":         {object{"status": 429, "retry_after": "1"}, 1, "delivered", "rate_limited", 1, "active"},
		"503 twice":        {object{"status": 503}, 2, "delivered", "http_5xx", 1, "active"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			organization := unique("org")
			b := h.browser(t, organization)
			h.register(t, organization, b, object{"user_id": "ann"})
			h.script(t, stack.FakePush, rule{Match: object{"path": b.path(t)}, Times: tt.times, Action: tt.action})
			log := h.pushEnded(t, organization, h.push(t, organization, object{"user_id": "ann"}))
			if log.Status != tt.log || log.Channels[0].LastError == nil || *log.Channels[0].LastError != tt.error {
				t.Errorf("log %+v", log)
			}
			left := h.devices(t, organization, "")
			if len(left) != tt.devices || len(left) == 1 && left[0].Status != tt.status {
				t.Errorf("devices %+v", left)
			}
			if want := 1 - tt.devices; log.Channels[0].Removed != want {
				t.Errorf("%d removed, want %d", log.Channels[0].Removed, want)
			}
			h.clearScript(t)
			if tt.status == "quarantined" {
				h.register(t, organization, b, object{"user_id": "ann"})
				if log := h.pushEnded(t, organization, h.push(t, organization, object{"user_id": "ann"})); log.Status != "delivered" {
					t.Errorf("after it registered again: %+v", log)
				}
			}
		})
	}
}
