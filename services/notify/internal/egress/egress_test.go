package egress_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/egress"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// other is webhook egress as this client sees it.
type other struct {
	webhooksv1.UnimplementedDeliveryServiceServer
	webhooksv1.UnimplementedHouseEventServiceServer

	emitted  *webhooksv1.EmitHouseEventRequest
	fail     error
	delivery *webhooksv1.DeliveryRecord
	enqueued *webhooksv1.EnqueueRequest
	asked    *webhooksv1.GetDeliveryRequest
	header   metadata.MD
}

func (o *other) Enqueue(ctx context.Context, in *webhooksv1.EnqueueRequest) (*webhooksv1.EnqueueAccepted, error) {
	o.enqueued = in
	o.header, _ = metadata.FromIncomingContext(ctx)
	return &webhooksv1.EnqueueAccepted{DeliveryId: "dlv-1"}, o.fail
}

func (o *other) GetDelivery(ctx context.Context, in *webhooksv1.GetDeliveryRequest) (*webhooksv1.DeliveryRecord, error) {
	o.asked = in
	o.header, _ = metadata.FromIncomingContext(ctx)
	return o.delivery, o.fail
}

func (o *other) EmitHouseEvent(ctx context.Context, in *webhooksv1.EmitHouseEventRequest) (*webhooksv1.EmitHouseEventResponse, error) {
	o.emitted = in
	o.header, _ = metadata.FromIncomingContext(ctx)
	return &webhooksv1.EmitHouseEventResponse{}, o.fail
}

