// Package api implements the contract's services over the domain: it determines the organization and owner of each
// request and translates between messages and domain types.
package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	countsv1 "switchyard.dev/gen/go/switchyard/counts/v1"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// Domain holds the implementations behind the services. Organization is the default for requests that name none;
// empty means no default. Keys may be nil.
type Domain struct {
	Deliverer    Deliverer
	Registry     Registry
	Emitter      Emitter
	Types        EventTypes
	House        House
	Replayer     Replayer
	Circuits     Circuits
	CallCounts   CallCounts
	Keys         *signing.KeySet
	Organization string
}

// Register adds every service of the contract to the gRPC and HTTP faces of a server.
func Register(ctx context.Context, server *rpc.Server, d Domain) error {
	whom := tenant(d.Organization)
	delivering := &deliveries{tenant: whom, deliverer: d.Deliverer}
	countsv1.RegisterCallCountServiceServer(server, &callCountServer{counts: d.CallCounts})
	webhooksv1.RegisterCircuitServiceServer(server, &circuits{tenant: whom, circuits: d.Circuits})
	webhooksv1.RegisterDeliveryServiceServer(server, delivering)
	webhooksv1.RegisterEndpointServiceServer(server, &endpoints{tenant: whom, registry: d.Registry})
	webhooksv1.RegisterEventServiceServer(server, &events{tenant: whom, emitter: d.Emitter})
	webhooksv1.RegisterEventTypeServiceServer(server, &eventTypes{tenant: whom, types: d.Types})
	webhooksv1.RegisterHouseEventServiceServer(server, &houseEvents{house: d.House})
	webhooksv1.RegisterReplayServiceServer(server, &replays{tenant: whom, replayer: d.Replayer})
	webhooksv1.RegisterSigningKeyServiceServer(server, &signingKeys{keys: d.Keys})
	mux, local := server.Mux(), server.Local()
	for _, err := range []error{
		countsv1.RegisterCallCountServiceHandlerClient(ctx, mux, countsv1.NewCallCountServiceClient(local)),
		webhooksv1.RegisterCircuitServiceHandlerClient(ctx, mux, webhooksv1.NewCircuitServiceClient(local)),
		webhooksv1.RegisterDeliveryServiceHandlerClient(ctx, mux, webhooksv1.NewDeliveryServiceClient(local)),
		webhooksv1.RegisterEndpointServiceHandlerClient(ctx, mux, webhooksv1.NewEndpointServiceClient(local)),
		webhooksv1.RegisterEventServiceHandlerClient(ctx, mux, webhooksv1.NewEventServiceClient(local)),
		webhooksv1.RegisterEventTypeServiceHandlerClient(ctx, mux, webhooksv1.NewEventTypeServiceClient(local)),
		webhooksv1.RegisterHouseEventServiceHandlerClient(ctx, mux, webhooksv1.NewHouseEventServiceClient(local)),
		webhooksv1.RegisterReplayServiceHandlerClient(ctx, mux, webhooksv1.NewReplayServiceClient(local)),
		webhooksv1.RegisterSigningKeyServiceHandlerClient(ctx, mux, webhooksv1.NewSigningKeyServiceClient(local)),
	} {
		if err != nil {
			return fmt.Errorf("api: register: %w", err)
		}
	}
	server.Handle("POST", "/v1/deliveries", webhooksv1.DeliveryService_Enqueue_FullMethodName,
		delivering.serveEnqueue(server.Decode))
	return nil
}

// Files returns the contract's files that declare services.
func Files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		countsv1.File_switchyard_counts_v1_call_counts_proto,
		webhooksv1.File_switchyard_webhooks_v1_circuits_proto,
		webhooksv1.File_switchyard_webhooks_v1_deliveries_proto,
		webhooksv1.File_switchyard_webhooks_v1_endpoints_proto,
		webhooksv1.File_switchyard_webhooks_v1_event_types_proto,
		webhooksv1.File_switchyard_webhooks_v1_events_proto,
		webhooksv1.File_switchyard_webhooks_v1_house_proto,
		webhooksv1.File_switchyard_webhooks_v1_replays_proto,
		webhooksv1.File_switchyard_webhooks_v1_signing_keys_proto,
	}
}
