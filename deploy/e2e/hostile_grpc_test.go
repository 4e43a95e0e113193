//go:build e2e

package e2e_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"switchyard.dev/deploy/dev/stack"
	gatewaypb "switchyard.dev/gen/go/switchyard/gateway/v1"
	notifypb "switchyard.dev/gen/go/switchyard/notify/v1"
	webhookspb "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

// hostileMethod is a method with the parts of which its hostile requests are made: the path of a field of free JSON,
// and that of a list.
type hostileMethod struct {
	service stack.Service
	name    string
	json    []protowire.Number
	list    []protowire.Number
}

var hostileMethods = []hostileMethod{
	// messages.content; messages
	{stack.Gateway, gatewaypb.InferenceService_Chat_FullMethodName, []protowire.Number{3, 2}, []protowire.Number{3}},
	// payload; custom_headers
	{stack.WebhookEgress, webhookspb.DeliveryService_Enqueue_FullMethodName, []protowire.Number{5}, []protowire.Number{6}},
	// deliveries.payload; deliveries
	{stack.WebhookEgress, webhookspb.DeliveryService_EnqueueBatch_FullMethodName, []protowire.Number{3, 5}, []protowire.Number{3}},
	// target.data; channels
	{stack.Notify, notifypb.NotifyService_Notify_FullMethodName, []protowire.Number{5, 9}, []protowire.Number{2}},
}

// hostileMessages returns requests, as bytes, that no correct client sends.
func (m hostileMethod) hostileMessages() map[string][]byte {
	const wide, long = 1 << 20, 1 << 20
	item := within(m.list, nil)
	groups := bytes.Repeat(protowire.AppendTag(nil, 99, protowire.StartGroupType), wide)
	return map[string][]byte{
		"deep JSON":                   within(m.json, []byte(nestedArrays(deepBody))),
		"JSON of many arrays":         within(m.json, []byte("["+strings.Repeat("[],", wide)+"1]")),
		"unclosed JSON":               within(m.json, bytes.Repeat([]byte("["), long)),
		"a list of many items":        bytes.Repeat(item, wide),
		"messages nested in messages": nestedIn(m.list, 20_000),
		"unknown fields":              bytes.Repeat(within([]protowire.Number{1999}, nil), wide),
		"one long unknown field":      within([]protowire.Number{1999}, make([]byte, long)),
		"unclosed groups":             groups,
		"texts that are not UTF-8":    within([]protowire.Number{1}, []byte("\xff\xfe")),
		"a cut length":                {0x0a, 0x7f},
		"field number 0":              {0x02, 0x00},
		"more than may be sent":       within([]protowire.Number{1999}, make([]byte, 40<<20)),
		"nothing":                     nil,
	}
}

// within encodes a value as the field at a path of field numbers.
func within(path []protowire.Number, value []byte) []byte {
	for _, number := range slices.Backward(path) {
		value = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	return value
}

func nestedIn(path []protowire.Number, levels int) (message []byte) {
	for range levels {
		if message = within(path, message); len(message) > 1<<20 {
			break
		}
	}
	return message
}

// grpcCallers sends requests that were encoded by hand to the services' gRPC ports. Each is refused as the caller's
// fault, and the service must not keep the memory.
func (ht *hostileTraffic) grpcCallers(t *testing.T) {
	t.Helper()
	organization := unique("org")
	for _, m := range hostileMethods {
		for name, message := range m.hostileMessages() {
			t.Run(m.name[strings.LastIndex(m.name, "/")+1:]+" with "+name, func(t *testing.T) {
				request := new(emptypb.Empty)
				request.ProtoReflect().SetUnknown(message)
				err := ht.grpc(t, m.service).Invoke(ht.as(t, organization), m.name, request, new(emptypb.Empty))
				switch code := status.Code(err); code {
				case codes.InvalidArgument, codes.ResourceExhausted:
				default:
					t.Errorf("answered %s, want a refusal of the request: %v", code, err)
				}
				ht.monitor.check(t, name)
			})
		}
		t.Run(m.name[strings.LastIndex(m.name, "/")+1:]+" without a token", func(t *testing.T) {
			err := ht.grpc(t, m.service).Invoke(t.Context(), m.name, new(emptypb.Empty), new(emptypb.Empty))
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("a call without a token: %v", err)
			}
		})
	}
}
