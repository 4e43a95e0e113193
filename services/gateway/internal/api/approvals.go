package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/rpc"
)

// approvalServer serves people's decisions on tool executions.
type approvalServer struct {
	gatewayv1.UnimplementedApprovalServiceServer

	approvals   Approvals
	expressions *approval.Expressions
	redactor    func() *redact.Redactor
	attempts    *decisionAttempts
}

func newApprovalServer(deps Dependencies) *approvalServer {
	return &approvalServer{
		approvals: deps.Approvals, expressions: deps.Expressions, attempts: newDecisionAttempts(),
		redactor: func() *redact.Redactor {
			p, _, _ := deps.Policies.Present()
			return p.Redactor()
		},
	}
}

// Approvals stores people's decisions, their tokens and standing approvals.
type Approvals interface {
	approval.Store
	approval.TokenStore
	approval.StandingStore
}

// CreateApproval creates a pending approval.
func (s *approvalServer) CreateApproval(ctx context.Context, m *gatewayv1.CreateApprovalRequest) (*gatewayv1.Approval, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	run, err := caller.From(ctx).RunOf(m.GetRunId())
	if err != nil {
		return nil, err
	}
	arguments, err := toArguments(m.GetArguments())
	if err == nil {
		err = notBlank("tool", m.GetTool())
	}
	if err == nil {
		err = principal.Check("requested_by", m.GetRequestedBy())
	}
	if err != nil {
		return nil, err
	}
	a := approval.New(approval.Approval{
		Organization: organization, Tool: m.GetTool(), Arguments: arguments, RequestedBy: m.GetRequestedBy(),
		Run: run, Server: m.GetServerId(), Description: m.GetDescription(), AskedUser: caller.From(ctx).User,
	}, time.Duration(m.GetTtlSeconds())*time.Second, present())
	entry := audit.New(ctx, "approval.create", audit.Subject{Type: "approval", ID: a.Ref, Organization: organization}, "")
	if err := s.approvals.Create(ctx, a, &entry); err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	rpc.SetStatus(ctx, http.StatusCreated)
	return fromApproval(a), nil
}

// GetApproval returns an approval in its present state.
func (s *approvalServer) GetApproval(ctx context.Context, m *gatewayv1.GetApprovalRequest) (*gatewayv1.Approval, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	a, err := s.approvals.Get(ctx, organization, m.GetRef())
	if err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	return fromApproval(a.At(present())), nil
}

// ListApprovals returns a page of an organization's approvals.
func (s *approvalServer) ListApprovals(ctx context.Context, m *gatewayv1.ListApprovalsRequest) (*gatewayv1.ListApprovalsResponse, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	page := newKeyset("approvals", organization, m.GetStatus(), m.GetRunId(), m.GetTool())
	before, err := page.number(m.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	found, err := s.approvals.List(ctx, approval.Filter{
		Organization: organization, Run: m.GetRunId(), Tool: m.GetTool(), Status: approval.Status(m.GetStatus()), Before: before, Limit: limit + 1,
	}, present())
	if err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	out := &gatewayv1.ListApprovalsResponse{}
	for i, a := range found {
		if i == limit {
			out.NextCursor = page.cursor(strconv.FormatInt(found[i-1].ID, 10))
			break
		}
		out.Approvals = append(out.Approvals, fromApproval(a))
	}
	return out, nil
}

// Approve allows an execution.
func (s *approvalServer) Approve(ctx context.Context, m *gatewayv1.ApproveRequest) (*gatewayv1.Approval, error) {
	return s.decide(ctx, approval.Approve, m)
}

// Deny forbids an execution.
func (s *approvalServer) Deny(ctx context.Context, m *gatewayv1.DenyRequest) (*gatewayv1.Approval, error) {
	return s.decide(ctx, approval.Deny, m)
}

// decision is what the requests of Approve and Deny have in common.
type decision interface {
	proto.Message
	GetOrganizationId() string
	GetRef() string
	GetDecidedBy() string
	GetDecidedVia() string
	GetReason() string
}

func (s *approvalServer) decide(ctx context.Context, event approval.Event, m decision) (*gatewayv1.Approval, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err == nil {
		err = principal.Check("decided_by", m.GetDecidedBy())
	}
	if err != nil {
		return nil, err
	}
	entry := audit.New(ctx, "approval."+string(event), audit.Subject{Type: "approval", ID: m.GetRef(), Organization: organization}, m.GetReason())
	a, err := s.approvals.Decide(ctx, organization, m.GetRef(), approval.Decision{
		Event: event, By: m.GetDecidedBy(), Reason: m.GetReason(), User: caller.From(ctx).User,
		Via: cmp.Or(m.GetDecidedVia(), approval.ViaAPI),
	}, present(), &entry)
	if err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	return fromApproval(a), nil
}

// organizationIn returns the organization that a message is about, and refuses a message whose texts can't be stored.
func organizationIn(ctx context.Context, m proto.Message, field string) (string, error) {
	if err := storable(m); err != nil {
		return "", err
	}
	return organizationOf(ctx, field)
}

// toArguments returns JSON unchanged; null is none.
func toArguments(text []byte) (json.RawMessage, error) {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0 || string(text) == "null":
		return nil, nil
	case !jsoncheck.Valid(text):
		return nil, apierr.Invalid("arguments", "must be JSON")
	}
	return text, nil
}

