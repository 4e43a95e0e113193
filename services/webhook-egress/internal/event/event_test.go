package event_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/houseevent/houseeventtest"
	"switchyard.dev/services/platform/schema"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/eventtype"
	"switchyard.dev/services/webhook-egress/internal/filter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func clock() time.Time { return now }

// memory is a store, a store of notes and a waker.
type memory struct {
	mu        sync.Mutex
	events    []event.Event
	conflicts int
	result    event.Result
	notes     []event.Operational
	woken     int
	err       error
	checked   eventtype.Checked
	// poison is the type of the notes at which the store fails as refuse says.
	poison string
	refuse func() error
}

// with looks at it, or changes it, between what the tested does.
func (m *memory) with(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

func (m *memory) FanOut(_ context.Context, e event.Event) (event.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conflicts > 0 {
		m.conflicts--
		return event.Result{}, delivery.ErrConflict
	}
	m.events = append(m.events, e)
	return m.result, m.err
}

func (m *memory) Relay(_ context.Context, limit int, made func(event.Operational) (event.Event, error)) (int, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, 0, m.err
	}
	page := m.notes[:min(limit, len(m.notes))]
	var events []event.Event
	for _, note := range page {
		e, err := made(note)
		if errors.Is(err, event.ErrDropped) {
			continue
		}
		if err == nil && note.Type == m.poison {
			err = m.refuse()
		}
		if err != nil {
			return 0, 0, err
		}
		events = append(events, e)
	}
	m.events = append(m.events, events...)
	m.notes = m.notes[len(page):]
	return len(page), len(page), nil
}

func (m *memory) Check(context.Context, string, string, []byte) (eventtype.Checked, error) {
	return m.checked, m.err
}

func (m *memory) Waiting() { m.with(func() { m.woken++ }) }

