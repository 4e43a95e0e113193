package api_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
)

// Every method of the contract is there, with everything that can be switched on
// switched on.
func TestUnimplementedMethods(t *testing.T) {
	var want []string
	b := setup(t, withWebPush)
	var got []string
	for _, service := range services() {
		for i := range service.Methods().Len() {
			method := service.Methods().Get(i)
			if name := fmt.Sprintf("/%s/%s", service.FullName(), method.Name()); status.Code(b.call(t, name, method)) == codes.Unimplemented {
				got = append(got, name)
			}
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unimplemented (-want +got):\n%s", diff)
	}
}

// valid are requests for methods that refuse an empty one before they are reached.
var valid = map[protoreflect.FullName]proto.Message{
	"switchyard.notify.v1.PushSubscriptionRegister": &notifyv1.PushSubscriptionRegister{
		Subscription: &notifyv1.PushSubscription{Endpoint: "https://push.example/x", Keys: map[string]string{"auth": "x"}},
	},
	"switchyard.notify.v1.DeletePushRegistrationRequest": &notifyv1.DeletePushRegistrationRequest{SubId: "x"},
}

// call sends a request to a method over gRPC and gives its error.
func (b *bench) call(t *testing.T, name string, method protoreflect.MethodDescriptor) error {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer ops", "x-organization-id", "acme")
	request, ok := valid[method.Input().FullName()]
	if !ok {
		request = message(t, method.Input().FullName())
	}
	reply := message(t, method.Output().FullName())
	if !method.IsStreamingServer() {
		return b.conn.Invoke(ctx, name, request, reply)
	}
	stream, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(reply)
}

func message(t *testing.T, name protoreflect.FullName) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}