// dial gives a client of an own server, and the file with its token.
func dial(t *testing.T) (*other, *egress.Client, string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o, server := &other{}, grpc.NewServer()
	webhooksv1.RegisterDeliveryServiceServer(server, o)
	webhooksv1.RegisterHouseEventServiceServer(server, o)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	file := filepath.Join(t.TempDir(), "token")
	testkit.WriteFile(t, file, "canary-token\n")
	client, err := egress.Dial(listener.Addr().String(), insecure.NewCredentials(), secret.File(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return o, client, file
}

func TestEnqueue(t *testing.T) {
	o, client, file := dial(t)
	until := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, token := range []string{"canary-token", "canary-next"} { // which is read for each call
		testkit.WriteFile(t, file, token)
		id, err := client.Enqueue(t.Context(), channel.Delivery{
			Organization: "acme", URL: "https://shop.example/hook", EventType: "notification", Payload: []byte(`{"a":1}`), Key: "notify:1", Deadline: until,
		})
		if err != nil || id != "dlv-1" {
			t.Fatalf("%q, %v", id, err)
		}
		want := &webhooksv1.EnqueueRequest{
			OrganizationId: "acme", Url: "https://shop.example/hook", Payload: []byte(`{"a":1}`),
			IdempotencyKey: "notify:1", DeadlineAt: timestamppb.New(until), EventType: "notification",
		}
		if diff := cmp.Diff(want, o.enqueued, protocmp.Transform()); diff != "" {
			t.Errorf("enqueued (-want +got):\n%s", diff)
		}
		if got := strings.Join(o.header.Get("authorization"), ","); got != "Bearer "+token {
			t.Errorf("authorization %q", got)
		}
		if got := strings.Join(o.header.Get("x-organization-id"), ","); got != "acme" {
			t.Errorf("organization %q", got)
		}
	}
}

func TestDelivery(t *testing.T) {
	o, client, _ := dial(t)
	text, code := wrapperspb.String, wrapperspb.Int32
	for name, tt := range map[string]struct {
		delivery *webhooksv1.DeliveryRecord
		want     channel.DeliveryState
	}{
		"under way": {&webhooksv1.DeliveryRecord{Status: "retrying", LastError: text("http_5xx"), LastResponseCode: code(500)}, channel.DeliveryState{Code: 500, Class: "http_5xx"}},
		"delivered": {&webhooksv1.DeliveryRecord{Status: "delivered", LastResponseCode: code(204)}, channel.DeliveryState{Ended: true, Delivered: true, Code: 204}},
		"failed":    {&webhooksv1.DeliveryRecord{Status: "failed", LastError: text("http_4xx"), LastResponseCode: code(410)}, channel.DeliveryState{Ended: true, Code: 410, Class: "http_4xx"}},
		"expired":   {&webhooksv1.DeliveryRecord{Status: "expired"}, channel.DeliveryState{Ended: true, Class: "expired"}},
		"cancelled": {&webhooksv1.DeliveryRecord{Status: "cancelled"}, channel.DeliveryState{Ended: true, Class: "cancelled"}},
	} {
		o.delivery = tt.delivery
		got, err := client.Delivery(t.Context(), "acme", "dlv-1")
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if o.asked.GetId() != "dlv-1" || o.asked.GetOrganizationId() != "acme" {
			t.Errorf("%s: asked for %v", name, o.asked)
		}
	}
}

// What may be tried again, and what may not; no text of a status is repeated but
// that of a refusal, and the token never.
func TestFailures(t *testing.T) {
	o, client, file := dial(t)
	for code, want := range map[codes.Code]channel.EgressError{
		codes.InvalidArgument:    {Kind: channel.Permanent, Class: "delivery_refused", Text: "said"},
		codes.FailedPrecondition: {Kind: channel.Permanent, Class: "delivery_refused", Text: "said"},
		codes.NotFound:           {Kind: channel.Permanent, Class: "delivery_not_found"},
		codes.Unauthenticated:    {Kind: channel.Auth, Class: channel.ClassCredential},
		codes.PermissionDenied:   {Kind: channel.Auth, Class: channel.ClassCredential},
		codes.DeadlineExceeded:   {Kind: channel.RetryAfter, Class: channel.ClassTimeout},
		codes.ResourceExhausted:  {Kind: channel.RetryAfter, Class: channel.ClassRate, After: time.Second},
		codes.Unavailable:        {Kind: channel.RetryAfter, Class: channel.ClassConnect},
		codes.Internal:           {Kind: channel.RetryAfter, Class: channel.ClassConnect},
	} {
		o.fail = status.Error(code, "said")
		_, err := client.Enqueue(t.Context(), channel.Delivery{Organization: "acme"})
		got, ok := errors.AsType[*channel.EgressError](err)
		if !ok || *got != want {
			t.Errorf("%s: %v (%+v), want %+v", code, err, got, want)
			continue
		}
		testkit.NoLeak(t, "canary-token", err.Error())
		if _, err = client.Delivery(t.Context(), "acme", "dlv-1"); err == nil {
			t.Errorf("%s: the question was answered", code)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, err := client.Enqueue(t.Context(), channel.Delivery{Organization: "acme"})
	if got, ok := errors.AsType[*channel.EgressError](err); !ok || got.Kind != channel.Auth {
		t.Errorf("without a token: %v", err)
	}
}

func TestSend(t *testing.T) {
	o, client, file := dial(t)
	e := houseevent.Event{
		ID: "notify-1", Organization: "switchyard", Type: houseevent.PushKeyRejected, Subject: "push_service/https://push.example",
		OccurredAt: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Data: []byte(`{"status":403}`), Attempts: 1,
	}
	if err := client.Send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&webhooksv1.EmitHouseEventRequest{
		OrganizationId: "switchyard", EventId: "notify-1", Type: "switchyard.push_key.rejected", Source: "/switchyard/notify",
		Subject: "push_service/https://push.example", OccurredAt: timestamppb.New(e.OccurredAt), Data: []byte(`{"status":403}`),
	}, o.emitted, protocmp.Transform()); diff != "" {
		t.Errorf("emitted (-want +got):\n%s", diff)
	}
	if got := strings.Join(o.header.Get("authorization"), ","); got != "Bearer canary-token" {
		t.Errorf("authorization %q", got)
	}
	o.fail = status.Error(codes.Unavailable, "away")
	if err := client.Send(t.Context(), e); status.Code(err) != codes.Unavailable {
		t.Errorf("err = %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := client.Send(t.Context(), e); err == nil {
		t.Error("sent without a token")
	}
}