// engine evaluates filters.
func engine(t *testing.T) *filter.Engine {
	t.Helper()
	e, err := filter.New(func(filter.Verdict) {})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// wantJudge checks that the judge of an event knows it, and removes it.
func wantJudge(t *testing.T, e *event.Event, expression string) {
	t.Helper()
	if verdict := e.Judge.Evaluate(expression); verdict != filter.Matched {
		t.Errorf("%s: the event is %q", expression, verdict)
	}
	e.Judge = nil
}

type sealer struct{}

func (sealer) Seal(text []byte, owner string) []byte { return []byte(owner + ":" + string(text)) }

func TestEmit(t *testing.T) {
	m := &memory{conflicts: 2, result: event.Result{Deliveries: make([]event.Fanned, 1)}}
	s := event.NewService(m, m, engine(t), m, delivery.Intake{Sealer: sealer{}, MaxAttempts: 12}, clock)
	r := event.Request{
		Asked:        delivery.Asked{Payload: []byte(`{"a": 1}`), Headers: map[string]string{"X-A": "b", "Authorization": "c"}},
		Organization: "acme", Owner: "ann", EventType: "order.paid", Key: "k", Traceparent: "t",
	}
	if _, err := s.Emit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	e := m.events[0]
	wantJudge(t, &e, "event.payload.a == 1 && event.type == 'order.paid' && event.organization_id == 'acme' && event.owner_id == 'ann'")
	want := event.Event{
		Content: delivery.Content{
			Body: []byte(`{"a": 1}`), Headers: map[string]string{"X-A": "b"}, Sealed: []byte(e.ID.String() + `:{"Authorization":"c"}`), MaxAttempts: 12,
		},
		ID: e.ID, Organization: "acme", Owner: "ann", EventType: "order.paid", Patterns: []string{"*", "order.paid", "order.*"},
		Key: "k", Fingerprint: e.Fingerprint, Traceparent: "t",
	}
	if diff := cmp.Diff(want, e); diff != "" || m.woken != 1 {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	m.result.Deduplicated = true
	r.EventType = "order.lost"
	if _, err := s.Emit(t.Context(), r); err != nil || m.woken != 1 || m.events[1].Fingerprint == e.Fingerprint {
		t.Errorf("a repeat woke the dispatcher: %v", err)
	}
	r.Owner = "bob"
	if _, err := s.Emit(t.Context(), r); err != nil || m.events[2].Fingerprint == m.events[1].Fingerprint {
		t.Errorf("another owner's is the same request: %v", err)
	}
	m.err = errors.New("away")
	if _, err := s.Emit(t.Context(), r); !errors.Is(err, m.err) {
		t.Errorf("err = %v", err)
	}
}

// A payload that breaks the schema of its type is refused, unless the event may be the repeat of one that was taken: the
// store knows. A warning comes with the result.
func TestEmitChecksPayloads(t *testing.T) {
	refusal := apierr.Invalid("payload", "breaks the schema")
	m := &memory{checked: eventtype.Checked{Rejected: refusal}}
	s := event.NewService(m, m, engine(t), m, delivery.Intake{MaxAttempts: 12}, clock)
	r := event.Request{Asked: delivery.Asked{Payload: []byte(`{}`)}, Organization: "acme", EventType: "order.paid"}
	if _, err := s.Emit(t.Context(), r); !errors.Is(err, refusal) || len(m.events) != 0 {
		t.Errorf("err = %v, %d events", err, len(m.events))
	}
	r.Key = "k"
	if _, err := s.Emit(t.Context(), r); err != nil || !errors.Is(m.events[0].Rejected, refusal) {
		t.Errorf("with a key: err = %v, events %+v", err, m.events)
	}
	warnings := []schema.Violation{{Pointer: "/a", Rule: "type: must be string"}}
	m.checked = eventtype.Checked{Warnings: warnings}
	result, err := s.Emit(t.Context(), r)
	if diff := cmp.Diff(warnings, result.Warnings); err != nil || diff != "" || m.events[1].Rejected != nil {
		t.Errorf("err = %v, warnings (-want +got):\n%s", err, diff)
	}
}

func TestEmitRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*event.Request)
		reason apierr.Reason
	}{
		"no object":       {func(r *event.Request) { r.Payload = []byte("[]") }, apierr.ReasonInvalidRequest},
		"too large":       {func(r *event.Request) { r.Payload = []byte(`{"a":"` + strings.Repeat("x", delivery.MaxPayload) + `"}`) }, delivery.ReasonPayloadTooLarge},
		"a header":        {func(r *event.Request) { r.Headers = map[string]string{"Host": "a"} }, delivery.ReasonHeaderNotAllowed},
		"a deadline past": {func(r *event.Request) { r.Deadline = now }, delivery.ReasonDeadlinePassed},
		"our own type":    {func(r *event.Request) { r.EventType = "switchyard.endpoint.failing" }, apierr.ReasonInvalidRequest},
		"a key with NUL":  {func(r *event.Request) { r.Key = "\x00" }, apierr.ReasonInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			r := event.Request{Asked: delivery.Asked{Payload: []byte(`{}`)}, Organization: "acme", EventType: "a"}
			tt.change(&r)
			_, err := event.NewService(m, m, engine(t), m, delivery.Intake{MaxAttempts: 12}, clock).Emit(t.Context(), r)
			if e := apierr.From(err); e == nil || e.Reason != tt.reason || len(m.events) != 0 {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		about, of := delivery.NewID(now), delivery.NewID(now)
		m := &memory{}
		for range 120 {
			m.notes = append(m.notes, event.Operational{Organization: "acme", Type: "switchyard.delivery.failed", Endpoint: about, Delivery: of, Owner: "ann", Occurred: now})
		}
		m.notes = append(m.notes, event.Operational{Organization: "acme", Type: "switchyard.delivery.failed", Delivery: of, Occurred: now})
		r := event.NewRelay(m, m, engine(t), 7, testkit.Logger(t), clock)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		m.mu.Lock()
		if len(m.events) != 121 || m.woken != 3 {
			t.Fatalf("%d events, woken %d times", len(m.events), m.woken)
		}
		want := `{"type":"switchyard.delivery.failed","occurred_at":"2026-01-02T03:04:05Z","organization_id":"acme","endpoint_id":"` +
			about.String() + `","delivery_id":"` + of.String() + `"}`
		e := m.events[0]
		wantJudge(t, &e, "event.payload.type == event.type")
		full := e
		full.Body, full.Except, full.Own, full.Concerned, full.MaxAttempts = []byte(want), about, true, "ann", 7
		if diff := cmp.Diff(full, e); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{
			"Ce-Specversion": "1.0", "Ce-Id": e.ID.String(), "Ce-Source": "/switchyard/webhook-egress", "Ce-Type": "switchyard.delivery.failed",
			"Ce-Subject": "endpoint/" + about.String(), "Ce-Time": "2026-01-02T03:04:05Z",
		}, e.Headers); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		wantRecord := `{"specversion":"1.0","id":"` + e.ID.String() + `","source":"/switchyard/webhook-egress","type":"switchyard.delivery.failed",` +
			`"subject":"endpoint/` + about.String() + `","time":"2026-01-02T03:04:05Z","datacontenttype":"application/json","data":` + want + `}`
		if diff := cmp.Diff(event.Record{ID: e.ID.String(), CloudEvent: []byte(wantRecord)}, e.Record); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		if len(e.Patterns) != 4 {
			t.Errorf("patterns %q, want 4", e.Patterns)
		}
		if e := m.events[120]; !strings.Contains(string(e.Body), `"endpoint_id":null`) || e.Except != (delivery.ID{}) {
			t.Errorf("body %s", e.Body)
		}
		m.err = errors.New("away") // it is tried again
		m.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		m.with(func() {
			m.err, m.notes = nil, []event.Operational{{Organization: "acme", Type: "switchyard.endpoint.failing", Endpoint: about, Occurred: now}}
		})
		time.Sleep(2 * time.Second)
		cancel()
		if err := <-done; err != nil || len(m.events) != 122 {
			t.Errorf("%d events, %v", len(m.events), err)
		}
	})
}

