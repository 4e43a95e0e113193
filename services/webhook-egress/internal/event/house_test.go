package event_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/event"
)

// houseStore answers with its results, one after another, and keeps the events.
type houseStore struct {
	events  []event.Event
	results []event.HouseResult
	errs    []error
}

func (s *houseStore) FanOutHouse(_ context.Context, e event.Event) (result event.HouseResult, err error) {
	s.events = append(s.events, e)
	if len(s.errs) > 0 {
		err, s.errs = s.errs[0], s.errs[1:]
		return event.HouseResult{}, err
	}
	result, s.results = s.results[0], s.results[1:]
	return result, nil
}

func (s *houseStore) ListHouse(context.Context, string, int64, int) ([]event.Recorded, error) {
	return nil, errors.New("away")
}

var budgetEvent = event.HouseRequest{
	ID: "b1", Organization: "acme", Type: "switchyard.budget.threshold", Source: "/switchyard/gateway", Subject: "organization/acme",
	Occurred: now, Data: []byte(`{"percent": 80}`),
}

func TestHouseEvent(t *testing.T) {
	store := &houseStore{errs: []error{delivery.ErrConflict}, results: []event.HouseResult{{Deliveries: 2}, {Deduplicated: true}}}
	waker := &memory{}
	h := event.NewHouse(store, waker, engine(t), 7, clock)
	if result, err := h.Emit(t.Context(), budgetEvent); err != nil || result.Deliveries != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	want := `{"specversion":"1.0","id":"b1","source":"/switchyard/gateway","type":"switchyard.budget.threshold",` +
		`"subject":"organization/acme","time":"2026-01-02T03:04:05Z","datacontenttype":"application/json","data":{"percent":80}}`
	e := store.events[1]
	wantJudge(t, &e, "event.payload.data.percent == 80 && event.type == 'switchyard.budget.threshold'")
	if diff := cmp.Diff(event.Event{
		Content: delivery.Content{
			Body: []byte(want), Headers: map[string]string{"Content-Type": "application/cloudevents+json"}, MaxAttempts: 7,
		},
		ID: e.ID, Organization: "acme", EventType: "switchyard.budget.threshold",
		Patterns: []string{"*", "switchyard.budget.threshold", "switchyard.*", "switchyard.budget.*"},
		Own:      true, Record: event.Record{ID: "b1", CloudEvent: []byte(want)},
	}, e); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if result, err := h.Emit(t.Context(), budgetEvent); err != nil || !result.Deduplicated {
		t.Errorf("repeat: %+v, %v", result, err)
	}
	if waker.woken != 1 {
		t.Errorf("woke the dispatcher %d times, want once: a repeat has no deliveries", waker.woken)
	}
	if _, err := h.List(t.Context(), "", 0, 1); err == nil {
		t.Error("a failed list has no error")
	}
}

func TestHouseEventRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*event.HouseRequest)
		field  string
	}{
		"no object":          {func(r *event.HouseRequest) { r.Data = []byte(`[1]`) }, "data"},
		"data cut off":       {func(r *event.HouseRequest) { r.Data = []byte(`{"a":`) }, "data"},
		"a subject with NUL": {func(r *event.HouseRequest) { r.Subject = "\x00" }, "subject"},
		"year 10000":         {func(r *event.HouseRequest) { r.Occurred = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "occurred_at"},
	} {
		t.Run(name, func(t *testing.T) {
			r, store := budgetEvent, &houseStore{}
			tt.change(&r)
			_, err := event.NewHouse(store, &memory{}, engine(t), 7, clock).Emit(t.Context(), r)
			if e := apierr.From(err); e == nil || e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, tt.field+":") || len(store.events) != 0 {
				t.Errorf("err = %v, want a refusal of %s", err, tt.field)
			}
		})
	}
}
