package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// CreateDecisionToken mints a token by which one approver may decide.
func (s *approvalServer) CreateDecisionToken(ctx context.Context, m *gatewayv1.CreateDecisionTokenRequest) (*gatewayv1.DecisionToken, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err == nil {
		err = principal.Check("approver", m.GetApprover())
	}
	if err != nil {
		return nil, err
	}
	secret := approval.NewToken()
	entry := audit.New(ctx, "approval.token", audit.Subject{Type: "approval", ID: m.GetRef(), Organization: organization}, "")
	token, err := s.approvals.Mint(ctx, organization, m.GetRef(), secret, m.GetApprover(), m.GetChannel(), present(), &entry)
	if err != nil {
		return nil, fmt.Errorf("decision token: %w", err)
	}
	rpc.SetStatus(ctx, http.StatusCreated)
	rpc.SetHeader(ctx, "Cache-Control", "no-store")
	return &gatewayv1.DecisionToken{Token: secret, ExpiresAt: timestamppb.New(token.ExpiresAt)}, nil
}

// GetDecision shows what a token decides.
func (s *approvalServer) GetDecision(ctx context.Context, m *gatewayv1.GetDecisionRequest) (*gatewayv1.Decision, error) {
	rpc.SetHeader(ctx, "Cache-Control", "no-store")
	hash := approval.HashToken(m.GetToken())
	if err := s.attempts.token(hash, present()); err != nil {
		return nil, err
	}
	a, token, err := s.approvals.ByToken(ctx, hash)
	if err != nil {
		return nil, s.unknownToken(ctx, err)
	}
	if a = a.At(present()); a.Status == approval.Expired || a.Status == approval.Superseded {
		return nil, approval.ErrTokenExpired
	}
	return s.fromDecision(&a, &token), nil
}

// Decide decides by a token.
func (s *approvalServer) Decide(ctx context.Context, m *gatewayv1.DecideRequest) (*gatewayv1.Decision, error) {
	rpc.SetHeader(ctx, "Cache-Control", "no-store")
	hash := approval.HashToken(m.GetToken())
	if err := s.attempts.token(hash, present()); err != nil {
		return nil, err
	}
	if err := storable(m); err != nil {
		return nil, err
	}
	event := approval.Event(m.GetDecision())
	entry := audit.New(ctx, "approval."+string(event), audit.Subject{Type: "approval"}, m.GetReason())
	a, token, err := s.approvals.DecideByToken(ctx, hash, approval.TokenDecision{
		Event: event, Reason: m.GetReason(), Display: m.GetDisplayVersion(), Page: m.GetProof() == proofPage,
	}, present(), &entry)
	if err != nil {
		return nil, s.unknownToken(ctx, err)
	}
	return s.fromDecision(&a, &token), nil
}

// proofPage is the proof of a decision that is made on a page.
const proofPage = "page"

// unknownToken returns the error of a decision, and counts those by tokens that don't exist.
func (s *approvalServer) unknownToken(ctx context.Context, err error) error {
	if errors.Is(err, approval.ErrTokenNotFound) {
		if limited := s.attempts.miss(addressOf(ctx), present()); limited != nil {
			return limited
		}
		return approval.ErrTokenNotFound
	}
	if shown, ok := errors.AsType[*apierr.Error](err); ok {
		return shown
	}
	return fmt.Errorf("decision: %w", err)
}

func (s *approvalServer) fromDecision(a *approval.Approval, t *approval.Token) *gatewayv1.Decision {
	arguments := a.Arguments
	if a.Call == nil { // Those of a call were redacted when it was asked for.
		arguments = s.redactor().JSON(arguments, redact.Kinds{})
	}
	return &gatewayv1.Decision{
		Ref: a.Ref, OrganizationId: a.Organization, Status: string(a.Status), Approver: t.Approver, Channel: t.Channel,
		ServerId: toNullable(a.Server), Tool: a.Tool, Arguments: arguments, RequestedBy: a.RequestedBy, RunId: toNullable(a.Run),
		Description: a.Description, Call: fromExecution(a.Call), DisplayVersion: a.Display(),
		CreatedAt: timestamppb.New(a.CreatedAt), ExpiresAt: timestamppb.New(a.ExpiresAt),
		DecidedBy: toNullable(a.DecidedBy), DecidedVia: toNullable(a.Via), DecidedAt: optionalTime(a.DecidedAt), Reason: toNullable(a.Reason),
	}
}
