package api

import (
	"context"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/wrapperspb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/circuit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// Circuits is the part of package circuit that the API uses.
type Circuits interface {
	List(ctx context.Context, f circuit.Filter, after breaker.Target, limit int) ([]circuit.Circuit, breaker.Target, error)
}

// circuits implements webhooksv1.CircuitServiceServer.
type circuits struct {
	webhooksv1.UnimplementedCircuitServiceServer
	tenant

	circuits Circuits
}

// ListCircuits implements the method of that name.
func (s *circuits) ListCircuits(ctx context.Context, r *webhooksv1.ListCircuitsRequest) (*webhooksv1.ListCircuitsResponse, error) {
	if err := refuseOwner(ctx, "circuits"); err != nil {
		return nil, err
	}
	filter := circuit.Filter{Every: r.GetAllOrganizations(), States: make([]circuit.State, len(r.GetState()))}
	for i, state := range r.GetState() {
		filter.States[i] = circuit.State(state)
	}
	from := caller.From(ctx)
	var err error
	if filter.Every {
		err = from.EveryOrganization(r.GetOrganizationId())
	} else {
		filter.Organization, err = from.OrganizationOr(r.GetOrganizationId(), string(s.tenant))
	}
	if err != nil {
		return nil, err
	}
	after, err := decodeTarget(r.GetCursor())
	if err != nil {
		return nil, err
	}
	page, next, err := s.circuits.List(ctx, filter, after, limitOf(r))
	if err != nil {
		return nil, err
	}
	response := &webhooksv1.ListCircuitsResponse{Circuits: make([]*webhooksv1.Circuit, len(page)), NextCursor: encodeTarget(next)}
	for i := range page {
		response.Circuits[i] = circuitMessage(&page[i])
	}
	return response, nil
}

func circuitMessage(c *circuit.Circuit) *webhooksv1.Circuit {
	return &webhooksv1.Circuit{
		OrganizationId: c.Target.Organization, Host: c.Target.Host, Port: int32(c.Target.Port), State: string(c.State),
		OpenedAt: timeOrNull(c.OpenedAt), NextAttemptAt: timeOrNull(c.NextAttemptAt), Openings: int32(c.Openings),
		ConsecutiveFailures: int32(c.Failures), LastFailedAt: timeOrNull(c.LastFailedAt),
		LastDeliveredAt: timeOrNull(c.LastDeliveredAt), Endpoints: int32(c.Endpoints), HostState: string(c.Host),
		Flows: flowMessages(c.Flows), WaitingFlows: int32(c.WaitingFlows),
	}
}

func flowMessages(flows []circuit.Flow) []*webhooksv1.FlowCircuit {
	messages := make([]*webhooksv1.FlowCircuit, len(flows))
	for i, f := range flows {
		messages[i] = &webhooksv1.FlowCircuit{
			State: string(f.State), OpenedAt: timeOrNull(f.OpenedAt), NextAttemptAt: timeOrNull(f.NextAttemptAt),
			Openings: int32(f.Openings), ConsecutiveFailures: int32(f.Failures),
			LastFailedAt: timeOrNull(f.LastFailedAt), LastDeliveredAt: timeOrNull(f.LastDeliveredAt),
		}
		if f.Endpoint != (delivery.ID{}) {
			messages[i].EndpointId = wrapperspb.String(f.Endpoint.String())
		}
	}
	return messages
}

// encodeTarget returns the cursor of the page that begins after a target; empty for the zero Target. Port and host have no
// space.
func encodeTarget(t breaker.Target) string {
	if t == (breaker.Target{}) {
		return ""
	}
	return circuitCursor.encodeText(strconv.Itoa(t.Port) + " " + t.Host + " " + t.Organization)
}

// decodeTarget returns the target in a cursor; an empty cursor is the beginning of the list.
func decodeTarget(text string) (breaker.Target, error) {
	name, err := circuitCursor.decodeText(text)
	if err != nil || name == "" {
		return breaker.Target{}, err
	}
	parts := strings.SplitN(name, " ", 3)
	if len(parts) < 3 {
		return breaker.Target{}, errCursor
	}
	port, err := strconv.Atoi(parts[0])
	if err != nil || port < 0 || port > math.MaxUint16 {
		return breaker.Target{}, errCursor
	}
	return breaker.Target{Organization: parts[2], Host: parts[1], Port: port}, nil
}
