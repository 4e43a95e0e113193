package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store holds what operators have set, in memory. Each change is a version.
type store struct {
	mu            sync.Mutex
	organizations []organization.Organization
	runs          []run.Run
	away          error
	asked         int // number of lookups of single runs
	released      []uuid.UUID
	refuses       error
}

func (s *store) setOrganization(of organization.Organization) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.organizations = append(s.organizations, of)
}

func (s *store) setRun(of run.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, of)
}

type organizations struct{ *store }

func (s organizations) Since(_ context.Context, since int64) ([]organization.Organization, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]organization.Organization(nil), s.organizations[since:]...), int64(len(s.organizations)), s.away
}

type runs struct{ *store }

func (s runs) Since(_ context.Context, since int64) ([]run.Run, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]run.Run(nil), s.runs[since:]...), int64(len(s.runs)), s.away
}

func (s runs) Get(_ context.Context, organization, id string) (of run.Run, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for _, r := range s.runs {
		if r.Organization == organization && r.ID == id {
			of, found = r, true
		}
	}
	return of, found, s.away
}

func (s *store) Reserve(context.Context, budget.Call) error { return s.refuses }

func (s *store) Release(_ context.Context, call uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = append(s.released, call)
}

func open(tb testing.TB) (*Controller, *store) {
	tb.Helper()
	s := &store{}
	return New(Options{Organizations: organizations{s}, Runs: runs{s}, Budget: s, Log: slog.New(slog.DiscardHandler)}), s
}

// follow loads what is new, as package control does.
func follow(tb testing.TB, d *Controller) {
	tb.Helper()
	for _, load := range []func(context.Context, int64) (int64, error){d.LoadOrganizations, d.LoadRuns} {
		if _, err := load(tb.Context(), 0); err != nil {
			tb.Fatal(err)
		}
	}
}

func minted(id string) run.Run {
	return run.Run{Organization: "acme", ID: id, Status: run.Active, Limits: run.Limits{ExpiresAt: time.Now().Add(time.Hour)}}
}

func suspended(id string) organization.Organization {
	return organization.Organization{ID: id, Status: organization.Status{Suspended: true}}
}

func TestAdmitRefuses(t *testing.T) {
	d, s := open(t)
	s.setOrganization(suspended("gone"))
	revoked, expired, aborted := minted("revoked"), minted("expired"), run.Run{Organization: "acme", ID: "aborted", Abort: run.Abort{RequestedAt: time.Now()}}
	revoked.Status = run.Revoked
	expired.Limits.ExpiresAt = time.Now().Add(-time.Second)
	for _, of := range []run.Run{revoked, expired, aborted} {
		s.setRun(of)
	}
	check := func(when string) {
		t.Helper()
		for _, c := range []struct {
			organization, run string
			want              error
		}{
			{"gone", "", organization.ErrSuspended},
			{"gone", "any", organization.ErrSuspended},
			{"acme", "", nil},
			{"acme", "any", nil},
			{"acme", "revoked", run.ErrRevoked},
			{"acme", "expired", run.ErrExpired},
			{"acme", "aborted", run.ErrAborted},
			{"other", "revoked", nil}, // A run of another organization with the same id.
		} {
			g, err := d.Admit(t.Context(), c.organization, c.run, keyterm.Terms{})
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: %s %s: %v, want %v", when, c.organization, c.run, err, c.want)
			}
			if err == nil {
				g.End(true)
			}
		}
	}
	follow(t, d)
	check("announced")
	if s.asked != 2 {
		t.Errorf("%d look-ups of runs, want two: of the runs that were not announced", s.asked)
	}
	if check("announced"); s.asked != 2 {
		t.Error("what was looked up is looked up again")
	}
	if n := d.Sessions(); len(n) != 0 {
		t.Errorf("in flight after all have left: %v", n)
	}
}

// A run that is not known yet is looked up. Where the lookup fails the request is treated as one of a session.
func TestLookUp(t *testing.T) {
	d, s := open(t)
	revoked := minted("r")
	revoked.Status = run.Revoked
	s.setRun(revoked)
	if _, err := d.Admit(t.Context(), "acme", "r", keyterm.Terms{}); !errors.Is(err, run.ErrRevoked) {
		t.Errorf("%v", err)
	}
	s.away = errors.New("away")
	g, err := d.Admit(t.Context(), "acme", "x", keyterm.Terms{})
	if err != nil || g.Terms() != (Terms{}) {
		t.Fatalf("%v", err)
	}
	g.End(true)
	s.away = nil
	s.setRun(minted("x")) // Minted after a lookup found no run.
	if g, err = d.Admit(t.Context(), "acme", "x", keyterm.Terms{}); err != nil || g.Terms().Run == nil || !g.Terms().Reserves {
		t.Fatalf("%+v %v", g, err)
	}
	g.End(true)
}

// What package control delivers replaces the result of an earlier lookup.
func TestDeliveredRunReplacesLookup(t *testing.T) {
	d, s := open(t)
	g, err := d.Admit(t.Context(), "acme", "r", keyterm.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	g.End(true)
	revoked := minted("r")
	revoked.Status = run.Revoked
	s.setRun(revoked)
	follow(t, d)
	if _, err := d.Admit(t.Context(), "acme", "r", keyterm.Terms{}); !errors.Is(err, run.ErrRevoked) {
		t.Errorf("%v", err)
	}
}

func TestTerms(t *testing.T) {
	d, s := open(t)
	s.setOrganization(organization.Organization{ID: "capped", Budget: organization.Budget{CeilingCents: 5}})
	costs := minted("costs")
	costs.Limits.MaxCostCents = 1
	s.setRun(minted("r"))
	s.setRun(costs)
	follow(t, d)
	for _, c := range []struct {
		organization, run      string
		reserves, priced, with bool
	}{
		{"acme", "", false, false, false},
		{"acme", "x", false, false, false},
		{"acme", "r", true, false, true},
		{"acme", "costs", true, true, true},
		{"capped", "", true, true, false},
	} {
		g, err := d.Admit(t.Context(), c.organization, c.run, keyterm.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Terms(); got.Reserves != c.reserves || got.Priced != c.priced || (got.Run != nil) != c.with {
			t.Errorf("%s %s: %+v", c.organization, c.run, got)
		}
		g.End(true)
	}
}

// Runs are removed long after their end, and looked up again when a request names them.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := open(t)
		revoked := minted("r")
		revoked.Status, revoked.EndedAt = run.Revoked, time.Now()
		s.setRun(revoked)
		follow(t, d)
		time.Sleep(keepEnded + time.Minute)
		s.setRun(minted("other"))
		if _, err := d.LoadRuns(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if len(d.runs) != 1 {
			t.Errorf("%d runs known", len(d.runs))
		}
		if _, err := d.Admit(t.Context(), "acme", "r", keyterm.Terms{}); !errors.Is(err, run.ErrRevoked) || s.asked != 1 {
			t.Errorf("%v, %d look-ups", err, s.asked)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	d, _ := open(b)
	follow(b, d)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g, err := d.Admit(context.Background(), "acme", "", keyterm.Terms{})
			if err != nil {
				b.Fatal(err)
			}
			g.End(true)
		}
	})
}
