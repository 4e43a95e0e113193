package listing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is one in memory, of one server after another.
type store struct {
	mu      sync.Mutex
	due     []toolserver.Server
	settled []definition.Definition
	version string
	failed  []Error
	after   []time.Duration
	uses    []Use
	lost    bool
	err     error
	busy    bool
}

func (s *store) Claim(_ context.Context, _ time.Duration, full []string) (Claim, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.due, func(server toolserver.Server) bool { return !slices.Contains(full, server.Organization) })
	if s.err != nil || i < 0 {
		return Claim{}, false, s.err
	}
	c := Claim{Server: s.due[i], Failures: len(s.failed)}
	s.due = slices.Delete(s.due, i, i+1)
	return c, true, nil
}

func (s *store) ClaimOf(_ context.Context, key toolserver.Key, _ time.Duration) (Claim, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Claim{Server: toolserver.Server{Organization: key.Organization, ID: key.ID}, Failures: len(s.failed)}, !s.busy, s.err
}

func (s *store) Settle(_ context.Context, _ *Claim, version string, listed []definition.Definition, entry *audit.Entry) (definition.Changes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		return definition.Changes{}, ErrLost
	}
	if entry.Action != "tool_server.list" || entry.Actor != audit.RoleSystem {
		return definition.Changes{}, fmt.Errorf("audit entry %+v", entry)
	}
	s.settled, s.version = append(s.settled, listed...), version
	return definition.Decide(listed, nil), nil
}

func (s *store) Fail(_ context.Context, _ *Claim, f Error, after time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.after = append(s.failed, f), append(s.after, after)
	return nil
}

func (s *store) Use(_ context.Context, uses []Use) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.uses = append(s.uses, uses...)
	}
	return s.err
}

func (s *store) Hurry(_ context.Context, key toolserver.Key, after time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after != hurryAfter {
		return errors.New("hurried without a pause")
	}
	s.due = append(s.due, toolserver.Server{Organization: key.Organization, ID: key.ID})
	return s.err
}

func (s *store) put(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

type lister func(ctx context.Context, s *toolserver.Server) (definition.Listing, error)

func (l lister) List(ctx context.Context, s *toolserver.Server) (definition.Listing, error) {
	return l(ctx, s)
}

func one(text string) definition.Listing {
	return definition.Listing{ProtocolVersion: "2025-11-25", Tools: []definition.Listed{{Name: "a", Text: json.RawMessage(text)}}}
}

func refresher(s *store, l lister) *Refresher {
	return New(Options{Store: s, Lister: l, Log: slog.New(slog.DiscardHandler), Canonical: func(text []byte) ([]byte, error) {
		value := jsontext.Value(text).Clone()
		err := value.Canonicalize()
		return value, err
	}})
}

func TestRefresh(t *testing.T) {
	key := toolserver.Key{Organization: "acme", ID: "files"}
	for name, test := range map[string]struct {
		listing definition.Listing
		err     error
		class   Class
		text    string
	}{
		"tools":        {one(`{"a":1}`), nil, "", ""},
		"a failure":    {definition.Listing{}, &Error{ClassUnauthorized, "who\u202e are you?" + strings.Repeat("x", 500)}, ClassUnauthorized, `who\u{202E} are`},
		"another":      {definition.Listing{}, errors.New("dial 10.0.0.1: secret detail"), ClassUnreachable, "the server can't be asked"},
		"bad JSON":     {one(`{"a":1,"a":2}`), nil, ClassInvalid, "definition of tool 1"},
		"a large text": {one(`{"a":"` + strings.Repeat("x", definition.MaxText) + `"}`), nil, ClassTooLarge, "tool 1"},
	} {
		s := &store{}
		r := refresher(s, func(context.Context, *toolserver.Server) (definition.Listing, error) { return test.listing, test.err })
		if err := r.Refresh(t.Context(), key); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		switch {
		case test.class == "" && (len(s.settled) != 1 || s.settled[0].Server != key || s.version != "2025-11-25" || len(s.failed) != 0):
			t.Errorf("%s: %+v", name, s)
		case test.class != "" && (len(s.failed) != 1 || s.failed[0].Class != test.class || !strings.Contains(s.failed[0].Text, test.text) || len([]rune(s.failed[0].Text)) > MaxErrorText+20):
			t.Errorf("%s: %+v", name, s.failed)
		}
	}
	s := &store{busy: true}
	if err := refresher(s, nil).Refresh(t.Context(), key); !errors.Is(err, errBusy) {
		t.Errorf("while another lists it: %v", err)
	}
	s = &store{lost: true}
	if err := refresher(s, func(context.Context, *toolserver.Server) (definition.Listing, error) { return one("{}"), nil }).Refresh(t.Context(), key); !errors.Is(err, errBusy) {
		t.Errorf("of a server that changed meanwhile: %v", err)
	}
	s = &store{}
	if err := refresher(s, func(context.Context, *toolserver.Server) (definition.Listing, error) { panic("boom") }).Refresh(t.Context(), key); err != nil || len(s.failed) != 1 {
		t.Errorf("a lister that panics: %v, %+v", err, s.failed)
	}
	// A caller that has gone is no failure of the server.
	gone, cancel := context.WithCancel(t.Context())
	s = &store{}
	err := refresher(s, func(ctx context.Context, _ *toolserver.Server) (definition.Listing, error) {
		cancel()
		return definition.Listing{}, ctx.Err()
	}).Refresh(gone, key)
	if !errors.Is(err, context.Canceled) || len(s.failed) != 0 {
		t.Errorf("%v, %+v", err, s.failed)
	}
}

// A server that never answers takes listTime, and no longer.
func TestListingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		r := refresher(s, func(ctx context.Context, _ *toolserver.Server) (definition.Listing, error) {
			<-ctx.Done()
			return definition.Listing{}, ctx.Err()
		})
		start := time.Now()
		if err := r.Refresh(t.Context(), toolserver.Key{ID: "s"}); err != nil || time.Since(start) != listTime || s.failed[0].Class != ClassTimeout {
			t.Errorf("%v after %v: %+v", err, time.Since(start), s.failed)
		}
	})
}

