package billing

import (
	"encoding/json"
	"fmt"
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
