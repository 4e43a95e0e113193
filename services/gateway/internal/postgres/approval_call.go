package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/pgdb"
)

// Require implements approval.CallStore.
func (s *Approvals) Require(ctx context.Context, asked *approval.Asked, now time.Time) (approval.Approval, error) {
	a, err := s.require(ctx, asked, now)
	if pgdb.IsUniqueViolation(err, "approval_call_open") { // Another request has asked for the same call.
		a, err = s.require(ctx, asked, now)
	}
	if err != nil {
		return a, fmt.Errorf("require approval: %w", err)
	}
	return a, nil
}

func (s *Approvals) require(ctx context.Context, asked *approval.Asked, now time.Time) (a approval.Approval, err error) {
	var refused error
	err = pgdb.InTx(ctx, s.control.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		latest, err := latestCall(ctx, q, asked.Exact)
		if err != nil {
			return err
		}
		step := approval.Ask
		if latest != nil {
			a = *latest
			step, refused = latest.Next(asked.Exact, now)
		}
		switch step {
		case "": // It is refused.
			return nil
		case approval.Lose:
			refused = approval.ErrUnknown
			return q.LoseCall(ctx, dbsql.LoseCallParams{ApprovalID: a.ID, EndedAt: now})
		case approval.Ask:
			if a, err = ask(ctx, q, asked, latest, now); err != nil {
				return err
			}
		case approval.Wait, approval.Claim:
		}
		if a.Status != approval.Approved {
			return nil
		}
		refused, err = claimCall(ctx, q, &a, asked.Lease, now)
		return err
	})
	if err != nil {
		return approval.Approval{}, err
	}
	return a, refused
}

// latestCall locks the latest approval of a call; nil for none.
func latestCall(ctx context.Context, q *dbsql.Queries, c *approval.Exact) (*approval.Approval, error) {
	digest := c.Digest()
	row, err := q.LatestCall(ctx, dbsql.LatestCallParams{OrganizationID: c.Organization, RunID: c.Run, CallDigest: digest[:]})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("latest call: %w", err)
	}
	a := approvalOf(&row.Approval)
	a.Call = executionOf(&row.ApprovalCall)
	return &a, nil
}

// ask stores a new approval in place of the one before, approved if there is a standing approval for it.
func ask(ctx context.Context, q *dbsql.Queries, asked *approval.Asked, before *approval.Approval, now time.Time) (approval.Approval, error) {
	a := asked.New
	execution := *asked.New.Call // Another attempt begins anew.
	a.Call = &execution
	if before != nil {
		if before.Call.State == approval.Unknown {
			a.Call.UnknownRef = before.Ref
		}
		if err := closeCall(ctx, q, before, a.Ref, now); err != nil {
			return a, err
		}
	}
	if err := setInitiators(ctx, q, &a); err != nil {
		return a, err
	}
	if err := useStanding(ctx, q, asked, &a, now); err != nil {
		return a, err
	}
	eventType := houseevent.ApprovalDecided
	if a.Status == approval.Pending {
		eventType = houseevent.ApprovalPending
		waiting, err := q.CountWaitingCalls(ctx, dbsql.CountWaitingCallsParams{OrganizationID: a.Organization, Now: now, Most: approval.MaxWaiting})
		if err != nil {
			return a, fmt.Errorf("count waiting calls: %w", err)
		}
		if waiting >= approval.MaxWaiting {
			return a, approval.ErrTooMany
		}
	}
	if err := insertApproval(ctx, q, &a); err != nil {
		return a, err
	}
	if err := insertCall(ctx, q, &a); err != nil {
		return a, err
	}
	asked.Entry.Details = approvalDetails(a)
	if err := appendAudit(ctx, q, asked.Entry); err != nil {
		return a, err
	}
	return a, addHouseEvent(ctx, q, approvalEvent(a, eventType))
}

// closeCall ends a call whose approval the one with a ref takes the place of, and the approval itself if it waits.
func closeCall(ctx context.Context, q *dbsql.Queries, a *approval.Approval, by string, now time.Time) error {
	if err := q.CloseCall(ctx, dbsql.CloseCallParams{ApprovalID: a.ID, EndedAt: now}); err != nil {
		return fmt.Errorf("close call: %w", err)
	}
	if a.At(now).Status != approval.Pending {
		return nil
	}
	if err := q.ExpireApproval(ctx, dbsql.ExpireApprovalParams{ID: a.ID, ExpiresAt: now}); err != nil {
		return fmt.Errorf("expire approval: %w", err)
	}
	return addHouseEvent(ctx, q, supersededEvent(*a, by, now))
}

