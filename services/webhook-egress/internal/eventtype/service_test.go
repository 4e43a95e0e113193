package eventtype_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/schema"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/eventtype"
)

// one is a store of one type, which counts how often the type is read.
type one struct {
	eventtype.Store

	held  eventtype.Type
	rule  eventtype.Rule
	reads int
	err   error
}

func (s *one) Rule(context.Context, string, string) (rule eventtype.Rule, found bool, err error) {
	return s.rule, s.rule != eventtype.Rule{}, s.err
}

func (s *one) Get(context.Context, string, string) (eventtype.Type, error) {
	s.reads++
	if s.held.Name == "" {
		return eventtype.Type{}, apierr.NotFound("event type")
	}
	return s.held, nil
}

func (s *one) Put(_ context.Context, _ string, t eventtype.Type, _ int) (time.Time, bool, error) {
	s.hold(string(t.Schema), t.Validation)
	return t.Updated, true, nil
}

// hold replaces the type.
func (s *one) hold(text string, validation eventtype.Validation) {
	s.held = eventtype.Type{Name: "order.paid", Schema: []byte(text), Validation: validation}
	s.rule = eventtype.Rule{Validation: validation, Hash: s.held.Hash()}
}

func TestCheck(t *testing.T) {
	store := &one{}
	var verdicts []eventtype.Verdict
	s := eventtype.NewService(eventtype.Options{
		Store: store, Limit: 9, Log: testkit.Logger(t), Now: time.Now, Observe: func(v eventtype.Verdict) { verdicts = append(verdicts, v) },
	})
	check := func(payload string) eventtype.Checked {
		t.Helper()
		checked, err := s.Check(t.Context(), "acme", "order.paid", []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		return checked
	}
	none := func(what, payload string) {
		t.Helper()
		if checked := check(payload); checked.Rejected != nil || checked.Warnings != nil {
			t.Errorf("%s: %+v", what, checked)
		}
	}
	none("a type that is not registered", `{}`)
	store.hold(`{"required":["id"]}`, eventtype.Reject)
	none("a right payload", `{"id":1}`)
	want := `payload: breaks the schema of the event type: required: must have the property "id"`
	if checked := check(`{}`); apierr.From(checked.Rejected) == nil || apierr.From(checked.Rejected).Text != want {
		t.Errorf("rejected = %v", checked.Rejected)
	} else if diff := cmp.Diff([]apierr.Violation{{Rule: `required: must have the property "id"`}}, apierr.From(checked.Rejected).Violations); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	store.hold(`{"required":["id"]}`, eventtype.Warn)
	if diff := cmp.Diff([]schema.Violation{{Rule: `required: must have the property "id"`}}, check(`{}`).Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if store.reads != 1 {
		t.Errorf("the schema was read %d times, want once", store.reads)
	}
	if _, _, err := s.Put(t.Context(), "acme", eventtype.Type{Name: "order.paid", Schema: []byte(`{"required":["other"]}`)}); err != nil {
		t.Fatal(err)
	}
	if checked := check(`{"id":1}`); checked.Rejected == nil || store.reads != 1 {
		t.Errorf("after a change: %+v, %d reads", checked, store.reads)
	}
	store.hold(`{"type":"a type of a later release"}`, eventtype.Reject)
	none("a schema that can't be read", `{}`)
	store.held = eventtype.Type{}
	none("a type that was removed meanwhile", `{}`)
	if diff := cmp.Diff([]eventtype.Verdict{"valid", "rejected", "warned", "rejected", "failed"}, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	store.err = errors.New("away")
	if _, err := s.Check(t.Context(), "acme", "order.paid", []byte(`{}`)); !errors.Is(err, store.err) {
		t.Errorf("err = %v", err)
	}
}

// Schemas that all weigh too much are compiled again, those that were used last are not.
func TestCacheIsBounded(t *testing.T) {
	cache := schema.NewCache()
	hash := func(i int) [32]byte { return eventtype.Type{Schema: fmt.Append(nil, i)}.Hash() }
	large := `{"allOf":[` + strings.Repeat(`{"minimum":1},`, 1900) + `{}]}`
	const schemas = 60
	s, err := schema.Compile([]byte(large))
	if err != nil {
		t.Fatal(err)
	}
	for i := range schemas {
		cache.Add(hash(i), s)
		cache.Add(hash(i), s) // It counts once.
	}
	kept := 0
	for i := range schemas {
		if cache.Get(hash(i)) != nil {
			kept++
		}
	}
	if cache.Get(hash(0)) != nil || cache.Get(hash(schemas-1)) == nil || kept < 25 || kept > 40 {
		t.Errorf("%d schemas of 1,900 subschemas are kept, want about 34", kept)
	}
}
