package toolcall

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/expression"
)

// maxAnswer is the largest answer of a server, in bytes.
const maxAnswer = 16 << 20

// execution is one call under way.
type execution struct {
	caller  *Caller
	request *Request
	entry   *definition.Entry
	server  *toolserver.Server // the entry's
	// tool is the tool's own name.
	tool string
	// arguments are in their canonical form.
	arguments []byte

	id      uuid.UUID
	started time.Time
	policy  Policy
	grant   admission.Grant
	// price is what the call costs, and priced the version of the price.
	price  price.Pico
	priced string
	// hold charges the memory that the answer takes.
	hold *memory.Hold
	// definition is the approved one of the tool; nil until it is known.
	definition *definition.Reviewed
	// method is wire.MethodCallTool or that of a query, and path the server of the path; empty for all.
	method, path string
	// ask makes the request once, and again makes all checks of it again.
	ask   func(ctx context.Context) (upstream.Result, error)
	again func(ctx context.Context) error

	continuation
	approvalPage

	// claim is the approval that this call uses; nil without one. approvalRef names the one that it asked for.
	claim       *approval.Approval
	approvalRef string
	reports     int // of waiting for it
	booked      *quota.Reservation
	// done reports verdict, which is what the call shows of its server, to the circuit; nil before the circuit let it through.
	done    func(ctx context.Context, v health.Verdict)
	verdict health.Verdict
	// ready is when every check has passed; zero before.
	ready time.Time

	// sent reports that something may have left, and recorded that its ledger row is safe.
	sent, recorded bool
	ended          time.Time
	outcome        ledger.Outcome
	record         *trace.Observation
}

// Call makes a call, if every check lets it pass. The error is an *apierr.Error, or a *wire.Error where the server
// answered with an error of the protocol. A call that was sent is not repeated.
func (c *Caller) Call(ctx context.Context, r *Request) (Answer, error) {
	x := execution{
		caller: c, request: r, method: wire.MethodCallTool, path: r.Tool.Server, id: newID(), started: time.Now(),
		hold: c.Memory.Open(r.Organization, maxAnswer),
	}
	result, err := x.serve(ctx)
	x.end(ctx, &result, err)
	return Answer{result, x.serverID(), x.tool}, err
}

func (x *execution) serverID() string {
	if x.server == nil {
		return ""
	}
	return x.server.ID
}

// newID returns an id of the call, in the order of time.
func newID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.New() // Only the order of ids is lost.
	}
	return id
}

// serve makes the checks in their order, then the call.
func (x *execution) serve(ctx context.Context) (upstream.Result, error) {
	var err error
	if x.entry, x.tool, err = x.caller.find(&x.request.Asker, x.request.Tool); err != nil {
		return upstream.Result{}, err
	}
	x.server = &x.entry.Server
	x.price, x.priced = x.server.Price, priceVersion(x.server)
	x.caller.Listings.Used(x.server.Key())
	x.observe(ctx)
	if err := x.canonicalize(); err != nil {
		return upstream.Result{}, err
	}
	if err := x.resume(); err != nil {
		return upstream.Result{}, err
	}
	x.policy = x.caller.Policy()
	if x.grant, err = x.caller.Admission.Admit(memory.NewContext(ctx, x.hold), x.request.Organization, x.request.Run, x.request.KeyTerms); err != nil {
		return upstream.Result{}, err
	}
	ctx = x.grant.Context()
	f := facts{authority: x.grant.Terms().Run, entry: x.entry}
	if err := x.authorize(ctx, &f); err != nil {
		return upstream.Result{}, err
	}
	violations, err := x.caller.schemas.check(ctx, x.request.Organization, x.definition, x.arguments)
	switch {
	case err != nil:
		return upstream.Result{}, err
	case len(violations) > 0:
		return violated(violations), nil
	}
	if err := x.follows(); err != nil {
		return upstream.Result{}, err
	}
	if err := x.permit(ctx, &f); err != nil {
		return x.asks(err)
	}
	x.ask, x.again = x.upstream, func(ctx context.Context) error {
		err := x.recheck(ctx, &f)
		if err == nil && f.terms.Approval != "" && x.claim == nil { // No rule wanted it before.
			err = ErrApprovalRequired
		}
		return err
	}
	return x.send(ctx)
}

