// Package admission decides which requests may run now, and ends those in flight that no longer may: those of suspended
// organizations, and of runs that were revoked or aborted or have expired. It follows package control, so that a request
// in flight on any replica ends within a second, and queries no store for a request without limits. Package inference
// calls it.
package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/platform/apierr"
)

// Organizations tells what operators have set.
type Organizations interface {
	Since(ctx context.Context, since int64) (changed []organization.Organization, level int64, err error)
}

// Runs tells the state of runs.
type Runs interface {
	Since(ctx context.Context, since int64) (changed []run.Run, level int64, err error)
	// Get is false for a session without an authority.
	Get(ctx context.Context, organization, id string) (of run.Run, found bool, err error)
}

// Budget sets worst cases aside; see budget.Keeper.
type Budget interface {
	Reserve(ctx context.Context, c budget.Call) error
	Release(ctx context.Context, call uuid.UUID)
}

const (
	// lookupTime bounds the lookup of a run that is not known here.
	lookupTime = 500 * time.Millisecond
	// maxLooked bounds what is kept of such questions.
	maxLooked = 1 << 16
	// keepEnded is for how long a run that has ended is known by heart.
	keepEnded = 24 * time.Hour
	// tidyEvery is how often those older are forgotten.
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
	// runs are those that control told of; looked what was asked for, nil where
	// there is no authority. runs wins: it is never older.
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

// Sessions counts the requests in flight here of each run.
func (c *Controller) Sessions() map[budget.Session]int { return c.live.sessions() }

// EndCall ends the request that holds a reservation.
func (c *Controller) EndCall(id uuid.UUID, cause error) { c.live.endCall(id, cause) }

// InFlight counts those of one run.
func (c *Controller) InFlight(organization, id string) int64 { return c.live.of(organization, id) }

// LoadOrganizations implements control.Load. What changes is known before the
// requests in flight are ended, so that none slips in between.
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

// LoadRuns implements control.Load.
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

// tidy forgets runs that ended long ago, with all that was looked up while they
// were known. The caller holds the lock.
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

// Admit lets in a request of an organization and, where runID is not empty, of a run, or refuses it with an
// *apierr.Error.
func (c *Controller) Admit(ctx context.Context, organizationID, runID string) (Grant, error) {
	if c.suspended(organizationID) { // Without asking for its run.
		return nil, organization.ErrSuspended
	}
	g := &grant{controller: c, organization: organizationID, run: runID}
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
	c.live.enter(g) // Before the check: a change in between ends it.
	if err := c.judge(g, of); err != nil {
		g.Leave(false)
		return nil, err
	}
	return g, nil
}

func (c *Controller) suspended(id string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.organizations[id].Status.Suspended
}

// judge refuses by what is known now, and sets the request's terms. session is
// what was known of its run a moment before.
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
	ceiling := of.Budget.CeilingCents > 0
	g.terms.Reserves = ceiling || g.terms.Run != nil
	g.terms.Priced = ceiling || g.terms.Run != nil && g.terms.Run.Limits.MaxCostCents > 0
	return nil
}

// runOf returns the run that a request is of; nil where it has no state. A run that
// is not known here is looked up once. Where the lookup fails the request is treated
// as a session: every run that is live, or ended recently, is known.
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
		c.Log.WarnContext(ctx, "a run can't be looked up; taken for a session", slog.String("run_id", runID), slog.String("error", err.Error()))
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