// One organization's servers that never answer don't keep workers from another organization's servers.
func TestOrganizationHasItsShareOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		for i := range 200 {
			s.due = append(s.due, toolserver.Server{Organization: "hostile", ID: fmt.Sprint(i)})
		}
		s.due = append(s.due, toolserver.Server{Organization: "acme", ID: "files"})
		var hanging, most int
		r := refresher(s, func(ctx context.Context, server *toolserver.Server) (definition.Listing, error) {
			if server.Organization == "acme" {
				return one("{}"), nil
			}
			s.put(func() { hanging++; most = max(most, hanging) })
			<-ctx.Done()
			s.put(func() { hanging-- })
			return definition.Listing{}, ctx.Err()
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(turnEvery)
		synctest.Wait()
		s.put(func() {
			if len(s.settled) != 1 || s.settled[0].Server.Organization != "acme" {
				t.Errorf("beside hanging servers %d were listed within %v, want the other organization's", len(s.settled), turnEvery)
			}
		})
		time.Sleep(2 * listTime) // Listings that end make room for the organization's next ones.
		synctest.Wait()
		s.put(func() {
			if most != share || len(s.failed) != 2*share {
				t.Errorf("%d listings at once, %d ended; want %d and %d", most, len(s.failed), share, 2*share)
			}
		})
		stop()
		if err := <-done; err != nil || len(r.working) > 0 {
			t.Errorf("%v, %d organizations are left", err, len(r.working))
		}
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{due: []toolserver.Server{{ID: "a"}, {ID: "b"}}}
		r := refresher(s, func(context.Context, *toolserver.Server) (definition.Listing, error) { return one("{}"), nil })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(turnEvery)
		synctest.Wait()
		s.put(func() {
			if len(s.settled) != 2 {
				t.Errorf("%d servers were listed", len(s.settled))
			}
		})
		// One that says that it has changed is listed without waiting for the next turn.
		if err := r.Changed(t.Context(), toolserver.Key{ID: "c"}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		s.put(func() {
			if len(s.settled) != 3 || s.settled[2].Server.ID != "c" {
				t.Errorf("%d servers were listed", len(s.settled))
			}
			s.err = errors.New("away")
		})
		// Uses are reported together, and again if they can't be stored.
		for range 100 {
			r.Used(toolserver.Key{ID: "a"})
			r.Used(toolserver.Key{ID: "b"})
		}
		time.Sleep(useEvery)
		synctest.Wait()
		s.put(func() { s.err = nil })
		time.Sleep(useEvery)
		synctest.Wait()
		s.put(func() {
			if len(s.uses) != 2 {
				t.Errorf("uses %v", s.uses)
			}
			for _, use := range s.uses {
				if use.After < refreshAfter-refreshJitter || use.After > refreshAfter+refreshJitter {
					t.Errorf("listed again after %v", use.After)
				}
			}
		})
		r.Used(toolserver.Key{ID: "last"})
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(s.uses) != 3 || s.uses[2].Key.ID != "last" {
			t.Errorf("the last use is lost: %v", s.uses)
		}
	})
}

func TestFailureAfter(t *testing.T) {
	for failures := 1; failures <= patience; failures++ {
		most, least := failureAfter(failures, 0), failureAfter(failures, 1)
		if most > failureMost || least < failureLeast*3/4 || most < least || failures > 1 && most < failureAfter(failures-1, 0) {
			t.Errorf("%d failures: %v to %v", failures, least, most)
		}
	}
	if failureAfter(1, 0) != failureLeast || failureAfter(patience, 0) != failureMost || failureAfter(patience+1, 0.5) != 0 {
		t.Errorf("%v, %v", failureAfter(1, 0), failureAfter(patience, 0))
	}
}
