package redis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/platform/testkit"
)

func TestSessions(t *testing.T) {
	client := testkit.Redis(t)
	s := NewSessions(client)
	later := time.Now().Add(time.Hour)
	has := func(organization, id string, want session.State) {
		t.Helper()
		if got, err := s.Get(t.Context(), organization, id); got != want || err != nil {
			t.Errorf("%s of %s: %+v %v, want %+v", id, organization, got, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fresh := session.State{Level: -1}
	has("acme", "a", fresh)
	for level := range levels {
		must(s.SetLevel(t.Context(), "acme", "a", later, level))
		has("acme", "a", session.State{Level: level})
	}
	has("acme", "b", fresh)
	has("other", "a", fresh)
	must(s.End(t.Context(), "acme", "a", later))
	has("acme", "a", session.State{Ended: true, Level: levels - 1})
	has("acme", "b", fresh)
	for _, key := range []string{s.ended("acme"), s.leveled("acme")} {
		if ttl := client.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > session.Life {
			t.Errorf("%s is kept for %s", key, ttl)
		}
	}

	full := make([]redis.Z, maxSessions)
	for i := range full {
		full[i] = redis.Z{Score: float64(later.Unix() * levels), Member: fmt.Sprint("s", i)}
	}
	must(client.ZAdd(t.Context(), s.ended("busy"), full...).Err())
	if err := s.End(t.Context(), "busy", "one more", later); !errors.Is(err, session.ErrFull) {
		t.Errorf("of too many: %v", err)
	}
	must(s.End(t.Context(), "busy", "s1", later))
	must(client.ZAdd(t.Context(), s.ended("busy"), redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix() * levels), Member: "s0"}).Err())
	must(s.End(t.Context(), "busy", "one more", later))
	has("busy", "s0", fresh)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ended, "acme", "a"); err == nil {
		t.Error("a state without an answer")
	}
}
