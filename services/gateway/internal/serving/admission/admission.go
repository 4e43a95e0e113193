// Package admission decides which requests may run now, and ends those in flight that no longer may: those of suspended
// organizations, and of runs that were revoked or aborted or have expired. It follows package control, so that a
// request in flight on any replica ends within a second, and queries no store for a request without limits. Package
// inference calls it.
package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/platform/apierr"
)

// Organizations reads organizations, with what operators have set for them.
type Organizations interface {
	Since(ctx context.Context, since int64) (changed []organization.Organization, level int64, err error)
}

// Runs reads the state of runs.
type Runs interface {
	Since(ctx context.Context, since int64) (changed []run.Run, level int64, err error)
	// Get returns a run; found is false for a session that was neither minted nor aborted.
	Get(ctx context.Context, organization, id string) (of run.Run, found bool, err error)
}

// Budget reserves worst cases; see budget.Reserver.
type Budget interface {
	Reserve(ctx context.Context, c budget.Call) error
	Release(ctx context.Context, call uuid.UUID)
}

const (
	// lookupTime bounds the lookup of a run that this replica does not know.
	lookupTime = 500 * time.Millisecond
	// maxLooked bounds the number of lookup results that are kept.
	maxLooked = 1 << 16
	// keepEnded is how long a run that has ended stays in memory.
	keepEnded = 24 * time.Hour
	// tidyEvery is how often older ones are removed.
	tidyEvery = 10 * time.Minute
)

// Options of a Controller. All are required.
type Options struct {
	Organizations Organizations
	Runs          Runs
	Budget        Budget
	Log           *slog.Logger
}

// Controller admits requests. Safe for concurrent use.
type Controller struct {
	Options
	live *live

	mu            sync.RWMutex
	organizations map[string]organization.Organization
	// runs are those that package control delivered. looked are the results of single lookups, nil where none was found.
	// An entry in runs takes precedence: it is never older.
	runs   map[budget.Session]*run.Run
	looked map[budget.Session]*run.Run
	tidied time.Time
}

// New returns a Controller that knows no organization and no run until its Load methods have run.
func New(o Options) *Controller {
	return &Controller{
		Options: o, live: newLive(), organizations: make(map[string]organization.Organization),
		runs: make(map[budget.Session]*run.Run), looked: make(map[budget.Session]*run.Run), tidied: time.Now(),
	}
}

// Sessions returns the number of requests in flight on this replica, by run.
func (c *Controller) Sessions() map[budget.Session]int { return c.live.sessions() }

// EndCall ends the request that holds a reservation.
func (c *Controller) EndCall(id uuid.UUID, cause error) { c.live.endCall(id, cause) }

// InFlight returns the number of requests of one run in flight on this replica.
func (c *Controller) InFlight(organization, id string) int64 { return c.live.of(organization, id) }

// LoadOrganizations implements control.Load. It stores each change before it ends the requests in flight, so that no
// request is admitted in between.
func (c *Controller) LoadOrganizations(ctx context.Context, since int64) (int64, error) {
	changed, level, err := c.Organizations.Since(ctx, since)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	for _, of := range changed {
		c.organizations[of.ID] = of
	}
	c.mu.Unlock()
	for _, of := range changed {
		if of.Status.Suspended {
			c.live.end(of.ID, "", organization.ErrSuspended)
		}
	}
	return level, nil
}

// LoadRuns implements control.Load, in the order of LoadOrganizations.
func (c *Controller) LoadRuns(ctx context.Context, since int64) (int64, error) {
	changed, level, err := c.Runs.Since(ctx, since)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	c.mu.Lock()
	for i := range changed {
		at := budget.Session{Organization: changed[i].Organization, Run: changed[i].ID}
		c.runs[at] = &changed[i]
		delete(c.looked, at)
	}
	c.tidy(now)
	c.mu.Unlock()
	for i := range changed {
		if refused := changed[i].Refusal(now); refused != nil {
			c.live.end(changed[i].Organization, changed[i].ID, refused)
		}
	}
	return level, nil
}

