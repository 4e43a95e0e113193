package redis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/platform/testkit"
)

func TestEndedSessions(t *testing.T) {
	client := testkit.Redis(t)
	e := NewEndedSessions(client)
	later := time.Now().Add(time.Hour)
	has := func(organization, id string, want bool) {
		t.Helper()
		if got, err := e.Has(t.Context(), organization, id); got != want || err != nil {
			t.Errorf("%s of %s: %t %v", id, organization, got, err)
		}
	}
	has("acme", "a", false)
	if err := e.Add(t.Context(), "acme", "a", later); err != nil {
		t.Fatal(err)
	}
	has("acme", "a", true)
	has("acme", "b", false)
	has("acme:", "a", false)
	has("other", "a", false)
	if ttl := client.TTL(t.Context(), e.key("acme")).Val(); ttl <= 0 || ttl > session.Life {
		t.Errorf("kept for %s", ttl)
	}

	full := make([]redis.Z, maxEnded)
	for i := range full {
		full[i] = redis.Z{Score: float64(later.Unix()), Member: fmt.Sprint("s", i)}
	}
	if err := client.ZAdd(t.Context(), e.key("busy"), full...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := e.Add(t.Context(), "busy", "one more", later); !errors.Is(err, session.ErrFull) {
		t.Errorf("of too many: %v", err)
	}
	if err := e.Add(t.Context(), "busy", "s1", later); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := client.ZAdd(t.Context(), e.key("busy"), redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix()), Member: "s0"}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := e.Add(t.Context(), "busy", "one more", later); err != nil {
		t.Errorf("once one has expired: %v", err)
	}
	has("busy", "s0", false)
}
