package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

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
			g, err := d.Admit(t.Context(), c.organization, c.run)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: %s %s: %v, want %v", when, c.organization, c.run, err, c.want)
			}
			if err == nil {
				g.Leave(true)
			}
		}
	}
	follow(t, d)
	check("told")
	if s.asked != 2 {
		t.Errorf("%d look-ups of runs, want those of the two that nobody told of", s.asked)
	}
	if check("told"); s.asked != 2 {
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
	if _, err := d.Admit(t.Context(), "acme", "r"); !errors.Is(err, run.ErrRevoked) {
		t.Errorf("%v", err)
	}
	s.away = errors.New("away")
	g, err := d.Admit(t.Context(), "acme", "x")
	if err != nil || g.Terms() != (Terms{}) {
		t.Fatalf("%v", err)
	}
	g.Leave(true)
	s.away = nil
	s.setRun(minted("x")) // Minted after a lookup found no run.
	if g, err = d.Admit(t.Context(), "acme", "x"); err != nil || g.Terms().Run == nil || !g.Terms().Reserves {
		t.Fatalf("%+v %v", g, err)
	}
	g.Leave(true)
}

// What package control delivers replaces the result of an earlier lookup.
func TestDeliveredRunReplacesLookup(t *testing.T) {
	d, s := open(t)
	g, err := d.Admit(t.Context(), "acme", "r")
	if err != nil {
		t.Fatal(err)
	}
	g.Leave(true)
	revoked := minted("r")
	revoked.Status = run.Revoked
	s.setRun(revoked)
	follow(t, d)
	if _, err := d.Admit(t.Context(), "acme", "r"); !errors.Is(err, run.ErrRevoked) {
		t.Errorf("%v", err)
	}
}

// EndCall ends the request that holds the reservation, and no other.
func TestEndCall(t *testing.T) {
	d, _ := open(t)
	lost, kept := uuid.New(), uuid.New()
	grants := map[uuid.UUID]Grant{}
	for _, id := range []uuid.UUID{lost, kept} {
		g, err := d.Admit(t.Context(), "acme", "")
		if err != nil {
			t.Fatal(err)
		}
		defer g.Leave(true)
		if err := g.Reserve(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
		grants[id] = g
	}
	d.EndCall(lost, budget.ErrLapsed)
	d.EndCall(uuid.New(), budget.ErrLapsed) // This request has ended already.
	if err := context.Cause(grants[lost].Context()); !errors.Is(err, budget.ErrLapsed) {
		t.Errorf("lost: %v", err)
	}
	if err := grants[kept].Context().Err(); err != nil {
		t.Errorf("kept: %v", err)
	}
}

// A revocation ends the requests in flight of that run, a suspension those of that organization, and no others.
func TestChangesEndRequestsInFlight(t *testing.T) {
	d, s := open(t)
	s.setRun(minted("r"))
	follow(t, d)
	enter := func(organization, id string) Grant {
		t.Helper()
		g, err := d.Admit(t.Context(), organization, id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Leave(true) })
		return g
	}
	grants := map[string]Grant{
		"acme r": enter("acme", "r"), "acme x": enter("acme", "x"), "acme": enter("acme", ""),
		"other r": enter("other", "r"), "gone r": enter("gone", "r"), "gone": enter("gone", ""),
	}
	want := map[budget.Session]int{{Organization: "acme", Run: "r"}: 1, {Organization: "acme", Run: "x"}: 1, {Organization: "other", Run: "r"}: 1, {Organization: "gone", Run: "r"}: 1}
	if got := d.Sessions(); fmt.Sprint(got) != fmt.Sprint(want) || d.InFlight("acme", "r") != 1 || d.InFlight("acme", "y") != 0 {
		t.Errorf("sessions %v", got)
	}
	revoked := minted("r")
	revoked.Status = run.Revoked
	s.setRun(revoked)
	s.setOrganization(suspended("gone"))
	follow(t, d)
	for name, cause := range map[string]error{
		"acme r": run.ErrRevoked, "acme x": nil, "acme": nil, "other r": nil, "gone r": organization.ErrSuspended, "gone": organization.ErrSuspended,
	} {
		if got := context.Cause(grants[name].Context()); !errors.Is(got, cause) || cause == nil && got != nil {
			t.Errorf("%s: %v, want %v", name, got, cause)
		}
	}
}

// A request that arrives while a suspension is loaded is either refused or ended.
func TestNoRequestSurvivesASuspension(t *testing.T) {
	for range 200 {
		d, s := open(t)
		s.setOrganization(suspended("gone"))
		var group sync.WaitGroup
		grants := make([]Grant, 8)
		for i := range grants {
			group.Go(func() { grants[i], _ = d.Admit(t.Context(), "gone", "") })
		}
		group.Go(func() { _, _ = d.LoadOrganizations(t.Context(), 0) })
		group.Wait()
		for _, g := range grants {
			if g == nil {
				continue
			}
			if !errors.Is(context.Cause(g.Context()), organization.ErrSuspended) {
				t.Error("one goes on")
			}
			g.Leave(true)
		}
	}
}

// The requests in flight of a run end when it expires.
func TestExpiryEndsRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := open(t)
		of := minted("r")
		of.Limits.ExpiresAt = time.Now().Add(time.Minute)
		s.setRun(of)
		follow(t, d)
		g, err := d.Admit(t.Context(), "acme", "r")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-g.Context().Done()
		if !errors.Is(context.Cause(g.Context()), run.ErrExpired) || time.Since(start) != time.Minute {
			t.Errorf("%v after %s", context.Cause(g.Context()), time.Since(start))
		}
		g.Leave(true)
	})
}

// Leave releases the reservation exactly when no ledger row takes its place.
func TestLeaveGivesBack(t *testing.T) {
	for _, c := range []struct {
		reserve, recorded bool
		refuses           error
		released          int
	}{{true, false, nil, 1}, {true, true, nil, 0}, {false, false, nil, 0}, {true, false, budget.ErrExceeded, 0}} {
		d, s := open(t)
		s.refuses = c.refuses
		g, err := d.Admit(t.Context(), "acme", "")
		if err != nil {
			t.Fatal(err)
		}
		if c.reserve {
			if err := g.Reserve(t.Context(), uuid.New(), 1); !errors.Is(err, c.refuses) {
				t.Error(err)
			}
		}
		g.Leave(c.recorded)
		g.Leave(!c.recorded)
		if len(s.released) != c.released {
			t.Errorf("%+v: released %d", c, len(s.released))
		}
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
		g, err := d.Admit(t.Context(), c.organization, c.run)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Terms(); got.Reserves != c.reserves || got.Priced != c.priced || (got.Run != nil) != c.with {
			t.Errorf("%s %s: %+v", c.organization, c.run, got)
		}
		g.Leave(true)
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
		if _, err := d.Admit(t.Context(), "acme", "r"); !errors.Is(err, run.ErrRevoked) || s.asked != 1 {
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
			g, err := d.Admit(context.Background(), "acme", "")
			if err != nil {
				b.Fatal(err)
			}
			g.Leave(true)
		}
	})
}
