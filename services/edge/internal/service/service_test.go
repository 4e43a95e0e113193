package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/service"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// services answers with a status and a text, and keeps what it was asked.
type services struct {
	status int
	text   string
	asked  string
	header http.Header
}

func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.asked, s.header = fmt.Sprint(r.Method, " ", r.URL, " ", string(body)), r.Header
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.text)
}

func newClient(t *testing.T) (*services, *service.Client) {
	t.Helper()
	s, client, _ := newClientAt(t)
	return s, client
}

// newClientAt returns the URL of the services, too.
func newClientAt(t *testing.T) (*services, *service.Client, *url.URL) {
	t.Helper()
	s := &services{status: http.StatusOK}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	testkit.WriteFile(t, file, "canary-token\n")
	return s, service.New(server.Client().Transport, at, at, secret.File(file)), at
}

func TestAfter(t *testing.T) {
	s, client := newClient(t)
	s.text = `{"events":[{"cursor":"c8","organization_id":"acme","owner_id":"","recorded_at":"2026-01-02T03:04:05Z",
		"cloud_event":{"specversion":"1.0","id":"e1","source":"/switchyard/gateway","type":"switchyard.budget.threshold","subject":"key/k","data":{"percent":80}}}]}`
	events, err := client.After(t.Context(), "", "c7", 50)
	want := []alert.Event{{
		Cursor: "c8", ID: "e1", Organization: "acme", Type: "switchyard.budget.threshold", Subject: "key/k",
		Data: map[string]any{"percent": 80.0}, RecordedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}}
	if diff := cmp.Diff(want, events); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if s.asked != "GET /v1/house/events?cursor=c7&limit=50 " || s.header.Get("Authorization") != "Bearer canary-token" || s.header.Get("X-Organization-Id") != "" {
		t.Errorf("asked %s with %v", s.asked, s.header)
	}
	if _, err := client.After(t.Context(), "acme", "c7", 50); err != nil || s.header.Get("X-Organization-Id") != "acme" {
		t.Errorf("%v; an organization's events were asked for with %v", err, s.header)
	}
	for _, answer := range []string{"", "[]", `{"events":[{"cursor":8}]}`} {
		s.text = answer
		if events, err := client.After(t.Context(), "", "c7", 50); err == nil {
			t.Errorf("the answer %q gives %v", answer, events)
		}
	}
}

func TestSend(t *testing.T) {
	s, client := newClient(t)
	s.status = http.StatusAccepted
	e := houseevent.Event{
		ID: "edge-1", Organization: "acme", Type: houseevent.QuotaReached, Subject: "key/key_1", Data: []byte(`{"used":1}`),
		OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)),
	}
	if err := client.Send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	want := `POST /v1/house/events {"event_id":"edge-1","type":"switchyard.quota.reached","source":"/switchyard/edge","subject":"key/key_1","occurred_at":"2026-01-02T02:04:05Z","data":{"used":1}}`
	if s.asked != want || s.header.Get("X-Organization-Id") != "acme" {
		t.Errorf("asked %s of %s, want %s", s.asked, s.header.Get("X-Organization-Id"), want)
	}
	s.status = http.StatusServiceUnavailable
	if err := client.Send(t.Context(), e); err == nil {
		t.Error("an event that did not arrive counts as sent")
	}
}

func TestNotify(t *testing.T) {
	s, client := newClient(t)
	s.status = http.StatusAccepted
	n := alert.Notification{Organization: "acme", Title: "t", Body: "b", To: alert.Target{Channel: alert.WebPush, User: "ada"}, Key: "k"}
	if err := client.Notify(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if want := `POST /v1/notify {"channels":["web_push"],"subject":"t","message":"b","target":{"user_id":"ada"},"idempotency_key":"k"}`; s.asked != want {
		t.Errorf("asked %s, want %s", s.asked, want)
	}
	if got := s.header.Get("X-Organization-Id"); got != "acme" {
		t.Errorf("organization %q", got)
	}
	for status, refused := range map[int]bool{
		400: true, 404: true, 422: true, 401: false, 403: false, 408: false, 429: false, 500: false, 503: false,
	} {
		s.status = status
		err := client.Notify(t.Context(), n)
		if err == nil || errors.Is(err, alert.ErrRefused) != refused {
			t.Errorf("%d: %v, want a refusal: %t", status, err, refused)
		}
	}
}

// A body of notify's contract, by the names of its fields.
func TestNotificationHasTheContractsFields(t *testing.T) {
	s, client := newClient(t)
	for _, to := range []alert.Target{
		{Channel: alert.InApp},
		{Channel: alert.Slack},
		{Channel: alert.Email, Email: "a@example.com"},
		{Channel: alert.WebPush, Broadcast: true},
		{Channel: alert.Webhook, URL: "https://example.com"},
	} {
		if err := client.Notify(t.Context(), alert.Notification{Organization: "acme", Title: "t", Body: "b", To: to, Key: "k"}); err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal([]byte(strings.TrimPrefix(s.asked, "POST /v1/notify ")), &body); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"channels": []any{to.Channel}, "subject": "t", "message": "b", "idempotency_key": "k", "target": map[string]any{}}
		target, _ := want["target"].(map[string]any)
		for name, value := range map[string]any{"email": to.Email, "url": to.URL, "broadcast": to.Broadcast} {
			if value != "" && value != false {
				target[name] = value
			}
		}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("%s (-want +got):\n%s", to.Channel, diff)
		}
	}
}