// The data of each of the service's own events match the schema of its type.
func TestRelayedData(t *testing.T) {
	about, of := delivery.NewID(now), delivery.NewID(now)
	target := event.Target{Host: "2001:db8::1", Port: 443, Opened: now.Add(-time.Minute)}
	for name, tt := range map[string]struct {
		note          event.Operational
		subject, data string
	}{
		"failing":             {event.Operational{Type: houseevent.EndpointFailing, Endpoint: about}, "endpoint/" + about.String(), `"endpoint_id":"` + about.String() + `"`},
		"recovered":           {event.Operational{Type: houseevent.EndpointRecovered, Endpoint: about}, "endpoint/" + about.String(), `"endpoint_id":"` + about.String() + `"`},
		"disabled":            {event.Operational{Type: houseevent.EndpointDisabled, Endpoint: about}, "endpoint/" + about.String(), `"endpoint_id":"` + about.String() + `"`},
		"failed":              {event.Operational{Type: houseevent.DeliveryFailed, Endpoint: about, Delivery: of}, "endpoint/" + about.String(), `"endpoint_id":"` + about.String() + `","delivery_id":"` + of.String() + `"`},
		"failed, no endpoint": {event.Operational{Type: houseevent.DeliveryFailed, Delivery: of}, "delivery/" + of.String(), `"endpoint_id":null,"delivery_id":"` + of.String() + `"`},
		"opened":              {event.Operational{Type: houseevent.TargetCircuitOpened, Target: target}, "target/[2001:db8::1]:443", `"host":"2001:db8::1","port":443,"opened_at":"2026-01-02T03:03:05Z"`},
		"closed":              {event.Operational{Type: houseevent.TargetCircuitClosed, Target: target}, "target/[2001:db8::1]:443", `"host":"2001:db8::1","port":443,"opened_at":"2026-01-02T03:03:05Z"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			tt.note.Organization, tt.note.Occurred = "acme", now
			m := &memory{notes: []event.Operational{tt.note}}
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			if err := event.NewRelay(m, m, engine(t), 7, testkit.Logger(t), clock).Run(ctx); err != nil || len(m.events) != 1 {
				t.Fatalf("%d events, %v", len(m.events), err)
			}
			e := m.events[0]
			want := `{"type":"` + tt.note.Type + `","occurred_at":"2026-01-02T03:04:05Z","organization_id":"acme",` + tt.data + "}"
			if string(e.Body) != want || e.Headers["Ce-Subject"] != tt.subject {
				t.Errorf("%s: body %s of %s, want %s of %s", name, e.Body, e.Headers["Ce-Subject"], want, tt.subject)
			}
			houseeventtest.Check(t, tt.note.Type, e.Body)
		})
	}
}

// A note that can't be relayed is dropped alone, and logged once; the others go out.
func TestRelayDropsThePoisonedNote(t *testing.T) {
	for name, refuse := range map[string]func() error{
		"rejected": func() error { return fmt.Errorf("bad value: %w", delivery.ErrRejected) },
		"panics":   func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{poison: "poison", refuse: refuse}
				for i := range 120 {
					m.notes = append(m.notes, event.Operational{Organization: "acme", Type: fmt.Sprintf("switchyard.%d", i)})
				}
				m.notes[60].Type = "poison"
				var log bytes.Buffer
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_ = event.NewRelay(m, m, engine(t), 3, slog.New(slog.NewTextHandler(&log, nil)), clock).Run(ctx)
				if n := len(m.events); n != 119 {
					t.Errorf("%d events went out, want 119", n)
				}
				if n := len(m.notes); n != 0 {
					t.Errorf("%d notes wait, want none", n)
				}
				if n := strings.Count(log.String(), "is dropped"); n != 1 {
					t.Errorf("logged %d times, want once: %s", n, log.String())
				}
			})
		})
	}
}
