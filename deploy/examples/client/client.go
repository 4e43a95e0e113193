// Package client connects the examples to a local stack: `make run`, then
// `set -a; . .local/demo.env; set +a` in the shell that runs them.
package client

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Connect returns a connection to the service whose address a variable such as GATEWAY_GRPC holds. Every call carries
// the service token and the organization.
func Connect(address string) (*grpc.ClientConn, error) {
	target, token, organization := os.Getenv(address), os.Getenv("SERVICE_TOKEN"), os.Getenv("ORGANIZATION_ID")
	if target == "" || token == "" || organization == "" {
		return nil, fmt.Errorf("%s, SERVICE_TOKEN and ORGANIZATION_ID must be set, as .local/demo.env has them", address)
	}
	return grpc.NewClient(target,
		// In a cluster: credentials.NewTLS with the client's certificate.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(identity{"authorization": "Bearer " + token, "x-organization-id": organization}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute}))
}

// identity holds the metadata of every call.
type identity map[string]string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (i identity) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return i, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: the local
// stack speaks plain text on loopback.
func (identity) RequireTransportSecurity() bool { return false }

// Main runs an example for at most half a minute and prints how it ended.
func Main(example func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	err := example(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
