package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
)

func TestClaims(t *testing.T) {
	client := testkit.Redis(t)
	c := NewClaims(client)
	later := time.Now().Add(time.Minute)
	claim := func(organization, id string, expires time.Time) bool {
		t.Helper()
		first, err := c.Claim(t.Context(), organization, id, expires)
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	if !claim("acme", "a", later) || claim("acme", "a", later) || !claim("acme", "b", later) || !claim("other", "a", later) {
		t.Error("a ticket is of use once, for its own organization")
	}
	if ttl := client.TTL(t.Context(), c.key("acme", "a")).Val(); ttl <= time.Minute || ttl > time.Minute+claimMargin {
		t.Errorf("kept for %s", ttl)
	}
	if claim("acme", "c", time.Now().Add(-time.Hour)) {
		t.Error("a ticket that has expired")
	}
	if err := c.Unclaim(t.Context(), "acme", "a"); err != nil || !claim("acme", "a", later) {
		t.Errorf("given back: %v", err)
	}

	var firsts atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if first, err := c.Claim(t.Context(), "acme", "many", later); err != nil {
				t.Error(err)
			} else if first {
				firsts.Add(1)
			}
		})
	}
	if all.Wait(); firsts.Load() != 1 {
		t.Errorf("%d used one ticket", firsts.Load())
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Claim(ended, "acme", "d", later); err == nil {
		t.Error("a claim without an answer")
	}
	if err := c.Unclaim(ended, "acme", "d"); err == nil {
		t.Error("given back without an answer")
	}
}
