package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/rpc"
)

// Endpoints implements webhooksv1.EndpointServiceServer.
type Endpoints struct {
	webhooksv1.UnimplementedEndpointServiceServer
}

// Events implements webhooksv1.EventServiceServer.
type Events struct {
	webhooksv1.UnimplementedEventServiceServer
}

// Replays implements webhooksv1.ReplayServiceServer.
type Replays struct {
	webhooksv1.UnimplementedReplayServiceServer
}

// Register adds every service of the contract to both faces of a server.
func Register(ctx context.Context, server *rpc.Server, deliveries *Deliveries) error {
	webhooksv1.RegisterDeliveryServiceServer(server, deliveries)
	webhooksv1.RegisterEndpointServiceServer(server, Endpoints{})
	webhooksv1.RegisterEventServiceServer(server, Events{})
	webhooksv1.RegisterReplayServiceServer(server, Replays{})
	mux, local := server.Mux(), server.Local()
	for _, err := range []error{
		webhooksv1.RegisterDeliveryServiceHandlerClient(ctx, mux, webhooksv1.NewDeliveryServiceClient(local)),
		webhooksv1.RegisterEndpointServiceHandlerClient(ctx, mux, webhooksv1.NewEndpointServiceClient(local)),
		webhooksv1.RegisterEventServiceHandlerClient(ctx, mux, webhooksv1.NewEventServiceClient(local)),
		webhooksv1.RegisterReplayServiceHandlerClient(ctx, mux, webhooksv1.NewReplayServiceClient(local)),
	} {
		if err != nil {
			return fmt.Errorf("api: register: %w", err)
		}
	}
	return nil
}

// Files are the contract's files that declare services.
func Files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		webhooksv1.File_switchyard_webhooks_v1_deliveries_proto,
		webhooksv1.File_switchyard_webhooks_v1_endpoints_proto,
		webhooksv1.File_switchyard_webhooks_v1_events_proto,
		webhooksv1.File_switchyard_webhooks_v1_replays_proto,
	}
}