// tidy removes runs that ended more than keepEnded ago, and all lookup results. The caller holds the lock.
func (c *Controller) tidy(now time.Time) {
	if now.Sub(c.tidied) < tidyEvery {
		return
	}
	c.tidied = now
	clear(c.looked)
	old := now.Add(-keepEnded)
	past := func(t time.Time) bool { return !t.IsZero() && t.Before(old) }
	for at, of := range c.runs {
		if past(of.EndedAt) || past(of.Limits.ExpiresAt) || of.Status == run.Unminted && past(of.Abort.RequestedAt) {
			delete(c.runs, at)
		}
	}
}

// Admit admits a request of an organization and, where runID is not empty, of a run, or refuses it with an
// *apierr.Error. Of the terms of its product key it applies the budget.
func (c *Controller) Admit(ctx context.Context, organizationID, runID string, key keyterm.Terms) (Grant, error) {
	if c.suspended(organizationID) { // Before the run is looked up.
		return nil, organization.ErrSuspended
	}
	g := &grant{controller: c, organization: organizationID, run: runID, key: key}
	of, err := c.runOf(ctx, organizationID, runID)
	if err != nil {
		return nil, err
	}
	var expire context.CancelFunc = func() {}
	if of != nil && of.Status != run.Unminted {
		g.terms.Run = of
		ctx, expire = context.WithDeadlineCause(ctx, of.Limits.ExpiresAt, run.ErrExpired)
	}
	var cancel context.CancelCauseFunc
	g.ctx, cancel = context.WithCancelCause(ctx)
	g.cancel = func(cause error) {
		cancel(cause)
		expire()
	}
	c.live.enter(g) // Before the check, so that a change in between ends it.
	if err := c.judge(g, of); err != nil {
		g.End(false)
		return nil, err
	}
	return g, nil
}

func (c *Controller) suspended(id string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.organizations[id].Status.Suspended
}

// judge refuses a request by the present state of its organization and run, and sets its terms. session is the state of
// the run that runOf returned a moment before.
func (c *Controller) judge(g *grant, session *run.Run) error {
	c.mu.RLock()
	of := c.organizations[g.organization]
	if newer, known := c.runs[budget.Session{Organization: g.organization, Run: g.run}]; known {
		session = newer
	}
	c.mu.RUnlock()
	if of.Status.Suspended {
		return organization.ErrSuspended
	}
	if session != nil {
		if refused := session.Refusal(time.Now()); refused != nil {
			return refused
		}
	}
	ceiling := of.Budget.CeilingCents > 0 || g.key.Budget.Limited()
	g.terms.Reserves = ceiling || g.terms.Run != nil
	g.terms.Priced = ceiling || g.terms.Run != nil && g.terms.Run.Limits.MaxCostCents > 0
	return nil
}

// runOf returns the run of a request; nil where it has no state. A run that this replica does not know is looked up
// once. Where the lookup fails the request is treated as one of a session without limits: every run that is live, or
// ended recently, is known.
func (c *Controller) runOf(ctx context.Context, organizationID, runID string) (*run.Run, error) {
	if runID == "" {
		return nil, nil
	}
	at := budget.Session{Organization: organizationID, Run: runID}
	c.mu.RLock()
	of, known := c.runs[at]
	if !known {
		of, known = c.looked[at]
	}
	c.mu.RUnlock()
	if known {
		return of, nil
	}
	bounded, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, ok, err := c.Runs.Get(bounded, organizationID, runID)
	switch {
	case ctx.Err() != nil:
		return nil, apierr.From(ctx.Err())
	case err != nil:
		c.Log.WarnContext(ctx, "the lookup of a run failed; the request is treated as one of a session",
			slog.String("run_id", runID), slog.String("error", err.Error()))
		return nil, nil
	case ok:
		of = &found
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if newer, known := c.runs[at]; known {
		return newer, nil
	}
	if len(c.looked) >= maxLooked {
		clear(c.looked)
	}
	c.looked[at] = of
	return of, nil
}