// storable refuses texts with a zero byte, which no database accepts.
func storable(m proto.Message) (err error) {
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() == protoreflect.StringKind && !field.IsList() && !field.IsMap() && strings.IndexByte(value.String(), 0) >= 0 {
			err = apierr.Invalid(string(field.Name()), "must not hold a zero byte")
		}
		return err == nil
	})
	return err
}

// notBlank refuses fields (name, value, …) that hold only spaces.
func notBlank(fields ...string) error {
	for field := range slices.Chunk(fields, 2) {
		if strings.TrimSpace(field[1]) == "" {
			return apierr.Invalid(field[0], "must not be blank")
		}
	}
	return nil
}

// present returns the time at the database's precision.
func present() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func fromApproval(a approval.Approval) *gatewayv1.Approval {
	return &gatewayv1.Approval{
		Ref: a.Ref, OrganizationId: a.Organization, Status: string(a.Status), Tool: a.Tool, Arguments: a.Arguments,
		RequestedBy: a.RequestedBy, RunId: toNullable(a.Run), ServerId: toNullable(a.Server), Description: a.Description,
		DecidedBy: toNullable(a.DecidedBy), DecidedAt: optionalTime(a.DecidedAt), Reason: toNullable(a.Reason),
		CreatedAt: timestamppb.New(a.CreatedAt), ExpiresAt: timestamppb.New(a.ExpiresAt),
		Call: fromExecution(a.Call), DecidedVia: toNullable(a.Via),
	}
}

// fromExecution returns the exact call of an approval; nil for none.
func fromExecution(x *approval.Execution) *gatewayv1.ExactCall {
	if x == nil {
		return nil
	}
	proof := "link"
	if x.Page {
		proof = proofPage
	}
	return &gatewayv1.ExactCall{
		DefinitionDigest: hex.EncodeToString(x.Definition[:]), CallDigest: hex.EncodeToString(x.Digest[:]), PolicyVersion: x.Policy,
		Rule: x.Rule, Approvers: x.Approvers, Proof: proof, PriceCents: price.Pico(x.Price).Cents(),
		DefinitionReviewedBy: toNullable(x.ReviewedBy), Redacted: x.Redacted, State: string(x.State), Attempts: int32(x.Attempt),
		SentAt: optionalTime(x.SentAt), EndedAt: optionalTime(x.EndedAt), StandingId: toNullable(x.StandingRef), UnknownRef: toNullable(x.UnknownRef),
	}
}