// canonicalize brings the arguments into the form that is checked, digested and sent.
func (x *execution) canonicalize() error {
	text, err := canonical.Object(x.request.Arguments)
	if err != nil {
		if refused, ok := errors.AsType[*canonical.Error](err); ok {
			return apierr.Invalid("params.arguments"+refused.Pointer, refused.Rule)
		}
		return apierr.Internal(err)
	}
	x.arguments = text
	return nil
}

// authorize makes the checks that don't depend on the arguments: the run and its budget, trust, and the definition.
func (x *execution) authorize(ctx context.Context, f *facts) error {
	x.caller.ask(f, &x.request.Asker, x.policy, x.tool)
	if err := decideRun(f); err != nil {
		return err
	}
	if err := x.reserve(ctx, f.terms); err != nil {
		return err
	}
	if err := x.trust(f); err != nil {
		return err
	}
	return x.define(ctx, f)
}

// define finds the approved definition of the tool. Where the policy wants a listing of now, the server is listed first.
func (x *execution) define(ctx context.Context, f *facts) error {
	if f.terms.FreshListing > 0 {
		if err := x.caller.Listings.Refresh(ctx, x.server.Key(), f.terms.FreshListing); err != nil {
			return errListingAway.Wrap(err)
		}
		entry := x.caller.Registry.Find(x.request.Organization, x.server.ID)
		if entry == nil {
			return ErrServerNotFound
		}
		x.entry, x.server, f.entry = entry, &entry.Server, entry
	}
	tool, err := decideTool(f)
	if err != nil {
		return err
	}
	x.definition, err = x.caller.text(ctx, x.entry, x.tool)
	if err == nil && x.definition.Digest != tool.Digest {
		err = definition.ErrChanged // Between the two look-ups.
	}
	return err
}

// reserve takes the call from the limits of its run, and its price from the budgets. A later round is part of the call
// that the first one has taken.
func (x *execution) reserve(ctx context.Context, terms toolrule.Terms) error {
	switch {
	case x.last != nil:
		return nil
	case x.request.Run != "":
		return x.grant.ReserveTool(ctx, x.id, x.price, budget.Tool{
			Digest:   canonical.Digest("tool-call", []byte(x.server.ID), []byte(x.tool), x.arguments),
			MaxCalls: terms.MaxToolCalls, Repeats: terms.RepeatLimit,
		})
	case x.grant.Terms().Reserves:
		return x.grant.Reserve(ctx, x.id, x.price)
	}
	return nil
}

// permit makes the checks of the arguments, and takes the call from the limits of its server.
func (x *execution) permit(ctx context.Context, f *facts) error {
	if err := x.judge(ctx, f); err != nil {
		return err
	}
	if err := x.approve(ctx, f); err != nil {
		return err
	}
	return x.limit(ctx)
}

// limit takes the call from the limits of its server, if its row can be written and its circuit lets it through.
func (x *execution) limit(ctx context.Context) error {
	var err error
	if x.booked, err = x.caller.Limits.TryReserve(ctx, demand(x.request.Organization, x.server)); err != nil {
		return refusedByLimit(err)
	}
	if err := x.caller.Ledger.Ready(ctx); err != nil {
		return errLedgerAway.Wrap(err)
	}
	return x.acquire(ctx)
}

// judge applies the rules that read the arguments: they may deny the call, or demand more than those for all arguments.
func (x *execution) judge(ctx context.Context, f *facts) error {
	asked := question(&x.request.Asker, x.server.ID, x.tool)
	var err error
	if asked.Arguments, err = expression.Object(x.arguments); err != nil {
		return apierr.Internal(err)
	}
	before := f.terms
	if f.terms, f.denial = x.policy.Rules.Decide(asked); f.denial != nil {
		return f.denial.Err()
	}
	if f.terms.MinimumTrust != before.MinimumTrust || f.terms.FreshListing != before.FreshListing {
		return x.define(ctx, f)
	}
	return nil
}

// demand is what a call takes of the limits of its server.
func demand(organization string, s *toolserver.Server) quota.Demand {
	return quota.Demand{Organization: organization, Claims: []quota.Claim{{
		Subject: quota.Subject("server/" + quota.Name(organization) + "/" + quota.Name(s.ID)),
		Limit:   quota.Limit{Requests: int64(s.PerMinute), Concurrent: s.Concurrency},
	}}}
}

func refusedByLimit(err error) error {
	full, ok := errors.AsType[*quota.RefusedError](err)
	if !ok {
		return err
	}
	refused := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "calls of this server: "+full.Error())
	refused.RetryAfter = full.RetryAfter
	return refused
}
