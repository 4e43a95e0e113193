package toolcall

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
)

// Only what may be read is followed, at its server.
func TestFollows(t *testing.T) {
	c, w := offering(t)
	asked := make(map[string][]string)
	w.follow = func(_ context.Context, s *toolserver.Server, f *upstream.Follow) error {
		if f.Organization != "acme" {
			t.Errorf("for %s", f.Organization)
		}
		asked[s.ID] = f.URIs
		return errors.New("can't")
	}
	run := func(server string, uris ...string) map[string][]string {
		t.Helper()
		clear(asked)
		all, err := c.Follows(t.Context(), asker(), server, uris)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			one.Run(t.Context(), func(uris []string) {
				if uris != nil {
					t.Errorf("begun with %v", uris)
				}
			}, func(string) { t.Error("updated") })
		}
		return asked
	}
	w.rule(toolrule.Rule{Methods: []string{toolrule.MethodRead}, Tools: []string{"file:///b"}, Deny: true})
	if got := run("", "file:///a", "file:///b", "note://shared", "doc://one", "none:x"); !slices.Equal(got["files"], []string{"file:///a"}) || !slices.Equal(got["docs"], []string{"doc://one"}) {
		t.Errorf("of all: %v", got)
	}
	if got := run("files", "file:///b", "file:///any"); len(got) != 1 || !slices.Equal(got["files"], []string{"file:///any"}) {
		t.Errorf("of one: %v", got)
	}
	w.levels["files"] = trust.Untrusted
	if got := run("files", "file:///a"); len(got) > 0 {
		t.Errorf("untrusted: %v", got)
	}
	w.refused = ErrUntrusted
	if _, err := c.Follows(t.Context(), asker(), "files", []string{"file:///a"}); !errors.Is(err, ErrUntrusted) {
		t.Errorf("refused: %v", err)
	}
}

// A stream that has ended begins again; what may have changed meanwhile is said, unless it may no longer be read.
func TestFollowsAgain(t *testing.T) {
	c, w := offering(t)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		begun, first, updated := 0, 0, 0
		w.follow = func(_ context.Context, _ *toolserver.Server, f *upstream.Follow) error {
			mu.Lock()
			begun++
			again := begun > 1
			mu.Unlock()
			f.Begun(f.URIs)
			if !again {
				f.Updated("file:///a")
			}
			return errors.New("ended")
		}
		all, err := c.Follows(t.Context(), asker(), "files", []string{"file:///a"})
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			all[0].Run(ctx, func([]string) {
				mu.Lock()
				defer mu.Unlock()
				first++
			}, func(string) {
				mu.Lock()
				defer mu.Unlock()
				updated++
			})
		})
		time.Sleep(leastAgain + leastAgain/2)
		mu.Lock()
		if first != 1 || begun != 2 || updated != 2 {
			t.Errorf("begun %d and %d times, updated %d", first, begun, updated)
		}
		mu.Unlock()
		w.distrust()
		time.Sleep(10 * leastAgain)
		mu.Lock()
		if begun != 12 || updated != 2 {
			t.Errorf("begun %d times, updated %d", begun, updated)
		}
		mu.Unlock()
		cancel()
		group.Wait()
	})
}

// A stream that finds no place is begun again, but not for longer than the caller's stream waits.
func TestFollowWaitsForPlace(t *testing.T) {
	c, w := offering(t)
	busy := &upstream.Error{Cause: upstream.CauseBusy}
	for name, tt := range map[string]struct {
		fails int
		err   error
		begun []string
		tries int
		took  time.Duration
	}{
		"a place soon":  {2, busy, []string{"file:///a"}, 3, 2 * leastAgain},
		"no place":      {100, busy, nil, busyTries, (busyTries - 1) * leastAgain},
		"another error": {100, errors.New("can't"), nil, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				w.follow = func(ctx context.Context, _ *toolserver.Server, f *upstream.Follow) error {
					if tries++; tries <= tt.fails {
						return tt.err
					}
					f.Begun(f.URIs)
					<-ctx.Done()
					return ctx.Err()
				}
				all, err := c.Follows(t.Context(), asker(), "files", []string{"file:///a"})
				if err != nil || len(all) != 1 {
					t.Fatal(all, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				all[0].Run(ctx, func(uris []string) {
					if took := time.Since(start); !slices.Equal(uris, tt.begun) || tries != tt.tries || took != tt.took {
						t.Errorf("begun with %v after %d tries and %v", uris, tries, took)
					}
					cancel()
				}, func(string) { t.Error("updated") })
			})
		})
	}
}
