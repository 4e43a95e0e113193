package offering

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
)

// lister answers with one item, whose text has a size.
type lister struct {
	asked atomic.Int32
	wait  time.Duration
	size  int
	err   error
}

func (l *lister) Offered(ctx context.Context, s *toolserver.Server, organization string, of upstream.Offer) ([]upstream.Item, error) {
	l.asked.Add(1)
	select {
	case <-time.After(l.wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return []upstream.Item{{Key: s.ID + organization + string(of), Text: []byte(strings.Repeat("x", l.size))}}, l.err
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{wait: time.Second}
		c := New(l)
		server := &toolserver.Server{ID: "a", Version: 1}
		ask := func(organization string, s *toolserver.Server) {
			t.Helper()
			items, err := c.Of(t.Context(), organization, s, upstream.Prompts)
			if err != nil || len(items) != 1 || items[0].Key != s.ID+organization+"prompts/list" {
				t.Fatalf("%v %v", items, err)
			}
		}
		count := func(want int32, when string) {
			t.Helper()
			if got := l.asked.Load(); got != want {
				t.Fatalf("%s: asked %d times, want %d", when, got, want)
			}
		}
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() { ask("acme", server) })
		}
		group.Wait()
		count(1, "many at once")
		ask("other", server)
		count(2, "another organization")
		ask("acme", &toolserver.Server{ID: "a", Version: 2})
		count(3, "another version")
		ask("acme", server)
		count(3, "again")
		c.Changed(toolserver.Key{ID: "b"})
		ask("acme", server)
		count(3, "another server changed")
		c.Changed(server.Key())
		ask("acme", server)
		count(4, "it changed")
		time.Sleep(keepFor)
		ask("acme", server)
		count(5, "it is old")
		l.err = errors.New("away")
		time.Sleep(keepFor)
		for range 3 {
			if _, err := c.Of(t.Context(), "acme", server, upstream.Prompts); !errors.Is(err, l.err) {
				t.Fatal(err)
			}
		}
		count(6, "it fails")
		l.err = nil
		time.Sleep(pauseFor)
		ask("acme", server)
		count(7, "after the failure")
	})
}

// A caller that goes away leaves its turn to the next; none waits for longer than its bound.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{wait: time.Hour}
		c := New(l)
		server := &toolserver.Server{ID: "a", Version: 1}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _, _ = c.Of(ctx, "acme", server, upstream.Prompts) })
		synctest.Wait()
		l.wait = 0
		cancel()
		if _, err := c.Of(t.Context(), "acme", server, upstream.Prompts); err != nil {
			t.Errorf("the next: %v", err)
		}
		group.Wait()
		l.wait = time.Hour
		time.Sleep(keepFor)
		begun := time.Now()
		if _, err := c.Of(t.Context(), "acme", server, upstream.Prompts); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != listTime {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		// After a server hung, the next callers don't wait until it is asked again.
		begun, asked := time.Now(), l.asked.Load()
		if _, err := c.Of(t.Context(), "acme", server, upstream.Prompts); err == nil || time.Since(begun) > 0 || l.asked.Load() != asked {
			t.Errorf("the next caller: %v after %s, asked %d times", err, time.Since(begun), l.asked.Load()-asked)
		}
		l.wait = 0
		time.Sleep(keepFor)
		if _, err := c.Of(t.Context(), "acme", server, upstream.Prompts); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	l := &lister{size: maxBytes / 4}
	c := New(l)
	for i := range 10 {
		if _, err := c.Of(t.Context(), "acme", &toolserver.Server{ID: fmt.Sprint(i)}, upstream.Prompts); err != nil {
			t.Fatal(err)
		}
		if c.bytes > maxBytes || c.bytes < 0 {
			t.Fatalf("holds %d bytes", c.bytes)
		}
	}
	if n := c.kept.Len(); n < 3 || n > 4 {
		t.Errorf("holds %d lists", n)
	}
}
