package channel_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/platform/netguard"
)

func checker(t *testing.T, allowed ...string) channel.URLChecker {
	t.Helper()
	guard, err := netguard.New(netguard.Options{AllowTargets: allowed})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func secrets(t *testing.T, organization, text string) channel.Directory {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, organization), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return channel.Directory(dir)
}

func TestWebhookTargets(t *testing.T) {
	webhook := channel.NewDirectWebhook(channel.DirectOptions{Checker: checker(t), Secrets: secrets(t, "acme", "s")})
	tests := map[string]struct {
		organization string
		target       channel.Target
		field        string
	}{
		"a URL":           {"acme", channel.Target{URL: "https://example.com/x"}, ""},
		"a payload":       {"acme", channel.Target{URL: "https://example.com/x", Payload: []byte(` {"a":1}`)}, ""},
		"no URL":          {"acme", channel.Target{}, "target.url"},
		"a path":          {"acme", channel.Target{URL: "/orders"}, "target.url"},
		"metadata":        {"acme", channel.Target{URL: "http://169.254.169.254/latest"}, "target.url"},
		"loopback":        {"acme", channel.Target{URL: "http://127.0.0.1/"}, "target.url"},
		"an array":        {"acme", channel.Target{URL: "https://example.com", Payload: []byte("[]")}, "target.payload"},
		"no JSON":         {"acme", channel.Target{URL: "https://example.com", Payload: []byte("{")}, "target.payload"},
		"blank":           {"acme", channel.Target{URL: "https://example.com", Payload: []byte(" ")}, "target.payload"},
		"too large":       {"acme", channel.Target{URL: "https://example.com", Payload: object(512<<10 + 1)}, "target.payload"},
		"data, no object": {"acme", channel.Target{URL: "https://example.com", Data: []byte("1")}, "target.data"},
		"no secret":       {"other", channel.Target{URL: "https://example.com/x"}, "organization_id"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := webhook.Prepare(t.Context(), channel.Message{Organization: tt.organization, Text: "x", Target: tt.target})
			switch {
			case tt.field == "" && err != nil:
				t.Error(err)
			case tt.field != "" && (err == nil || !strings.Contains(err.Error(), "channel webhook: "+tt.field+": ")):
				t.Errorf("error %v, want one of %s", err, tt.field)
			}
		})
	}
}

// The path of a webhook is its lane, whatever the query, which often differs from message to message.
func TestLaneOfWebhook(t *testing.T) {
	webhook := channel.NewDirectWebhook(channel.DirectOptions{Checker: checker(t), Secrets: secrets(t, "acme", "s")})
	lane := func(url string) string {
		t.Helper()
		work, err := webhook.Prepare(t.Context(), channel.Message{Organization: "acme", Text: "x", Target: channel.Target{URL: url}})
		if err != nil {
			t.Fatal(err)
		}
		return work.Lane
	}
	for other, same := range map[string]bool{
		"https://example.com/x": true, "https://example.com/x?order=7": true, "https://example.com/x/": false, "https://example.com/y": false,
	} {
		if got := lane(other) == lane("https://example.com/x?order=1"); got != same {
			t.Errorf("%s: the same lane %v, want %v", other, got, same)
		}
	}
}

