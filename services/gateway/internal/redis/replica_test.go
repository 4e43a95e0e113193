package redis

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/answer"
	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit"
)

// An answer that one replica takes reaches another one that waits for it.
func TestReplicas(t *testing.T) {
	client := testkit.Redis(t)
	a, b := answer.NewRouter(NewReplicas(client)), answer.NewRouter(NewReplicas(client))
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = a.Run(ctx) })
	group.Go(func() { _ = b.Run(ctx) })
	s := &session.Session{ID: "s1", Owner: session.Owner{Organization: "acme"}}
	q, err := a.Expect(s)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	got := make(chan string, 1)
	group.Go(func() {
		result, err := q.Wait(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- string(result)
	})
	testkit.Wait(t, "the answer", func() error {
		if err := b.Take(t.Context(), s, &wire.Message{ID: q.ID, Result: json.RawMessage(`{"action":"accept"}`)}); err != nil {
			return err
		}
		select {
		case text := <-got:
			if text != `{"action":"accept"}` {
				t.Errorf("%s", text)
			}
			return nil
		default:
			return context.DeadlineExceeded
		}
	})
	cancel()
	group.Wait()
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := NewReplicas(client).Send(ended, "r", nil); err == nil {
		t.Error("an answer is sent without a server")
	}
}
