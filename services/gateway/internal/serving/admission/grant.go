package admission

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
)

// Terms are the conditions that a request runs under.
type Terms struct {
	// Run is the minted run of the request; nil where there is none.
	Run *run.Run
	// Reserves reports whether the request's worst case is reserved before the first call, and Priced whether a model must
	// have a price.
	Reserves, Priced bool
}

// Grant is the admission of one request. Reserve and Settle are safe for concurrent use; End must be the last call.
type Grant interface {
	// Context returns the context of Admit. It also ends when the gateway ends the request; its cause is then an
	// *apierr.Error.
	Context() context.Context
	// Terms returns the conditions that the request runs under.
	Terms() Terms
	// Reserve reserves the worst case of a call under the id that its ledger row will have. A request has at most two
	// reservations at a time.
	Reserve(ctx context.Context, execution uuid.UUID, worst price.Pico) error
	// ReserveTool is Reserve for a call of a tool, which is counted within its run, too. It must precede each call of a tool
	// that has a run, whether or not Terms.Reserves.
	ReserveTool(ctx context.Context, execution uuid.UUID, cost price.Pico, tool budget.Tool) error
	// Settle ends a reservation before the request has ended. It is released unless recorded reports that its ledger row
	// is safe. An id without a reservation has no effect.
	Settle(execution uuid.UUID, recorded bool)
	// End ends the request. The reservations left are released unless recorded reports that their ledger rows are safe.
	// Calls after the first have no effect.
	End(recorded bool)
}

// Termination returns the error with which the gateway ended a request of this context; nil where it did not.
func Termination(ctx context.Context) *apierr.Error {
	cause, _ := errors.AsType[*apierr.Error](context.Cause(ctx))
	return cause
}

// grant is the Grant of a Controller.
type grant struct {
	controller        *Controller
	organization, run string
	key               keyterm.Terms
	ctx               context.Context //nolint:containedctx // The request's own context, which other goroutines may cancel.
	cancel            func(cause error)
	terms             Terms

	reserved [2]uuid.UUID // Guarded by the lock of live: endCall looks for them.
	ended    bool
}

func (g *grant) Context() context.Context { return g.ctx }

func (g *grant) Terms() Terms { return g.terms }

func (g *grant) Reserve(ctx context.Context, execution uuid.UUID, worst price.Pico) error {
	return g.reserve(ctx, execution, worst, nil)
}

func (g *grant) ReserveTool(ctx context.Context, execution uuid.UUID, cost price.Pico, tool budget.Tool) error {
	return g.reserve(ctx, execution, cost, &tool)
}

func (g *grant) reserve(ctx context.Context, execution uuid.UUID, worst price.Pico, tool *budget.Tool) error {
	err := g.controller.Budget.Reserve(ctx, budget.Call{
		ID: execution, Organization: g.organization, Run: g.run, KeyOrigin: g.key.Key, KeyBudget: g.key.Budget, Worst: worst, Tool: tool,
	})
	if err == nil && !g.controller.live.replace(g, uuid.Nil, execution) {
		g.controller.Budget.Release(g.ctx, execution)
		return errTooMany
	}
	return err
}

var errTooMany = errors.New("admission: a request has more than two reservations")

func (g *grant) Settle(execution uuid.UUID, recorded bool) {
	if execution != uuid.Nil && g.controller.live.replace(g, execution, uuid.Nil) && !recorded {
		g.controller.Budget.Release(g.ctx, execution)
	}
}

func (g *grant) End(recorded bool) {
	if g.ended {
		return
	}
	g.ended = true
	g.controller.live.remove(g)
	g.cancel(nil)
	for _, left := range g.reserved {
		if left != uuid.Nil && !recorded {
			g.controller.Budget.Release(g.ctx, left)
		}
	}
}
