package toolcall

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/platform/apierr"
)

const (
	// holdReport is how often a caller that takes progress gets a report that its call waits.
	holdReport = 10 * time.Second
	// answerMargin is what is added to a server's timeout for the lease of a call that was sent.
	answerMargin = time.Minute
	// holdStep is the progress of one report. Progress has to increase, and the server's own comes after it.
	holdStep = 1e-6
)

// Approvals asks people for exact calls; see approval.Calls.
type Approvals interface {
	// Require returns the approval of a call: claimed for this one execution, or waiting for its decision. The error is an
	// *apierr.Error; the approval that it is about, if any, is returned with it.
	Require(ctx context.Context, call *approval.Exact) (approval.Approval, error)
	// Wait returns true once an approval is decided or expired, and false when a moment has come.
	Wait(ctx context.Context, organization, ref string, until time.Time) (decided bool, err error)
	// Send commits that a claimed call leaves now, and is answered within a time. Nothing may be sent when it fails.
	Send(ctx context.Context, claimed *approval.Approval, within time.Duration) error
	// Release gives back a claim of which nothing has left.
	Release(ctx context.Context, claimed *approval.Approval) error
	// Settle writes how a call has ended that was sent: approval.Done, Failed or Unknown.
	Settle(ctx context.Context, claimed *approval.Approval, state approval.State) error
}

// ApprovalError is an error of a call that is about an approval.
type ApprovalError struct {
	// Ref is the approval's reference.
	Ref string
	Err *apierr.Error
}

// Error implements error.
func (e *ApprovalError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *ApprovalError) Unwrap() error { return e.Err }

// approve claims the approval of the exact call. A call that waits for its decision is held for some time; everything that
// was checked before is checked again then. A caller that can show a page is sent to it first, and held when it comes back.
func (x *execution) approve(ctx context.Context, f *facts) error {
	switch {
	case x.declined:
		x.approvalRef = x.waited.Waits
		return aboutApproval(x.approvalRef, waits(x.approvalRef))
	case f.terms.Approval == "":
		return nil
	case x.last != nil && x.claim != nil: // Of the first round.
		return nil
	case x.last != nil, x.caller.Approvals == nil:
		return ErrApprovalRequired
	}
	until := time.Now().Add(x.caller.Hold)
	for f.terms.Approval != "" {
		found, err := x.caller.Approvals.Require(ctx, x.exact(f))
		x.approvalRef = found.Ref
		switch {
		case err != nil:
			return aboutApproval(found.Ref, err)
		case found.Call.State == approval.Claimed:
			x.claim = &found
			return nil
		case x.sends() && (x.waited == nil || !time.Now().Before(until)):
			return x.sendToPage(found.Ref)
		case !time.Now().Before(until):
			return aboutApproval(found.Ref, waits(found.Ref))
		}
		if err := x.wait(ctx, found.Ref, until); err != nil {
			return err
		}
		if err := x.recheck(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// exact returns the call as an approval covers it.
func (x *execution) exact(f *facts) *approval.Exact {
	r := x.request
	return &approval.Exact{
		Organization: r.Organization, Run: r.Run, Server: x.server.ID, Tool: x.tool, Definition: x.definition.Digest,
		RequestedBy: cmp.Or(r.User, r.Key, r.Service, "gateway"), User: r.User, Arguments: x.arguments,
		Policy: x.policy.Version, Rule: f.terms.Approval, Approvers: f.terms.Approvers, Page: f.terms.Page, StandingAllowed: !f.terms.NoStanding,
		Price: int64(x.price), ReviewedBy: x.definition.ReviewedBy,
	}
}

// waits returns the error of a call that waits for its approval.
func waits(ref string) *apierr.Error {
	e := *ErrApprovalRequired
	e.Text = fmt.Sprintf("a person has to approve this exact call (%s); make it again with the same arguments", ref)
	return &e
}

func aboutApproval(ref string, err error) error {
	if ref == "" {
		return err
	}
	return &ApprovalError{ref, apierr.From(err)}
}

// wait waits until an approval is decided or a moment has come, and reports progress meanwhile.
func (x *execution) wait(ctx context.Context, ref string, until time.Time) error {
	for time.Now().Before(until) {
		next := time.Now().Add(holdReport)
		if next.After(until) {
			next = until
		}
		decided, err := x.caller.Approvals.Wait(ctx, x.request.Organization, ref, next)
		switch {
		case ctx.Err() != nil:
			return ended(ctx)
		case err != nil:
			return aboutApproval(ref, waits(ref)) // It is not held; it may be repeated.
		case decided:
			return nil
		}
		if x.reports++; x.request.Progress != nil {
			x.request.Progress(upstream.Progress{Progress: holdStep * float64(x.reports), Message: "waits for the approval " + ref})
		}
	}
	return nil
}

// look takes the present policy and the present registration of the server, unless the request has ended.
func (x *execution) look(ctx context.Context, f *facts) error {
	if err := ended(ctx); err != nil {
		return err
	}
	x.policy = x.caller.Policy()
	entry := x.caller.Registry.Find(x.request.Organization, x.server.ID)
	if entry == nil {
		return ErrServerNotFound
	}
	x.entry, x.server, f.entry = entry, &entry.Server, entry
	return nil
}

// trust reads the server's level of trust.
func (x *execution) trust(f *facts) error {
	var err error
	if f.level, err = x.caller.Trust.Level(x.request.Organization, x.server.ID); err != nil {
		return errTrustAway.Wrap(err)
	}
	return nil
}

// recheck makes all checks again that were made before a call was held, or before the server asked for something, as
// everything may have changed meanwhile. What the call has reserved is still reserved.
func (x *execution) recheck(ctx context.Context, f *facts) error {
	if err := x.look(ctx, f); err != nil {
		return err
	}
	x.caller.ask(f, &x.request.Asker, x.policy, x.tool)
	if err := decideRun(f); err != nil {
		return err
	}
	if err := x.trust(f); err != nil {
		return err
	}
	if err := x.define(ctx, f); err != nil {
		return err
	}
	violations, err := x.caller.schemas.check(ctx, x.request.Organization, x.definition, x.arguments)
	switch {
	case err != nil:
		return err
	case len(violations) > 0: // Of another schema than the call was made for.
		return definition.ErrChanged
	}
	return x.judge(ctx, f)
}

// settle writes what became of an approved call, or gives back its approval. A call of several rounds is settled by the
// last one; one that is never continued becomes unknown when its lease runs out.
func (x *execution) settle(ctx context.Context, isError bool, err error) {
	if x.claim == nil || x.last != nil && !x.sent {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if !x.sent {
		if failed := x.caller.Approvals.Release(ctx, x.claim); failed != nil {
			x.caller.Log.WarnContext(ctx, "an approval could not be given back", slog.String("approval", x.claim.Ref), slog.String("error", failed.Error()))
		}
		return
	}
	state := approval.Done
	switch {
	case x.outcome != ledger.OutcomeCompleted, x.broken:
		state = approval.Unknown
	case isError || err != nil:
		state = approval.Failed
	}
	if failed := x.caller.Approvals.Settle(ctx, x.claim, state); failed != nil { // It becomes unknown when its lease runs out.
		x.caller.Log.ErrorContext(ctx, "the end of an approved call could not be stored", slog.String("approval", x.claim.Ref), slog.String("error", failed.Error()))
	}
}
