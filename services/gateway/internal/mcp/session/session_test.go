package session

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/ticket/tickettest"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// states is a Store in memory.
type states struct {
	ids map[string]State
	err error
}

func (s *states) Get(_ context.Context, organization, id string) (State, error) {
	state, known := s.ids[organization+id]
	if !known {
		state.Level = -1
	}
	return state, s.err
}

func (s *states) set(organization, id string, change func(*State)) error {
	state, _ := s.Get(context.Background(), organization, id)
	if change(&state); s.err == nil {
		s.ids[organization+id] = state
	}
	return s.err
}

func (s *states) End(_ context.Context, organization, id string, _ time.Time) error {
	return s.set(organization, id, func(state *State) { state.Ended = true })
}

func (s *states) SetLevel(_ context.Context, organization, id string, _ time.Time, level int) error {
	return s.set(organization, id, func(state *State) { state.Level = level })
}

var (
	first  = tickettest.First
	second = tickettest.Second
	owner  = Owner{"acme", "k1", "edge", "ann", "files"}
)

func refused(t *testing.T, name string, err error, reason apierr.Reason) {
	t.Helper()
	if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Reason != reason {
		t.Errorf("%s: %v, want %s", name, err, reason)
	}
}

// Every replica that has the key reads a session; it is of use to its owner alone, until it expires or is ended.
func TestSessions(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	store := &states{ids: map[string]State{}}
	clock := func() time.Time { return now }
	one, two := &Manager{tickettest.Keys(t, first), store, clock}, &Manager{tickettest.Keys(t, second, first), store, clock}
	id, err := one.Begin(owner, "2025-11-25", json.RawMessage(`{ "elicitation": {} }`))
	if err != nil || len(id) > MaxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Fatalf("%q %v", id, err)
	}
	if again, _ := one.Begin(owner, "2025-11-25", nil); again == id {
		t.Error("two sessions of one id")
	}
	s, err := two.Open(t.Context(), owner, id)
	if err != nil || s.Version != "2025-11-25" || string(s.Capabilities) != `{"elicitation":{}}` || s.Owner != owner || !s.Expires.Equal(now.Add(Life)) {
		t.Fatalf("on another replica: %+v %v", s, err)
	}
	for name, of := range map[string]Owner{
		"organization": {"other", "k1", "edge", "ann", "files"}, "key": {"acme", "k2", "edge", "ann", "files"},
		"service": {"acme", "k1", "core", "ann", "files"}, "user": {"acme", "k1", "edge", "bob", "files"}, "server": {"acme", "k1", "edge", "ann", ""},
	} {
		_, err := one.Open(t.Context(), of, id)
		refused(t, "another "+name, err, apierr.ReasonNotFound)
		refused(t, "ended by another "+name, one.End(t.Context(), of, id), apierr.ReasonNotFound)
	}
	for name, bad := range map[string]string{
		"nothing": "", "no key": strings.Repeat("x", 30), "cut": id[:len(id)-1], "another end": id[:len(id)-2] + "AA", "long": strings.Repeat("a", MaxID+1),
		"another key": "00" + id[2:], "padded": id + "=", "uuid": "1868a90c-5c4b-4c2e-9a1a-000000000000",
	} {
		if _, err := one.Open(t.Context(), owner, bad); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	alone := &Manager{tickettest.Keys(t, second), store, clock}
	_, err = alone.Open(t.Context(), owner, id)
	refused(t, "without its key", err, apierr.ReasonNotFound)

	if s.Level != -1 {
		t.Errorf("level %d", s.Level)
	}
	if err := one.SetLevel(t.Context(), s, 3); err != nil {
		t.Fatal(err)
	}
	if s, err = two.Open(t.Context(), owner, id); err != nil || s.Level != 3 {
		t.Errorf("level on another replica: %+v %v", s, err)
	}
	store.err = errors.New("away")
	refused(t, "a level without the store", one.SetLevel(t.Context(), s, 4), apierr.ReasonUnavailable)
	_, err = one.Open(t.Context(), owner, id)
	refused(t, "without the store", err, apierr.ReasonUnavailable)
	store.err = nil
	store.err = ErrFull
	if err := one.SetLevel(t.Context(), s, 4); !errors.Is(err, ErrFull) {
		t.Errorf("of too many: %v", err)
	}
	store.err = nil
	if err := two.End(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	_, err = one.Open(t.Context(), owner, id)
	refused(t, "ended", err, apierr.ReasonNotFound)
	refused(t, "ended twice", one.End(t.Context(), owner, id), apierr.ReasonNotFound)

	id, _ = one.Begin(owner, "2025-06-18", json.RawMessage(`{"x":"`+strings.Repeat("y", 2000)+`"}`))
	if s, err := one.Open(t.Context(), owner, id); err != nil || s.Capabilities != nil {
		t.Errorf("of large capabilities: %+v %v", s, err)
	}
	now = now.Add(Life)
	_, err = one.Open(t.Context(), owner, id)
	refused(t, "expired", err, apierr.ReasonNotFound)
	if _, err := one.Begin(Owner{Organization: "acme", User: strings.Repeat("u", MaxID)}, "2025-06-18", nil); err == nil {
		t.Error("an id of any length")
	}
}

func TestReadGrowsLinearly(t *testing.T) {
	m := &Manager{Sealer: tickettest.Keys(t, first), Store: &states{}}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = m.read(owner, text) })...)
}

// FuzzRead checks that no text but a sealed one is a session.
func FuzzRead(f *testing.F) {
	f.Add("a.b")
	f.Add("0011223344556677.AAAA")
	f.Fuzz(func(t *testing.T, id string) {
		m := &Manager{Sealer: tickettest.Keys(t, first), Store: &states{}}
		if s, err := m.read(owner, id); err == nil {
			t.Fatalf("%q: %+v", id, s)
		}
	})
}
