package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
)

var _ approver.Store = (*Approvers)(nil)

var approvalCursor = cursor{
	lock: func(ctx context.Context, q *dbsql.Queries) (string, error) { return q.LockApprovalCursor(ctx) },
	move: func(ctx context.Context, q *dbsql.Queries, cursor string) error {
		return q.MoveApprovalCursor(ctx, cursor)
	},
}

// Alone implements approver.Store.
func (a *Approvers) Alone(ctx context.Context, do func(ctx context.Context, done string, s approver.State) (string, error)) error {
	err := alone(ctx, a.pool, approvalCursor, func(ctx context.Context, done string, q *dbsql.Queries) (string, error) {
		return do(ctx, done, approvalState{q})
	})
	if err != nil {
		return fmt.Errorf("follow approvals: %w", err)
	}
	return nil
}

// Notice returns the notice of an id with its approval; nil without an error if there is none.
func (a *Approvers) Notice(ctx context.Context, id string) (*approver.Notice, error) {
	row, err := dbsql.New(a.pool).GetApprovalNotice(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get approval notice: %w", err)
	}
	n := noticeOf(row.ApprovalNotice, row.Approval)
	return &n, nil
}

// Purge implements approver.Store.
func (a *Approvers) Purge(ctx context.Context, before time.Time) error {
	if _, err := dbsql.New(a.pool).PurgeApprovals(ctx, before); err != nil {
		return fmt.Errorf("purge approvals: %w", err)
	}
	return nil
}

// approvalState implements approver.State. What it writes does not end with the context of the calls that were made before.
type approvalState struct{ q *dbsql.Queries }

func (s approvalState) Groups(ctx context.Context, organization string) ([]approver.Group, error) {
	text, err := approverGroups(ctx, s.q, organization)
	if err != nil || text == nil {
		return nil, err
	}
	return approver.Decode(text)
}

func (s approvalState) Open(ctx context.Context, a approver.Approval, notices []approver.Notice) error {
	ctx = context.WithoutCancel(ctx)
	opened, err := s.q.OpenApproval(ctx, dbsql.OpenApprovalParams{
		OrganizationID: a.Organization, Ref: a.Ref, GroupName: a.Group, Proof: a.Proof, Server: a.Server, Tool: a.Tool, Rule: a.Rule,
		RequestedBy: a.RequestedBy, RequestedAt: a.At, ExpiresAt: a.ExpiresAt,
	})
	if err != nil {
		return fmt.Errorf("open approval: %w", err)
	}
	if opened == 0 {
		return nil
	}
	p := dbsql.PlanApprovalNoticesParams{OrganizationID: a.Organization, Ref: a.Ref}
	for i := range notices {
		n := &notices[i]
		p.Ids, p.Steps, p.Channels = append(p.Ids, "ntc_"+strings.ToLower(rand.Text())), append(p.Steps, int32(n.Step)), append(p.Channels, n.Channel)
		p.Members, p.Conversations, p.DueAts = append(p.Members, n.User), append(p.Conversations, n.SlackChannel), append(p.DueAts, n.DueAt)
	}
	if err := s.q.PlanApprovalNotices(ctx, p); err != nil {
		return fmt.Errorf("plan approval notices: %w", err)
	}
	return nil
}

func (s approvalState) Close(ctx context.Context, a approver.Approval) error {
	ctx = context.WithoutCancel(ctx)
	closed, err := s.q.CloseApproval(ctx, dbsql.CloseApprovalParams{
		State: a.State, DecidedBy: a.DecidedBy, ClosedAt: a.ClosedAt, OrganizationID: a.Organization, Ref: a.Ref,
	})
	if err != nil {
		return fmt.Errorf("close approval: %w", err)
	}
	if closed == 0 {
		return nil
	}
	rows, err := s.q.OpenApprovalNotices(ctx, dbsql.OpenApprovalNoticesParams{OrganizationID: a.Organization, Ref: a.Ref})
	if err != nil {
		return fmt.Errorf("notices of an approval: %w", err)
	}
	moved := make(map[string][]string)
	for _, row := range rows {
		n := approver.Notice{State: row.State, Attempts: int(row.Attempts)}
		if state := approver.After(&n); state != n.State {
			moved[state] = append(moved[state], row.ID)
		}
	}
	for state, ids := range moved {
		if err := s.q.MoveApprovalNotices(ctx, dbsql.MoveApprovalNoticesParams{State: state, DueAt: a.ClosedAt, Ids: ids}); err != nil {
			return fmt.Errorf("close approval notices: %w", err)
		}
	}
	return nil
}

func (s approvalState) Overdue(ctx context.Context, now time.Time, limit int) ([]approver.Approval, error) {
	rows, err := s.q.OverdueApprovals(ctx, dbsql.OverdueApprovalsParams{Now: now, Most: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("overdue approvals: %w", err)
	}
	found := make([]approver.Approval, len(rows))
	for i, row := range rows {
		found[i] = approvalOf(row.Approval)
	}
	return found, nil
}

func (s approvalState) Postpone(ctx context.Context, a approver.Approval) error {
	err := s.q.PostponeApproval(context.WithoutCancel(ctx), dbsql.PostponeApprovalParams{
		Checks: int32(a.Checks), NextCheck: a.NextCheck, OrganizationID: a.Organization, Ref: a.Ref,
	})
	if err != nil {
		return fmt.Errorf("postpone approval: %w", err)
	}
	return nil
}

func (s approvalState) Due(ctx context.Context, state string, now time.Time, limit int) ([]approver.Notice, error) {
	rows, err := s.q.DueApprovalNotices(ctx, dbsql.DueApprovalNoticesParams{State: state, Now: now, Most: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("due approval notices: %w", err)
	}
	found := make([]approver.Notice, len(rows))
	for i, row := range rows {
		found[i] = noticeOf(row.ApprovalNotice, row.Approval)
	}
	return found, nil
}

func (s approvalState) Save(ctx context.Context, n *approver.Notice) error {
	p := dbsql.SaveApprovalNoticeParams{
		ID: n.ID, State: n.State, DueAt: n.DueAt, Attempts: int32(n.Attempts), Sealed: n.Sealed,
	}
	if n.Notification != "" {
		p.NotificationID = &n.Notification
	}
	if err := s.q.SaveApprovalNotice(context.WithoutCancel(ctx), p); err != nil {
		return fmt.Errorf("save approval notice: %w", err)
	}
	return nil
}

func noticeOf(n dbsql.ApprovalNotice, a dbsql.Approval) approver.Notice {
	notice := approver.Notice{
		ID: n.ID, Step: int(n.Step), Channel: n.Channel, User: n.Member, SlackChannel: n.Conversation, DueAt: n.DueAt, State: n.State,
		Attempts: int(n.Attempts), Sealed: n.Sealed, Approval: approvalOf(a),
	}
	if n.NotificationID != nil {
		notice.Notification = *n.NotificationID
	}
	return notice
}

func approvalOf(a dbsql.Approval) approver.Approval {
	found := approver.Approval{
		Organization: a.OrganizationID, Ref: a.Ref, Group: a.GroupName, Proof: a.Proof, Server: a.Server, Tool: a.Tool, Rule: a.Rule,
		RequestedBy: a.RequestedBy, At: a.RequestedAt, ExpiresAt: a.ExpiresAt, State: a.State, DecidedBy: a.DecidedBy,
		Checks: int(a.Checks),
	}
	if a.ClosedAt != nil {
		found.ClosedAt = *a.ClosedAt
	}
	if a.NextCheck != nil {
		found.NextCheck = *a.NextCheck
	}
	return found
}
