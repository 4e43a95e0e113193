package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/mcp/subscription"
	"switchyard.dev/services/platform/testkit"
)

func TestSubscriptions(t *testing.T) {
	client := testkit.Redis(t)
	s := NewSubscriptions(client)
	of := subscription.Session{Organization: "acme a", ID: "s:1"}
	list := func(of subscription.Session) []string {
		t.Helper()
		uris, err := s.List(t.Context(), of, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(uris)
		return uris
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range subscription.MaxURIs {
		must(s.Add(t.Context(), of, fmt.Sprint("u", i), time.Minute))
	}
	must(s.Add(t.Context(), of, "u7", time.Minute))
	if err := s.Add(t.Context(), of, "one more", time.Minute); !errors.Is(err, subscription.ErrFull) {
		t.Errorf("of too many: %v", err)
	}
	must(s.Remove(t.Context(), of, "u7"))
	must(s.Remove(t.Context(), of, "u7"))
	must(s.Add(t.Context(), of, "one more", time.Minute))
	if got := list(of); len(got) != subscription.MaxURIs || got[0] != "one more" {
		t.Errorf("%v", got)
	}
	if got := list(subscription.Session{Organization: "acme", ID: "a s:1"}); len(got) > 0 {
		t.Errorf("of another session: %v", got)
	}
	for _, key := range []string{s.resources(of), s.sessions(of.Organization)} {
		if ttl := client.TTL(t.Context(), key).Val(); ttl <= time.Minute || ttl > time.Hour {
			t.Errorf("%s is kept for %s", key, ttl)
		}
	}

	full := make([]redis.Z, maxSubscribers)
	for i := range full {
		full[i] = redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: fmt.Sprint("s", i)}
	}
	must(client.ZAdd(t.Context(), s.sessions("busy"), full...).Err())
	if err := s.Add(t.Context(), subscription.Session{Organization: "busy", ID: "new"}, "u", time.Minute); !errors.Is(err, subscription.ErrFull) {
		t.Errorf("of too many sessions: %v", err)
	}
	must(s.Add(t.Context(), subscription.Session{Organization: "busy", ID: "s1"}, "u", time.Minute))
	must(client.ZAdd(t.Context(), s.sessions("busy"), redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix()), Member: "s0"}).Err())
	must(s.Add(t.Context(), subscription.Session{Organization: "busy", ID: "new"}, "u", time.Minute))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.List(ended, of, time.Hour)
	for _, err := range []error{err, s.Add(ended, of, "u", time.Hour), s.Remove(ended, of, "u")} {
		if err == nil {
			t.Error("no error without an answer")
		}
	}
}

// What one replica changes, another one learns.
func TestSubscriptionsChange(t *testing.T) {
	client := testkit.Redis(t)
	s := NewSubscriptions(client)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	changed := make(chan subscription.Session, 100)
	group.Go(func() {
		_ = NewSubscriptions(client).Watch(ctx, func(of subscription.Session) {
			select {
			case changed <- of:
			default:
			}
		})
	})
	for id, change := range map[string]func(of subscription.Session) error{
		"s 1": func(of subscription.Session) error { return s.Add(t.Context(), of, "u", time.Minute) },
		"s 2": func(of subscription.Session) error { return s.Remove(t.Context(), of, "u") },
	} {
		of := subscription.Session{Organization: "acme a", ID: id}
		testkit.Wait(t, "the notice", func() error {
			if err := change(of); err != nil {
				return err
			}
			select {
			case got := <-changed:
				if got == of {
					return nil
				}
			default:
			}
			return errors.New("nothing")
		})
	}
	cancel()
	group.Wait()
}
