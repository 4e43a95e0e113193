package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/eventtype"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

func TestEventTypes(t *testing.T) {
	store, _ := open(t)
	s := postgres.EventTypes{Store: store}
	moment := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	full := eventtype.Type{
		Name: "order.paid", Description: "An order is paid.", Schema: []byte(`{"required":["id"]}`), Validation: eventtype.Warn,
		Examples: [][]byte{[]byte(`{"id":1}`), []byte(`{"id": 2}`)}, Deprecated: true, Created: moment, Updated: moment,
	}
	if created, added, err := s.Put(t.Context(), "acme", full, 2); err != nil || !added || !created.Equal(moment) {
		t.Fatalf("put: %v, added %t, %v", created, added, err)
	}
	got, err := s.Get(t.Context(), "acme", "order.paid")
	if diff := cmp.Diff(full, got); err != nil || diff != "" {
		t.Errorf("%v, type (-want +got):\n%s", err, diff)
	}
	rule, found, err := s.Rule(t.Context(), "acme", "order.paid")
	if diff := cmp.Diff(eventtype.Rule{Validation: eventtype.Warn, Hash: full.Hash()}, rule); err != nil || !found || diff != "" {
		t.Errorf("found %t, %v, rule (-want +got):\n%s", found, err, diff)
	}
	bare := eventtype.Type{Name: "Order", Validation: eventtype.Reject, Updated: moment}
	if _, _, err := s.Put(t.Context(), "acme", bare, 2); err != nil {
		t.Fatal(err)
	}
	full.Validation, full.Updated = eventtype.Off, moment.Add(time.Hour)
	if created, added, err := s.Put(t.Context(), "acme", full, 2); err != nil || added || !created.Equal(moment) {
		t.Errorf("put again: %v, added %t, %v", created, added, err)
	}
	for _, name := range []string{"order.paid", "Order", "unknown"} { // Not checked, without a schema, not registered.
		if rule, found, err := s.Rule(t.Context(), "acme", name); err != nil || found {
			t.Errorf("%s: rule %v, %v", name, rule, err)
		}
	}
	if _, _, err := s.Put(t.Context(), "acme", eventtype.Type{Name: "more", Validation: eventtype.Off, Updated: moment}, 2); apierr.From(err) == nil || apierr.From(err).Kind != apierr.KindConflict {
		t.Errorf("a third of two: %v", err)
	}
	page, err := s.List(t.Context(), "acme", "", 9)
	want := []eventtype.Summary{
		{Name: "Order", Validation: eventtype.Reject, Created: moment, Updated: moment},
		{Name: "order.paid", Description: full.Description, HasSchema: true, Validation: eventtype.Off, Deprecated: true, Created: moment, Updated: full.Updated},
	}
	if diff := cmp.Diff(want, page); err != nil || diff != "" {
		t.Errorf("%v, page (-want +got):\n%s", err, diff)
	}
	if page, err = s.List(t.Context(), "acme", "Order", 1); err != nil || len(page) != 1 || page[0].Name != "order.paid" {
		t.Errorf("the next page: %v, %v", page, err)
	}
	for _, organization := range []string{"other", "acme"} {
		err := s.Delete(t.Context(), organization, "order.paid")
		if (err == nil) != (organization == "acme") {
			t.Errorf("delete of %s: %v", organization, err)
		}
	}
	if _, err := s.Get(t.Context(), "acme", "order.paid"); apierr.From(err) == nil || apierr.From(err).Kind != apierr.KindNotFound {
		t.Errorf("after the deletion: %v", err)
	}
}

// A rejected event is the first event of its key's result if the key was used, and leaves nothing otherwise: its key can be
// used again.
func TestFanOutOfRejected(t *testing.T) {
	s, _ := open(t)
	refusal := apierr.Invalid("payload", "breaks the schema")
	rejected := happening("acme", "", "order.paid")
	rejected.Key = "k"
	rejected.Rejected = refusal
	if _, err := s.FanOut(t.Context(), rejected); !errors.Is(err, refusal) {
		t.Fatalf("err = %v", err)
	}
	taken := happening("acme", "", "order.paid")
	taken.Key = "k"
	if result, err := s.FanOut(t.Context(), taken); err != nil || result.Deduplicated {
		t.Fatalf("the key after a rejected event: %+v, %v", result, err)
	}
	again := happening("acme", "", "order.paid")
	again.Key = "k"
	again.Rejected = refusal
	var result event.Result
	var err error
	if result, err = s.FanOut(t.Context(), again); err != nil || !result.Deduplicated || result.ID != taken.ID {
		t.Errorf("a repeat: %+v, %v", result, err)
	}
}
