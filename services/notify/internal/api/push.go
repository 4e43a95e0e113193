package api

import (
	"context"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/types/known/emptypb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

var errPushOff = apierr.New(apierr.KindNotFound, channel.ReasonWebPushDisabled,
	"web_push_disabled: web push is off; "+channel.WebPushSetting+"=true switches it on")

// registerPush offers the push service, or, while web push is off, hides it.
func registerPush(ctx context.Context, server *rpc.Server, enabled bool) error {
	if !enabled {
		hidePush(server)
		return nil
	}
	notifyv1.RegisterPushServiceServer(server, pushServer{})
	err := notifyv1.RegisterPushServiceHandlerClient(ctx, server.Mux(), notifyv1.NewPushServiceClient(server.Local()))
	if err != nil {
		return fmt.Errorf("push service: %w", err)
	}
	return nil
}

type pushServer struct {
	notifyv1.UnimplementedPushServiceServer
}

// hidePush answers 404 to every push method. On the JSON face it does so before
// anything of the request is read: there is nothing that could be right with it.
func hidePush(server *rpc.Server) {
	notifyv1.RegisterPushServiceServer(server, pushOff{})
	push := notifyv1.File_switchyard_notify_v1_push_proto.Services().ByName("PushService")
	for _, route := range rpc.Routes(push, optionsv1.E_Role) {
		server.Handle(route.Verb, route.Path, route.Method, func(http.ResponseWriter, *http.Request) error { return errPushOff })
	}
}

// pushOff is the push service while web push is off.
type pushOff struct {
	notifyv1.UnimplementedPushServiceServer
}

func (pushOff) GetVapidPublicKey(context.Context, *notifyv1.GetVapidPublicKeyRequest) (*notifyv1.VapidPublicKey, error) {
	return nil, errPushOff
}

func (pushOff) RegisterPush(context.Context, *notifyv1.PushSubscriptionRegister) (*notifyv1.PushRegistration, error) {
	return nil, errPushOff
}

func (pushOff) ListPushRegistrations(context.Context, *notifyv1.ListPushRegistrationsRequest) (*notifyv1.ListPushRegistrationsResponse, error) {
	return nil, errPushOff
}

func (pushOff) DeletePushRegistration(context.Context, *notifyv1.DeletePushRegistrationRequest) (*emptypb.Empty, error) {
	return nil, errPushOff
}

func (pushOff) ListPushHistory(context.Context, *notifyv1.ListPushHistoryRequest) (*notifyv1.ListPushHistoryResponse, error) {
	return nil, errPushOff
}
