package egress_test

import (
	"context"
	"net"
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

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/gateway/internal/egress"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// other is webhook egress as the client sees it.
type other struct {
	webhooksv1.UnimplementedHouseEventServiceServer

	fail    error
	emitted *webhooksv1.EmitHouseEventRequest
	header  metadata.MD
}

func (o *other) EmitHouseEvent(ctx context.Context, in *webhooksv1.EmitHouseEventRequest) (*webhooksv1.EmitHouseEventResponse, error) {
	o.emitted = in
	o.header, _ = metadata.FromIncomingContext(ctx)
	return &webhooksv1.EmitHouseEventResponse{}, o.fail
}

func TestSend(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o, server := &other{}, grpc.NewServer()
	webhooksv1.RegisterHouseEventServiceServer(server, o)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	file := filepath.Join(t.TempDir(), "token")
	client, err := egress.Dial(listener.Addr().String(), insecure.NewCredentials(), secret.File(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })

	e := houseevent.Event{
		ID: "gateway-1", Organization: "acme", Type: houseevent.BudgetThreshold, Subject: "organization/acme",
		OccurredAt: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Data: []byte(`{"percent":80}`), Attempts: 1,
	}
	if err := client.Send(t.Context(), e); err == nil {
		t.Error("sent without a token")
	}
	testkit.WriteFile(t, file, "canary-token\n")
	if err := client.Send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&webhooksv1.EmitHouseEventRequest{
		OrganizationId: "acme", EventId: "gateway-1", Type: "switchyard.budget.threshold", Source: "/switchyard/gateway",
		Subject: "organization/acme", OccurredAt: timestamppb.New(e.OccurredAt), Data: []byte(`{"percent":80}`),
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
}
