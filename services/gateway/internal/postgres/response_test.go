package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// ids returns the ids of rows in their order.
func ids(rows []conversation.Row) (out []string) {
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

func TestResponses(t *testing.T) {
	store := NewResponses(testkit.Postgres(t, migrations.FS))
	ada := conversation.Scope{Organization: "acme", Owner: "ada"}
	now := time.Now().UTC().Truncate(time.Microsecond)
	row := func(n int, previous string, of conversation.Scope, expires time.Duration) conversation.Row {
		return conversation.Row{
			Scope: of, ID: fmt.Sprint("resp_", n), Previous: previous, Items: []string{fmt.Sprint("msg_", n), fmt.Sprint("fc_", n)},
			Key: "k", Sealed: []byte{1, 2, byte(n)}, Size: 10, CreatedAt: now.Add(time.Duration(n-100) * time.Second), ExpiresAt: now.Add(expires),
		}
	}
	rows := []conversation.Row{
		row(1, "", ada, time.Hour), row(2, "resp_1", ada, time.Hour), row(3, "resp_2", ada, time.Hour),
		row(4, "", conversation.Scope{Organization: "acme"}, time.Hour), row(5, "resp_4", ada, time.Hour), row(6, "", ada, -time.Second),
	}
	for _, r := range rows {
		if err := store.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		id    string
		of    conversation.Scope
		turns int
		bytes int64
		want  []string
	}{
		{"resp_3", ada, 9, 100, []string{"resp_3", "resp_2", "resp_1"}},
		{"resp_3", ada, 2, 100, []string{"resp_3", "resp_2"}},
		{"resp_3", ada, 9, 5, []string{"resp_3"}},   // The first exceeds the bytes already.
		{"resp_5", ada, 9, 100, []string{"resp_5"}}, // Its predecessor is another owner's.
		{"resp_6", ada, 9, 100, nil},                // It has expired.
		{"resp_4", ada, 9, 100, nil},                // It is another owner's.
		{"resp_3", conversation.Scope{Organization: "bolt", Owner: "ada"}, 9, 100, nil},
	} {
		got, err := store.Chain(t.Context(), c.of, c.id, now, c.turns, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, ids(got)); diff != "" {
			t.Errorf("chain of %s for %v with %d turns, %d bytes (-want +got):\n%s", c.id, c.of, c.turns, c.bytes, diff)
		}
	}
	chain, err := store.Chain(t.Context(), ada, "resp_1", now, 1, 100)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows[:1], chain, cmpopts.IgnoreFields(conversation.Row{}, "Items")); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	held, err := store.Holding(t.Context(), ada, []string{"fc_1", "msg_3", "msg_4", "msg_6"}, now, 9)
	if diff := cmp.Diff([]string{"resp_3", "resp_1"}, ids(held)); err != nil || diff != "" {
		t.Errorf("%v, holding (-want +got):\n%s", err, diff)
	}
	for _, c := range []struct {
		of   conversation.Scope
		id   string
		want bool
	}{{conversation.Scope{Organization: "acme"}, "resp_1", false}, {ada, "resp_1", true}, {ada, "resp_1", false}, {ada, "resp_6", false}} {
		if deleted, err := store.Delete(t.Context(), c.of, c.id, now); err != nil || deleted != c.want {
			t.Errorf("%v deletes %s: %t, %v, want %t", c.of, c.id, deleted, err, c.want)
		}
	}
	if n, err := store.Drop(t.Context(), now, 9); err != nil || n != 1 {
		t.Errorf("dropped %d, %v, want the expired one", n, err)
	}
	if n, err := store.Erase(t.Context(), "acme", now.Add(-97*time.Second), 9); err != nil || n != 2 { // resp_2 and resp_3
		t.Errorf("erased %d, %v, want 2", n, err)
	}
	if n, err := store.Erase(t.Context(), "acme", now, 1); err != nil || n != 1 {
		t.Errorf("erased %d, %v, want no more than the limit", n, err)
	}
}

// A chain of a thousand turns is read with one statement.
func TestThousandTurns(t *testing.T) {
	const turns = 1000
	pool := testkit.Postgres(t, migrations.FS)
	testkit.Exec(t, pool, `INSERT INTO response (id, organization_id, owner_id, previous_id, item_ids, key_id, sealed, size, created_at, expires_at)
		SELECT 'resp_' || n, 'acme', 'ada', CASE n WHEN 1 THEN '' ELSE 'resp_' || n - 1 END, '{}', 'k', '', 10, now(), now() + interval '1 hour'
		FROM generate_series(1, $1::int) AS n`, turns)
	rows, err := NewResponses(pool).Chain(t.Context(), conversation.Scope{Organization: "acme", Owner: "ada"}, fmt.Sprint("resp_", turns), time.Now(), conversation.MaxTurns, conversation.MaxBytes)
	if err != nil || len(rows) != turns || rows[turns-1].ID != "resp_1" {
		t.Errorf("%d turns, %v, want %d", len(rows), err, turns)
	}
}
