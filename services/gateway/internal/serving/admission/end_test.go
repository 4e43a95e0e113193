package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
)

// EndCall ends the request that holds the reservation, and no other.
func TestEndCall(t *testing.T) {
	d, _ := open(t)
	lost, kept := uuid.New(), uuid.New()
	grants := map[uuid.UUID]Grant{}
	for _, id := range []uuid.UUID{lost, kept} {
		g, err := d.Admit(t.Context(), "acme", "", keyterm.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.End(true)
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
		g, err := d.Admit(t.Context(), organization, id, keyterm.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.End(true) })
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
			group.Go(func() { grants[i], _ = d.Admit(t.Context(), "gone", "", keyterm.Terms{}) })
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
			g.End(true)
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
		g, err := d.Admit(t.Context(), "acme", "r", keyterm.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-g.Context().Done()
		if !errors.Is(context.Cause(g.Context()), run.ErrExpired) || time.Since(start) != time.Minute {
			t.Errorf("%v after %s", context.Cause(g.Context()), time.Since(start))
		}
		g.End(true)
	})
}

// End releases the reservation exactly when no ledger row takes its place.
func TestEndReleasesTheReservation(t *testing.T) {
	for _, c := range []struct {
		reserve, recorded bool
		refuses           error
		released          int
	}{{true, false, nil, 1}, {true, true, nil, 0}, {false, false, nil, 0}, {true, false, budget.ErrExceeded, 0}} {
		d, s := open(t)
		s.refuses = c.refuses
		g, err := d.Admit(t.Context(), "acme", "", keyterm.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		if c.reserve {
			if err := g.Reserve(t.Context(), uuid.New(), 1); !errors.Is(err, c.refuses) {
				t.Error(err)
			}
		}
		g.End(c.recorded)
		g.End(!c.recorded)
		if len(s.released) != c.released {
			t.Errorf("%+v: released %d", c, len(s.released))
		}
	}
}

// A request may have two reservations. Each is released or replaced by its row on its own, and the end of either ends
// the request.
func TestTwoReservations(t *testing.T) {
	d, s := open(t)
	g, err := d.Admit(t.Context(), "acme", "", keyterm.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for _, id := range ids[:2] {
		if err := g.Reserve(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Reserve(t.Context(), ids[2], 1); err == nil || len(s.released) != 1 || s.released[0] != ids[2] {
		t.Errorf("a third reservation: %v, released %v", err, s.released)
	}
	g.Settle(ids[0], true)
	g.Settle(uuid.New(), false)
	g.Settle(uuid.Nil, false)
	if err := g.Reserve(t.Context(), ids[2], 1); err != nil || len(s.released) != 1 {
		t.Errorf("%v, released %v", err, s.released)
	}
	g.Settle(ids[1], false)
	g.Settle(ids[1], false)
	if len(s.released) != 2 || s.released[1] != ids[1] {
		t.Errorf("released %v", s.released)
	}
	d.EndCall(ids[1], budget.ErrLapsed)
	if g.Context().Err() != nil {
		t.Error("a settled reservation ends the request")
	}
	d.EndCall(ids[2], budget.ErrLapsed)
	if !errors.Is(context.Cause(g.Context()), budget.ErrLapsed) {
		t.Errorf("%v", context.Cause(g.Context()))
	}
	g.End(false)
	if len(s.released) != 3 || s.released[2] != ids[2] {
		t.Errorf("released %v", s.released)
	}
}
