package billing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
)

const (
	stripePath    = "/v1/billing/meter_events"
	openMeterPath = "/api/v1/events"
	lagoPath      = "/api/v1/events/batch"
)

func header(contentType string) map[string]string {
	return map[string]string{"Authorization": "Bearer key", "Content-Type": contentType}
}

func form(identifier, value string, at time.Time) string {
	return fmt.Sprintf("event_name=calls&identifier=%s&payload[stripe_customer_id]=cus_1&payload[value]=%s&timestamp=%d", identifier, value, at.Unix())
}

func cloudEvents(id, value string) string {
	return fmt.Sprintf(`[{"specversion":"1.0","type":"calls","id":%q,"source":"s","subject":"acme","time":"2026-11-01T00:00:00Z","data":{"value":%q}}]`, id, value)
}

func lagoEvents(values ...string) string {
	events := make([]string, len(values))
	for i, value := range values {
		id, amount, _ := strings.Cut(value, "=")
		events[i] = fmt.Sprintf(`{"transaction_id":%q,"external_subscription_id":"sub","code":"calls","timestamp":1,"properties":{"value":%q}}`, id, amount)
	}
	return `{"events":[` + strings.Join(events, ",") + `]}`
}

// Each system takes an event, counts it once however often it comes, and refuses what the real one refuses.
func TestDialects(t *testing.T) {
	now := time.Now()
	urlencoded, batch := header("application/x-www-form-urlencoded"), header("application/cloudevents-batch+json")
	for _, tt := range []struct {
		name, path, body string
		header           map[string]string
		status, again    int
		events           int
	}{
		{"stripe", stripePath, form("a", "3", now), urlencoded, 200, 400, 1},
		{"stripe, a fraction", stripePath, form("a", "3.5", now), urlencoded, 400, 400, 0},
		{"stripe, too old", stripePath, form("a", "3", now.AddDate(0, 0, -36)), urlencoded, 400, 400, 0},
		{"stripe, in the future", stripePath, form("a", "3", now.Add(time.Hour)), urlencoded, 400, 400, 0},
		{"stripe, without a key", stripePath, form("a", "3", now), map[string]string{"Content-Type": urlencoded["Content-Type"]}, 401, 401, 0},
		{"openmeter", openMeterPath, cloudEvents("a", "0.5"), batch, 204, 204, 1},
		{"openmeter, no number", openMeterPath, cloudEvents("a", "x"), batch, 400, 400, 0},
		{"openmeter, one event", openMeterPath, cloudEvents("a", "1"), header("application/cloudevents+json"), 400, 400, 0},
		{"lago", lagoPath, lagoEvents("a=1", "b=2.5"), header("application/json"), 200, 422, 2},
		{"lago, one wrong", lagoPath, lagoEvents("a=1", "b=x"), header("application/json"), 422, 422, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := New(fault.Script{})
			for i, status := range []int{tt.status, tt.again} {
				if got := fakestest.Send(t, srv, "POST", tt.path, tt.body, tt.header); got.Code != status {
					t.Errorf("call %d: status %d %s, want %d", i+1, got.Code, got.Body, status)
				}
			}
			if got := srv.events.Last(maxEvents, nil); len(got) != tt.events {
				t.Errorf("counted %+v, want %d events", got, tt.events)
			}
		})
	}
}

// The stream takes batches of a session, drops what it does not count without a word, and refuses batches that are too
// large and tokens that are no session's.
func TestStripeStream(t *testing.T) {
	srv, now := New(fault.Script{}), time.Now().UTC()
	event := func(identifier, value string) string {
		return fmt.Sprintf(`{"event_name":"calls","identifier":%q,"timestamp":%q,"payload":{"stripe_customer_id":"cus_1","value":%q}}`,
			identifier, now.Format(time.RFC3339), value)
	}
	batch := func(events ...string) string { return `{"events":[` + strings.Join(events, ",") + `]}` }
	var session struct {
		Token   string    `json:"authentication_token"`
		Expires time.Time `json:"expires_at"`
	}
	answer := fakestest.Send(t, srv, "POST", "/v2/billing/meter_event_session", "{}", header("application/json"))
	if err := json.Unmarshal(answer.Body.Bytes(), &session); err != nil || !session.Expires.After(now) {
		t.Fatalf("session %s: %v", answer.Body, err)
	}
	for _, tt := range []struct {
		name, token, body string
		status, events    int
	}{
		{"two events", session.Token, batch(event("a", "1"), event("b", "2")), 200, 2},
		{"one known, one a fraction, one new", session.Token, batch(event("a", "1"), event("c", "0.5"), event("d", "4")), 200, 3},
		{"no session", "key", batch(event("e", "1")), 401, 3},
		{"no events", session.Token, batch(), 400, 3},
		{"too many", session.Token, batch(slices.Repeat([]string{event("f", "1")}, 101)...), 400, 3},
	} {
		h := map[string]string{"Authorization": "Bearer " + tt.token, "Content-Type": "application/json"}
		if got := fakestest.Send(t, srv, "POST", "/v2/billing/meter_event_stream", tt.body, h); got.Code != tt.status {
			t.Errorf("%s: status %d %s, want %d", tt.name, got.Code, got.Body, tt.status)
		}
		if got := srv.events.Last(maxEvents, nil); len(got) != tt.events {
			t.Errorf("%s: counted %+v, want %d events", tt.name, got, tt.events)
		}
	}
}

// An identifier that comes with another value is told.
func TestRepeats(t *testing.T) {
	srv := New(fault.Script{})
	for _, value := range []string{"1", "1", "2"} {
		fakestest.Send(t, srv, "POST", openMeterPath, cloudEvents("a", value), header("application/cloudevents-batch+json"))
	}
	var got struct {
		Repeated int
		Changed  []string
	}
	if err := json.Unmarshal(fakestest.Send(t, srv, "GET", "/_repeats", "", nil).Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Repeated != 2 || len(got.Changed) != 1 || got.Changed[0] != "s a" {
		t.Errorf("got %+v, want 2 repeats, of which \"s a\" with another value", got)
	}
}

// Lago names each event that it refuses.
func TestLagoNamesFaults(t *testing.T) {
	srv := New(fault.Script{})
	fakestest.Send(t, srv, "POST", lagoPath, lagoEvents("known=1"), header("application/json"))
	got := fakestest.Send(t, srv, "POST", lagoPath, lagoEvents("new=1", "known=1", "=1"), header("application/json")).Body.String()
	for _, want := range []string{`"1":{"transaction_id":["value_already_exist"]}`, `"2":{"transaction_id":["value_is_mandatory"]}`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
}
