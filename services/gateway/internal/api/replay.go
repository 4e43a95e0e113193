package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// maxReplays is how many replays of a request are listed.
const maxReplays = 50

// errNotCaptured is the same for a request that was never captured, is no longer stored, or is another organization's.
var errNotCaptured = apierr.New(apierr.KindNotFound, apierr.ReasonNotFound,
	"request_id: no captured request of this id; it was not captured, is no longer kept, or is another organization's")

// GetReplay returns the whole context of a captured request, without the credentials that its members are named for.
func (s *traceServer) GetReplay(ctx context.Context, m *gatewayv1.GetReplayRequest) (*gatewayv1.ReplayPacket, error) {
	execution, err := s.execution(ctx, m)
	if err != nil {
		return nil, err
	}
	replays, err := s.archive.Replays(ctx, execution.Organization, execution.RequestID, maxReplays)
	if err != nil {
		return nil, fmt.Errorf("replays: %w", err)
	}
	return &gatewayv1.ReplayPacket{
		RequestId: execution.RequestID, OrganizationId: execution.Organization, Operation: execution.Operation,
		Request: redact.Credentials(execution.Request), Response: redact.Credentials(execution.Response), Lineage: fromLineage(&execution.Record),
		Usage: usageOf(&execution.Record), Error: errorOf(&execution.Record), Replays: replays,
		CapturedAt: timestamppb.New(execution.Content.CapturedAt), ExpiresAt: timestamppb.New(execution.Content.ExpiresAt),
	}, nil
}

// named is a message about one request of an organization.
type named interface {
	GetRequestId() string
	GetOrganizationId() string
}

// execution returns the execution that a message names, for its own organization only.
func (s *traceServer) execution(ctx context.Context, m named) (*trace.Execution, error) {
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	execution, err := s.archive.Execution(ctx, organization, m.GetRequestId())
	switch {
	case errors.Is(err, trace.ErrNotFound):
		return nil, errNotCaptured
	case err != nil:
		return nil, fmt.Errorf("captured request: %w", err)
	}
	return execution, nil
}

// Replay sends a captured request again. It is a new request: it is admitted, planned, billed and recorded by the
// present rules, and never answered from the cache.
func (s *traceServer) Replay(ctx context.Context, m *gatewayv1.ReplayRequest) (*gatewayv1.ReplayResponse, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	run, err := caller.From(ctx).RunOf(m.GetRunId())
	if err != nil {
		return nil, err
	}
	execution, err := s.execution(ctx, m)
	if err != nil {
		return nil, err
	}
	if !execution.Replayable() {
		return nil, apierr.New(apierr.KindUnprocessable, apierr.ReasonUnprocessable,
			"request_id: the request was longer than what is kept of one, and can't be issued again")
	}
	raw := trace.RawRequest{Form: execution.Form, Header: execution.Header, Body: execution.Request}
	request, err := s.inferences.read(ctx, raw, execution.Organization, run)
	if err != nil {
		return nil, fmt.Errorf("read captured request: %w", err)
	}
	if request.ID == execution.RequestID {
		return nil, apierr.Invalid(caller.HeaderRequest, "must not be that of the request to repeat")
	}
	request.ReplayOf, request.BypassCache = execution.RequestID, true
	answer, report, err := s.inferences.serve(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return &gatewayv1.ReplayResponse{
		RequestId: request.ID, ReplayOf: execution.RequestID, Operation: execution.Operation, Answer: answer, Usage: toUsageProto(report),
	}, nil
}

// serve serves a request whole, whatever its operation, and gives its answer as
// the JSON face does.
func (s *inferenceServer) serve(ctx context.Context, r *inference.Request) (json.RawMessage, ledger.Report, error) {
	if r.Relay != nil {
		return s.replayRelay(ctx, r)
	}
	switch r.Route.Operation {
	case provider.OperationEmbeddings:
		embedded, err := s.engine.Embed(ctx, r)
		if err != nil {
			return nil, ledger.Report{}, err
		}
		annotate(ctx, embedded.Route, embedded.Report)
		text, err := embeddingsJSON(embedded, r.ID)
		return text, embedded.Report, err
	case provider.OperationImages:
		result, err := s.engine.MakeImages(ctx, r)
		if err != nil {
			return nil, ledger.Report{}, err
		}
		annotate(ctx, result.Route, result.Report)
		text, err := imagesJSON(result, r.ID)
		return text, result.Report, err
	default:
		completion, err := s.engine.Chat(ctx, r)
		if err != nil {
			return nil, ledger.Report{}, err
		}
		annotate(ctx, completion.Route, completion.Report)
		text, err := completionJSON(completion, r.Route.Operation, r.ID)
		return text, completion.Report, err
	}
}
