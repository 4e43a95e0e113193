//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/deploy/dev/stack"
)

// connections returns a function that opens one connection to each service it is called for. The connections stay open
// as long as the tests run.
func connections(s *stack.Stack) func(stack.Service) (*grpc.ClientConn, error) {
	var mu sync.Mutex
	open := map[stack.Service]*grpc.ClientConn{}
	return func(member stack.Service) (*grpc.ClientConn, error) {
		mu.Lock()
		defer mu.Unlock()
		if conn, ok := open[member]; ok {
			return conn, nil
		}
		conn, err := grpc.NewClient(s.GRPC(string(member)),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(keepReply))
		if err == nil {
			open[member] = conn
		}
		return conn, err
	}
}

// keepReply records answers for the search for secrets.
func keepReply(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	responses.add(answer{label: method, header: http.Header{}, body: fmt.Appendf(nil, "%v %v", reply, err)})
	return err
}

// grpc returns a connection to a service.
func (h *harness) grpc(t *testing.T, member stack.Service) *grpc.ClientConn {
	t.Helper()
	conn, err := h.dial(member)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// as returns the context of a first-party service's call for an organization.
func (h *harness) as(t *testing.T, organization string, pairs ...string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	return metadata.NewOutgoingContext(ctx, metadata.Pairs(append([]string{
		"authorization", "Bearer " + h.Secrets().Service, "x-organization-id", organization,
	}, pairs...)...))
}

// refusedBy checks the status and the reason of a gRPC error.
func refusedBy(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != code {
		t.Fatalf("got %v, want %v", err, code)
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			if info.GetReason() != reason || info.GetDomain() != "switchyard.dev" {
				t.Errorf("reason %q of %q, want %q", info.GetReason(), info.GetDomain(), reason)
			}
			return
		}
	}
	t.Errorf("%v has no ErrorInfo", err)
}