func insertCall(ctx context.Context, q *dbsql.Queries, a *approval.Approval) error {
	x := a.Call
	if err := q.CreateCall(ctx, dbsql.CreateCallParams{
		ApprovalID: a.ID, OrganizationID: a.Organization, RunID: a.Run, CallDigest: x.Digest[:], DefinitionDigest: x.Definition[:],
		PolicyVersion: x.Policy, Rule: x.Rule, Approvers: x.Approvers, Proof: proofOf(x), StandingAllowed: x.StandingAllowed,
		PricePicoUsd: x.Price, ReviewedBy: x.ReviewedBy, Redacted: x.Redacted, UnknownRef: x.UnknownRef, StandingRef: x.StandingRef,
	}); err != nil {
		return fmt.Errorf("insert call: %w", err)
	}
	return nil
}

// claimCall claims an approved call. It is refused if another request has claimed it.
func claimCall(ctx context.Context, q *dbsql.Queries, a *approval.Approval, lease approval.Lease, now time.Time) (refused, err error) {
	row, err := q.ClaimCall(ctx, dbsql.ClaimCallParams{ApprovalID: a.ID, Replica: lease.Replica, LeaseUntil: lease.Until, Now: now})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return approval.ErrInProgress, nil
	case err != nil:
		return nil, fmt.Errorf("claim: %w", err)
	}
	a.Call = executionOf(&row)
	return nil, nil
}

// Send implements approval.CallStore.
func (s *Approvals) Send(ctx context.Context, claimed *approval.Approval, until, now time.Time) error {
	rows, err := dbsql.New(s.control.pool).SendCall(ctx, dbsql.SendCallParams{
		ApprovalID: claimed.ID, Attempt: int32(claimed.Call.Attempt), Replica: claimed.Call.Replica, SentAt: now, LeaseUntil: until,
	})
	switch {
	case err != nil:
		return fmt.Errorf("send approved call: %w", err)
	case rows == 0:
		return approval.ErrLost
	}
	return nil
}

// Release implements approval.CallStore.
func (s *Approvals) Release(ctx context.Context, claimed *approval.Approval) error {
	_, err := dbsql.New(s.control.pool).ReleaseCall(ctx, dbsql.ReleaseCallParams{
		ApprovalID: claimed.ID, Attempt: int32(claimed.Call.Attempt), Replica: claimed.Call.Replica,
	})
	if err != nil {
		return fmt.Errorf("release approved call: %w", err)
	}
	return nil
}

// Settle implements approval.CallStore.
func (s *Approvals) Settle(ctx context.Context, claimed *approval.Approval, state approval.State, now time.Time) error {
	_, err := dbsql.New(s.control.pool).SettleCall(ctx, dbsql.SettleCallParams{
		ApprovalID: claimed.ID, Attempt: int32(claimed.Call.Attempt), Replica: claimed.Call.Replica, State: string(state), EndedAt: now,
	})
	if err != nil {
		return fmt.Errorf("settle approved call: %w", err)
	}
	return nil
}

// Lose implements approval.CallStore.
func (s *Approvals) Lose(ctx context.Context, limit int, now time.Time) (int, error) {
	lost, err := dbsql.New(s.control.pool).LoseCalls(ctx, dbsql.LoseCallsParams{Now: now, Most: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("lose calls: %w", err)
	}
	return len(lost), nil
}

// Decided implements approval.CallStore.
func (s *Approvals) Decided(ctx context.Context, refs []string, now time.Time) ([]string, error) {
	decided, err := dbsql.New(s.control.pool).Decided(ctx, dbsql.DecidedParams{Refs: refs, Now: now})
	if err != nil {
		return nil, fmt.Errorf("decided approvals: %w", err)
	}
	return decided, nil
}

// withCalls sets the exact calls of approvals.
func withCalls(ctx context.Context, q *dbsql.Queries, approvals ...*approval.Approval) error {
	if len(approvals) == 0 {
		return nil
	}
	ids, byID := make([]int64, len(approvals)), make(map[int64]*approval.Approval, len(approvals))
	for i, a := range approvals {
		ids[i], byID[a.ID] = a.ID, a
	}
	rows, err := q.ApprovalCalls(ctx, ids)
	if err != nil {
		return fmt.Errorf("calls of approvals: %w", err)
	}
	for i := range rows {
		byID[rows[i].ApprovalID].Call = executionOf(&rows[i])
	}
	return nil
}

func proofOf(x *approval.Execution) string {
	if x.Page {
		return "page"
	}
	return "link"
}

func executionOf(r *dbsql.ApprovalCall) *approval.Execution {
	return &approval.Execution{
		Digest: [32]byte(r.CallDigest), Definition: [32]byte(r.DefinitionDigest), Policy: r.PolicyVersion, Rule: r.Rule,
		Approvers: r.Approvers, Page: r.Proof == "page", StandingAllowed: r.StandingAllowed, Price: r.PricePicoUsd, ReviewedBy: r.ReviewedBy,
		Redacted: r.Redacted, UnknownRef: r.UnknownRef, StandingRef: r.StandingRef, State: approval.State(r.State),
		Attempt: int(r.Attempt), Replica: r.Replica, LeaseUntil: r.LeaseUntil.Time, SentAt: r.SentAt.Time, EndedAt: r.EndedAt.Time,
	}
}