func TestWebhookIsSigned(t *testing.T) {
	const key = "a-secret-of-thirty-two-bytes-..."
	var header http.Header
	var body string
	url, address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		header, body = r.Header, string(text)
	})
	at := time.Unix(1_780_000_000, 0)
	webhook := channel.NewDirectWebhook(channel.DirectOptions{
		Checker: checker(t, address), Poster: poster(t, time.Second, address), Secrets: secrets(t, "acme", key+"\n"),
		Now: func() time.Time { return at },
	})
	id := uuid.New()
	send := func(target channel.Target) {
		t.Helper()
		target.URL = url
		work, err := webhook.Prepare(t.Context(), channel.Message{ID: id, Organization: "acme", Subject: "s", Text: "<x>", Target: target})
		if err != nil {
			t.Fatal(err)
		}
		if o := webhook.Deliver(t.Context(), channel.Task{Notification: id, Organization: "acme", Number: 2, Work: work.Body}); o != channel.Delivered(200) {
			t.Fatalf("outcome %+v", o)
		}
	}
	send(channel.Target{Payload: []byte(`{"a": 12345678901234567890,  "b":"<"}`)})
	if body != `{"a": 12345678901234567890,  "b":"<"}` {
		t.Errorf("body %s", body)
	}
	send(channel.Target{Data: []byte(`{"n":12345678901234567890}`)})
	want := `{"notification_id":"` + id.String() + `","subject":"s","message":"<x>","url":"` + url + `","data":{"n":12345678901234567890}}`
	if body != want {
		t.Errorf("body %s, want %s", body, want)
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("1780000000." + body))
	for name, want := range map[string]string{
		"X-Webhook-Signature": hex.EncodeToString(mac.Sum(nil)), "X-Webhook-Timestamp": "1780000000", "X-Webhook-Id": id.String(),
		"X-Webhook-Attempt": "2", "X-Webhook-Event": "notification", "Webhook-Id": id.String(), "Content-Type": "application/json",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A receiver that says the secret back, with its prefix or without, isn't quoted.
func TestReceiverThatRepeatsTheSecret(t *testing.T) {
	const bare = "c2VjcmV0LW9mLXR3ZW50eS1mb3VyLWI="
	url, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not signed with whsec_"+bare+" ("+bare+")", http.StatusBadRequest)
	})
	webhook := channel.NewDirectWebhook(channel.DirectOptions{
		Checker: checker(t, address), Poster: poster(t, time.Second, address), Secrets: secrets(t, "acme", "whsec_"+bare+"\n"), Now: time.Now,
	})
	work, err := webhook.Prepare(t.Context(), channel.Message{Organization: "acme", Text: "x", Target: channel.Target{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	got := webhook.Deliver(t.Context(), channel.Task{Organization: "acme", Number: 1, Work: work.Body})
	if want := "not signed with [redacted] ([redacted])"; got.Detail != want || got.Kind != channel.Permanent {
		t.Errorf("outcome %+v, want the detail %q", got, want)
	}
}

// egress is webhook egress as a test wants it.
type egress struct {
	enqueued []channel.Delivery
	state    channel.DeliveryState
	err      error
}

func (e *egress) Enqueue(_ context.Context, d channel.Delivery) (string, error) {
	e.enqueued = append(e.enqueued, d)
	return "dlv-1", e.err
}

func (e *egress) Delivery(context.Context, string, string) (channel.DeliveryState, error) {
	return e.state, e.err
}

func TestWebhookThroughEgress(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	e := &egress{}
	webhook := channel.NewEgressWebhook(checker(t), e, "egress:9102", func() time.Time { return now.Add(100 * time.Second) })
	id := uuid.New()
	work, err := webhook.Prepare(t.Context(), channel.Message{ID: id, Organization: "acme", Text: "x", Target: channel.Target{
		URL: "https://EXAMPLE.com:443/x?token=t", Payload: []byte(`{"a":1}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	task := channel.Task{Notification: id, Organization: "acme", Number: 1, Work: work.Body, AcceptedAt: now, Deadline: now.Add(time.Hour)}
	if o := webhook.Deliver(t.Context(), task); o.Kind != channel.Handed || o.DeliveryID != "dlv-1" {
		t.Errorf("outcome %+v", o)
	}
	want := channel.Delivery{
		Organization: "acme", URL: "https://example.com/x?token=t", EventType: "notification", Payload: []byte(`{"a":1}`),
		Key: "notify:" + id.String(), Deadline: now.Add(58 * time.Minute),
	}
	if diff := cmp.Diff(want, e.enqueued[0]); diff != "" {
		t.Errorf("enqueued (-want +got):\n%s", diff)
	}

	followed := task
	followed.DeliveryID = "dlv-1"
	refused := &channel.EgressError{Kind: channel.Permanent, Class: "delivery_refused", Text: "url: https://example.com/x?token=t is bad"}
	away := &channel.EgressError{Kind: channel.RetryAfter, Class: channel.ClassConnect}
	tests := map[string]struct {
		task  channel.Task
		state channel.DeliveryState
		err   error
		want  channel.Outcome
	}{
		"refused":            {task, channel.DeliveryState{}, refused, channel.Failed("delivery_refused", 0, "url: https://example.com/x?token=t is bad")},
		"away":               {task, channel.DeliveryState{}, away, hostFailed(channel.Retry(channel.ClassConnect, 0, 0))},
		"token refused":      {task, channel.DeliveryState{}, &channel.EgressError{Kind: channel.Auth, Class: channel.ClassCredential}, channel.Denied(channel.ClassCredential, 0, false)},
		"under way":          {followed, channel.DeliveryState{}, nil, channel.HandedOver("dlv-1", 10*time.Second)},
		"can't be asked":     {followed, channel.DeliveryState{}, away, hostFailed(channel.HandedOver("dlv-1", 10*time.Second))},
		"delivered":          {followed, channel.DeliveryState{Ended: true, Delivered: true, Code: 204}, nil, channel.Delivered(204)},
		"failed":             {followed, channel.DeliveryState{Ended: true, Code: 500, Class: "http_5xx"}, nil, channel.Failed("http_5xx", 500, "")},
		"no such delivery":   {followed, channel.DeliveryState{}, &channel.EgressError{Kind: channel.Permanent, Class: "delivery_not_found"}, channel.Failed("delivery_not_found", 0, "")},
		"enqueued once more": {task, channel.DeliveryState{}, nil, channel.HandedOver("dlv-1", 500*time.Millisecond)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e.state, e.err = tt.state, tt.err
			got := webhook.Deliver(t.Context(), tt.task)
			if strings.Contains(got.Detail, "token") { // the URL may hold a credential
				got.Detail = strings.ReplaceAll(got.Detail, "https://example.com/x?token=t", "LEAK")
			}
			if strings.Contains(got.Detail, "LEAK") {
				t.Errorf("the detail repeats the URL: %s", got.Detail)
			}
			tt.want.Detail, got.Detail = "", ""
			if got != tt.want {
				t.Errorf("outcome %+v, want %+v", got, tt.want)
			}
		})
	}
}
