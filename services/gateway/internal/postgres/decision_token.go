package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// roleApprover is the role of decisions by tokens in the audit.
const roleApprover = "approver"

// Mint implements approval.TokenStore.
func (s *Approvals) Mint(
	ctx context.Context, organization, ref, secret, approver, channel string, now time.Time, entry *audit.Entry,
) (token approval.Token, err error) {
	err = s.control.Record(ctx, entry, func(ctx context.Context, q *dbsql.Queries) error {
		row, err := q.LockApproval(ctx, dbsql.LockApprovalParams{Ref: ref, OrganizationID: organization})
		if err != nil {
			return orMissing(err, approval.ErrNotFound)
		}
		if token, err = approvalOf(&row).Mint(secret, approver, channel, now); err != nil {
			return err
		}
		count, err := q.CountTokens(ctx, dbsql.CountTokensParams{ApprovalID: row.ID, Approver: approver})
		switch {
		case err != nil:
			return fmt.Errorf("count tokens: %w", err)
		case count >= approval.MaxTokens:
			return approval.ErrTokensExhausted
		}
		entry.Details = tokenDetails(&token)
		return q.CreateToken(ctx, dbsql.CreateTokenParams{
			TokenSha256: token.Hash[:], ApprovalID: row.ID, Approver: approver, Channel: channel, CreatedAt: now, ExpiresAt: token.ExpiresAt,
		})
	})
	if err != nil {
		return approval.Token{}, fmt.Errorf("mint decision token: %w", err)
	}
	return token, nil
}

// ByToken implements approval.TokenStore.
func (s *Approvals) ByToken(ctx context.Context, hash [sha256.Size]byte) (approval.Approval, approval.Token, error) {
	q := dbsql.New(s.control.pool)
	row, err := q.TokenApproval(ctx, hash[:])
	if err != nil {
		return approval.Approval{}, approval.Token{}, fmt.Errorf("decision token: %w", orMissing(err, approval.ErrTokenNotFound))
	}
	a := approvalOf(&row.Approval)
	if err := withCalls(ctx, q, &a); err != nil {
		return approval.Approval{}, approval.Token{}, err
	}
	return a, tokenOf(&row.DecisionToken), nil
}

// DecideByToken implements approval.TokenStore.
func (s *Approvals) DecideByToken(
	ctx context.Context, hash [sha256.Size]byte, d approval.TokenDecision, now time.Time, entry *audit.Entry,
) (decided approval.Approval, token approval.Token, err error) {
	err = s.control.Change(ctx, control.Approvals, entry, func(ctx context.Context, q *dbsql.Queries, _ int64) error {
		row, err := q.LockTokenApproval(ctx, hash[:])
		if err != nil {
			return orMissing(err, approval.ErrTokenNotFound)
		}
		a := approvalOf(&row.Approval)
		if err := withCalls(ctx, q, &a); err != nil {
			return err
		}
		token = tokenOf(&row.DecisionToken)
		var repeated bool
		decided, repeated, err = a.DecideBy(&token, d, now)
		switch {
		case err != nil:
			return err
		case repeated:
			return control.ErrUnchanged
		}
		entry.Actor, entry.ActorRole, entry.Organization, entry.Subject = token.Approver, roleApprover, a.Organization, a.Ref
		if err := storeDecision(ctx, q, &decided, entry); err != nil {
			return err
		}
		return q.UseToken(ctx, dbsql.UseTokenParams{TokenSha256: hash[:], Decision: string(d.Event)})
	})
	if err != nil {
		return approval.Approval{}, approval.Token{}, fmt.Errorf("decide by token: %w", err)
	}
	return decided, token, nil
}

// DropTokens deletes tokens that expired before a moment, at most limit, and returns how many.
func (s *Approvals) DropTokens(ctx context.Context, limit int, before time.Time) (int, error) {
	dropped, err := dbsql.New(s.control.pool).DropTokens(ctx, dbsql.DropTokensParams{Before: before, Most: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("drop decision tokens: %w", err)
	}
	return int(dropped), nil
}

func tokenDetails(t *approval.Token) []byte {
	return details(map[string]any{
		"approver": t.Approver, "channel": t.Channel, "token": approval.HashName(t.Hash), "expires_at": t.ExpiresAt,
	})
}

func tokenOf(r *dbsql.DecisionToken) approval.Token {
	return approval.Token{
		Hash: [sha256.Size]byte(r.TokenSha256), Approver: r.Approver, Channel: r.Channel, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
		Decision: approval.Event(r.Decision),
	}
}
