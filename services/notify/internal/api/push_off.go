package api

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/types/known/emptypb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/platform/rpc"
)

// hidePush responds to every push method with 404. On the JSON face it does so before it reads the request.
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
