// Package admission decides who may call now, and ends what is in flight of those
// who may no more: suspended organizations, and runs that were revoked, aborted
// or have come to their end. It follows package control, so that a request in
// flight of any replica ends within a second, and asks nobody on the way of a
// request without limits. Package inference calls it.
package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/budget"
	"switchyard.dev/services/gateway/internal/inference"
	"switchyard.dev/services/gateway/internal/organization"
	"switchyard.dev/services/gateway/internal/price"
	"switchyard.dev/services/gateway/internal/run"
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
	// lookupTime bounds the question for a run that nobody has told of.
	lookupTime = 500 * time.Millisecond
	// maxLooked bounds what is kept of such questions.
	maxLooked = 1 << 16
	// keepEnded is for how long a run that has ended is known by heart.
	keepEnded = 24 * time.Hour
	// tidyEvery is how often those older are forgotten.
	tidyEvery = 10 * time.Minute
)

// Options of a Desk. All are required.
type Options struct {
	Organizations Organizations
	Runs          Runs
	Budget        Budget
	Log           *slog.Logger
}

// Desk admits requests. Safe for concurrent use.
type Desk struct {
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

// New returns a desk that knows nobody until its loads have run.
func New(o Options) *Desk {
	return &Desk{
		Options: o, live: newLive(), organizations: make(map[string]organization.Organization),
		runs: make(map[budget.Session]*run.Run), looked: make(map[budget.Session]*run.Run), tidied: time.Now(),
	}
}

// Sessions counts the requests in flight here of each run.
func (d *Desk) Sessions() map[budget.Session]int { return d.live.sessions() }

// EndCall ends the request that holds a reservation.
func (d *Desk) EndCall(id uuid.UUID, cause error) { d.live.endCall(id, cause) }

// InFlight counts those of one run.
func (d *Desk) InFlight(organization, id string) int64 { return d.live.of(organization, id) }

// LoadOrganizations implements control.Load. What changes is known before the
// requests in flight are ended, so that none slips in between.
func (d *Desk) LoadOrganizations(ctx context.Context, since int64) (int64, error) {
	changed, level, err := d.Organizations.Since(ctx, since)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	for _, of := range changed {
		d.organizations[of.ID] = of
	}
	d.mu.Unlock()
	for _, of := range changed {
		if of.Status.Suspended {
			d.live.end(of.ID, "", organization.ErrSuspended)
		}
	}
	return level, nil
}

// LoadRuns implements control.Load.
func (d *Desk) LoadRuns(ctx context.Context, since int64) (int64, error) {
	changed, level, err := d.Runs.Since(ctx, since)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	d.mu.Lock()
	for i := range changed {
		at := budget.Session{Organization: changed[i].Organization, Run: changed[i].ID}
		d.runs[at] = &changed[i]
		delete(d.looked, at)
	}
	d.tidy(now)
	d.mu.Unlock()
	for i := range changed {
		if refused := changed[i].Refusal(now); refused != nil {
			d.live.end(changed[i].Organization, changed[i].ID, refused)
		}
	}
	return level, nil
}

// tidy forgets runs that ended long ago, with all that was looked up while they
// were known. The caller holds the lock.
func (d *Desk) tidy(now time.Time) {
	if now.Sub(d.tidied) < tidyEvery {
		return
	}
	d.tidied = now
	clear(d.looked)
	old := now.Add(-keepEnded)
	past := func(t time.Time) bool { return !t.IsZero() && t.Before(old) }
	for at, of := range d.runs {
		if past(of.EndedAt) || past(of.Limits.ExpiresAt) || of.Status == run.Unminted && past(of.Abort.RequestedAt) {
			delete(d.runs, at)
		}
	}
}

// Admit lets a request in, or refuses it with an *apierr.Error.
func (d *Desk) Admit(ctx context.Context, r *inference.Request) (inference.Grant, error) {
	if d.suspended(r.Organization) { // Without asking for its run.
		return nil, organization.ErrSuspended
	}
	g := &grant{desk: d, organization: r.Organization, run: r.Run}
	of, err := d.runOf(ctx, r)
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
	d.live.enter(g) // Before the check: a change in between ends it.
	if err := d.judge(g, of); err != nil {
		g.Leave(false)
		return nil, err
	}
	return g, nil
}

func (d *Desk) suspended(id string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.organizations[id].Status.Suspended
}

// judge refuses by what is known now, and sets the request's terms. session is
// what was known of its run a moment before.
func (d *Desk) judge(g *grant, session *run.Run) error {
	d.mu.RLock()
	of := d.organizations[g.organization]
	if newer, known := d.runs[budget.Session{Organization: g.organization, Run: g.run}]; known {
		session = newer
	}
	d.mu.RUnlock()
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

// runOf finds the run that a request is of; nil where it has no state. One that
// nobody has told of is looked up once. Where that can't be done the request is
// taken for a session: every run that is live, or ended of late, is known.
func (d *Desk) runOf(ctx context.Context, r *inference.Request) (*run.Run, error) {
	if r.Run == "" {
		return nil, nil
	}
	at := budget.Session{Organization: r.Organization, Run: r.Run}
	d.mu.RLock()
	of, known := d.runs[at]
	if !known {
		of, known = d.looked[at]
	}
	d.mu.RUnlock()
	if known {
		return of, nil
	}
	bounded, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, ok, err := d.Runs.Get(bounded, r.Organization, r.Run)
	switch {
	case ctx.Err() != nil:
		return nil, apierr.From(ctx.Err())
	case err != nil:
		d.Log.WarnContext(ctx, "a run can't be looked up; taken for a session", slog.String("run_id", r.Run), slog.String("error", err.Error()))
		return nil, nil
	case ok:
		of = &found
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if newer, known := d.runs[at]; known {
		return newer, nil
	}
	if len(d.looked) >= maxLooked {
		clear(d.looked)
	}
	d.looked[at] = of
	return of, nil
}

// grant is a request that was let in.
type grant struct {
	desk              *Desk
	organization, run string
	ctx               context.Context //nolint:containedctx // The request's own, which others may end.
	cancel            func(cause error)
	terms             inference.Terms

	reserved uuid.UUID // Under the lock of live: others look for it.
	left     bool
}

// Context is the request's; it ends when the request must.
func (g *grant) Context() context.Context { return g.ctx }

// Terms are what the request is under.
func (g *grant) Terms() inference.Terms { return g.terms }

// Reserve sets the worst case aside. Called again, the last reservation must have
// its ledger row.
func (g *grant) Reserve(ctx context.Context, execution uuid.UUID, worst price.Pico) error {
	err := g.desk.Budget.Reserve(ctx, budget.Call{ID: execution, Organization: g.organization, Run: g.run, Worst: worst})
	if err == nil {
		g.desk.live.hold(g, execution)
	}
	return err
}

// Leave ends the request. What was set aside is given back unless a ledger row
// takes its place.
func (g *grant) Leave(recorded bool) {
	if g.left {
		return
	}
	g.left = true
	g.desk.live.leave(g)
	g.cancel(nil)
	if g.reserved != uuid.Nil && !recorded {
		g.desk.Budget.Release(g.ctx, g.reserved)
	}
}
