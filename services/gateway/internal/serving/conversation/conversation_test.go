package conversation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// memory is a store in memory.
type memory struct{ rows map[string]conversation.Row }

func (m *memory) Insert(_ context.Context, r conversation.Row) error {
	m.rows[r.ID] = r
	return nil
}

func (m *memory) find(s conversation.Scope, id string, now time.Time) (conversation.Row, bool) {
	r, ok := m.rows[id]
	return r, ok && r.Scope == s && r.ExpiresAt.After(now)
}

func (m *memory) Chain(_ context.Context, s conversation.Scope, id string, now time.Time, turns int, bytes int64) (rows []conversation.Row, _ error) {
	for len(rows) < turns && bytes >= 0 {
		r, ok := m.find(s, id, now)
		if !ok {
			break
		}
		rows, id, bytes = append(rows, r), r.Previous, bytes-int64(r.Size)
	}
	return rows, nil
}

func (m *memory) Holding(_ context.Context, s conversation.Scope, items []string, now time.Time, _ int) (rows []conversation.Row, _ error) {
	for id := range m.rows {
		if r, ok := m.find(s, id, now); ok && slices.ContainsFunc(r.Items, func(item string) bool { return slices.Contains(items, item) }) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (m *memory) Delete(_ context.Context, s conversation.Scope, id string, now time.Time) (bool, error) {
	_, ok := m.find(s, id, now)
	delete(m.rows, id)
	return ok, nil
}

func (m *memory) Drop(context.Context, time.Time, int) (int, error) { return 0, nil }

func (m *memory) Erase(context.Context, string, time.Time, int) (int, error) {
	n := len(m.rows)
	clear(m.rows)
	return n, nil
}

var ada = conversation.Scope{Organization: "acme", Owner: "ada"}

func open(t *testing.T) (*conversation.Manager, *memory) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	testkit.WriteFile(t, file, strings.Repeat("k", trace.MinSecret)+"\n")
	keys, err := trace.NewKeys(secret.File(file))
	if err != nil {
		t.Fatal(err)
	}
	store := &memory{rows: make(map[string]conversation.Row)}
	return conversation.NewManager(store, keys, func(string) time.Duration { return time.Hour }), store
}

func turn(n int, previous string) conversation.Record {
	return conversation.Record{
		ID: fmt.Sprint("resp_", n), Previous: previous, CreatedAt: time.Now(), Items: []string{fmt.Sprint("msg_", n)},
		Input: json.RawMessage(fmt.Sprintf(`[{"id":"msg_%d","content":"secret words"}]`, n)), Response: json.RawMessage(`{"output":[]}`),
	}
}

func keep(t *testing.T, k *conversation.Manager, turns ...conversation.Record) {
	t.Helper()
	for _, one := range turns {
		if err := k.Keep(t.Context(), ada, one); err != nil {
			t.Fatal(err)
		}
	}
}

// A conversation is read as it was kept, oldest turn first; the store sees none of its words.
func TestChain(t *testing.T) {
	k, store := open(t)
	want := []conversation.Record{turn(1, ""), turn(2, "resp_1"), turn(3, "resp_2")}
	keep(t, k, want...)
	got, err := k.Chain(t.Context(), ada, "resp_3")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(conversation.Record{}, "Items")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if one, err := k.Get(t.Context(), ada, "resp_2"); err != nil || one.ID != "resp_2" {
		t.Errorf("%+v, %v, want the second turn", one, err)
	}
	for _, row := range store.rows {
		if strings.Contains(string(row.Sealed), "secret") {
			t.Errorf("the row holds the words: %q", row.Sealed)
		}
	}
}

// Another organization or owner, a deleted or expired turn and a broken chain all look the same.
func TestNotFound(t *testing.T) {
	k, store := open(t)
	keep(t, k, turn(1, ""), turn(2, "resp_1"), turn(3, "resp_2"))
	for _, other := range []conversation.Scope{{Organization: "bolt", Owner: "ada"}, {Organization: "acme", Owner: "bob"}, {Organization: "acme"}} {
		if _, err := k.Get(t.Context(), other, "resp_1"); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("%v reads it: %v", other, err)
		}
		if err := k.Delete(t.Context(), other, "resp_4"); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("%v deletes it: %v", other, err)
		}
		if turns, err := k.Holding(t.Context(), other, []string{"msg_1"}); err != nil || len(turns) > 0 {
			t.Errorf("%v finds %v, %v", other, turns, err)
		}
	}
	if err := k.Delete(t.Context(), ada, "resp_1"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Chain(t.Context(), ada, "resp_3"); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("a chain without its first turn: %v", err)
	}
	row := store.rows["resp_3"]
	row.ExpiresAt = time.Now().Add(-time.Second)
	store.rows["resp_3"] = row
	if _, err := k.Get(t.Context(), ada, "resp_3"); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("an expired turn: %v", err)
	}
}

// A row can't stand in for another one: it is sealed to its organization and its id.
func TestSwappedRows(t *testing.T) {
	k, store := open(t)
	keep(t, k, turn(1, ""), turn(2, ""))
	row := store.rows["resp_1"]
	row.Sealed = store.rows["resp_2"].Sealed
	store.rows["resp_1"] = row
	if _, err := k.Get(t.Context(), ada, "resp_1"); err == nil {
		t.Error("the content of another response is read")
	}
}

func TestTooLong(t *testing.T) {
	k, _ := open(t)
	previous := ""
	large := json.RawMessage(`["` + strings.Repeat("x", conversation.MaxBytes/4) + `"]`)
	for i := range 5 {
		one := turn(i, previous)
		one.Input = large
		keep(t, k, one)
		previous = one.ID
		_, err := k.Chain(t.Context(), ada, previous)
		if tooLong := errors.Is(err, conversation.ErrTooLong); tooLong != (i >= 3) {
			t.Errorf("%d turns of a quarter: %v", i+1, err)
		}
	}
	if _, err := k.Holding(t.Context(), ada, make([]string, conversation.MaxReferences+1)); !errors.Is(err, conversation.ErrTooLong) {
		t.Errorf("too many references: %v", err)
	}
}

func TestErase(t *testing.T) {
	k, store := open(t)
	keep(t, k, turn(1, ""), turn(2, "resp_1"))
	if n, err := k.Erase(t.Context(), "acme"); err != nil || n != 2 || len(store.rows) != 0 {
		t.Errorf("erased %d, %v, left %d", n, err, len(store.rows))
	}
}

// A conversation of a thousand turns is continued turn by turn: each turn stores itself alone.
func TestThousandTurns(t *testing.T) {
	const turns = 1000
	m, store := open(t)
	previous := ""
	for n := range turns {
		id := fmt.Sprint("resp_", n)
		if err := m.Keep(t.Context(), ada, conversation.Record{
			ID: id, Previous: previous, Input: []byte(`["` + strings.Repeat("x", 100) + `"]`), Response: []byte(`{}`), CreatedAt: time.Now(),
		}); err != nil {
			t.Fatal(err)
		}
		previous = id
	}
	chain, err := m.Chain(t.Context(), ada, previous)
	if err != nil || len(chain) != turns || chain[0].ID != "resp_0" || chain[turns-1].ID != previous {
		t.Fatalf("%d turns, %v, want %d in their order", len(chain), err, turns)
	}
	for id, row := range store.rows {
		if row.Size > 200 {
			t.Errorf("%s takes %d bytes", id, row.Size)
		}
	}
}
