// Package client connects the examples to a local stack: `make run`, then
// `set -a; . .local/demo.env; set +a` in the shell that runs them.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed" // of the service config
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// serviceConfig retries what is safe to retry. The examples in other languages use the same file.
//
//go:embed service-config.json
var serviceConfig string

// maxAnswer is the largest answer in bytes: images and vectors have 48 MiB at most, and a client's default is 4.
const maxAnswer = 49 << 20

// Connect returns a connection to the service whose address a variable such as GATEWAY_GRPC holds. Every call carries
// the service token and the organization. It uses TLS if GRPC_CA_FILE names the certificates to trust, and shows the
// certificate of GRPC_CERT_FILE and GRPC_KEY_FILE if they are set (mutual TLS).
func Connect(address string) (*grpc.ClientConn, error) {
	if err := Require(address, "SERVICE_TOKEN", "ORGANIZATION_ID"); err != nil {
		return nil, err
	}
	target, token, organization := os.Getenv(address), os.Getenv("SERVICE_TOKEN"), os.Getenv("ORGANIZATION_ID")
	transport, err := transport(os.Getenv("GRPC_CA_FILE"), os.Getenv("GRPC_CERT_FILE"), os.Getenv("GRPC_KEY_FILE"))
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(target,
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(identity{"authorization": "Bearer " + token, "x-organization-id": organization}),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		// The services close connections whose clients ping more often than every 20 seconds.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}))
}

// Require returns an error that names the variables that are not set.
func Require(names ...string) error {
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return os.Getenv(name) != "" })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s must be set: run `make run`, then `set -a; . .local/demo.env; set +a` in this shell", strings.Join(missing, ", "))
}

// transport returns the credentials of the transport; plain text, for loopback only, if caFile is empty.
func transport(caFile, certFile, keyFile string) (credentials.TransportCredentials, error) {
	if caFile == "" {
		return insecure.NewCredentials(), nil
	}
	authorities, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("GRPC_CA_FILE: %w", err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	if !config.RootCAs.AppendCertsFromPEM(authorities) {
		return nil, errors.New("GRPC_CA_FILE: holds no PEM certificate")
	}
	if certFile != "" {
		own, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("GRPC_CERT_FILE, GRPC_KEY_FILE: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return credentials.NewTLS(config), nil
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

// Main runs an example for at most two minutes. An error is printed, with the reason if a service refused the call, and
// ends the program with status 1.
func Main(example func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	err := example(ctx)
	cancel()
	if err == nil {
		return
	}
	if reason := Reason(err); reason != "" {
		err = fmt.Errorf("%w (reason %s)", err, reason)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Reason returns why a service refused a call, such as "budget_exceeded", and "" for errors of gRPC itself.
func Reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
