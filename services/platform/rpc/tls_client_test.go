package rpc_test

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"switchyard.dev/services/platform/rpc"
)

// renew replaces one pair by another, as a certificate manager does, and the CA file that trusts it.
func renew(t *testing.T, dir, from, to, trust string) {
	t.Helper()
	for _, move := range [][2]string{{from + ".crt", to + ".crt"}, {from + ".key", to + ".key"}, {from + ".crt", trust}} {
		text, err := os.ReadFile(filepath.Join(dir, move[0]))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, move[1]), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Both sides reload their files: certificates, and the CAs that they trust.
func TestClientTLSFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"server", "server2", "client", "client2"} {
		certificate(t, dir, name)
	}
	renew(t, dir, "server", "tls-server", "services-ca.crt")
	renew(t, dir, "client", "tls-client", "callers-ca.crt")
	file := func(name string) string { return filepath.Join(dir, name) }
	config, err := rpc.TLS{
		Certificate: rpc.Certificate{CertFile: file("tls-server.crt"), KeyFile: file("tls-server.key")}, ClientCA: file("callers-ca.crt"),
	}.Config()
	if err != nil {
		t.Fatal(err)
	}
	httpAddr, grpcAddr := serveTLS(t, config)
	present := rpc.ClientTLS{CertFile: file("tls-client.crt"), KeyFile: file("tls-client.key"), CA: file("services-ca.crt")}
	// call makes new connections, so that each has a handshake.
	call := func(settings rpc.ClientTLS) error {
		t.Helper()
		config, err := settings.Config()
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config(), DisableKeepAlives: true}}
		answer, err := client.Get("https://" + httpAddr)
		if err == nil {
			_ = answer.Body.Close()
		}
		transport, grpcErr := settings.Credentials()
		if grpcErr != nil {
			t.Fatal(grpcErr)
		}
		conn, grpcErr := grpc.NewClient(grpcAddr, grpc.WithTransportCredentials(transport))
		if grpcErr != nil {
			t.Fatal(grpcErr)
		}
		defer func() { _ = conn.Close() }()
		_, grpcErr = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if (err == nil) != (grpcErr == nil) {
			t.Errorf("HTTP: %v; gRPC: %v", err, grpcErr)
		}
		return err
	}
	if err := call(present); err != nil {
		t.Fatal(err)
	}
	old := rpc.ClientTLS{CertFile: file("client.crt"), KeyFile: file("client.key"), CA: file("services-ca.crt")}
	if err := call(old); err != nil {
		t.Errorf("before the renewal: %v", err)
	}
	renew(t, dir, "client2", "tls-client", "callers-ca.crt")
	if err := call(present); err != nil {
		t.Errorf("with a renewed client: %v", err)
	}
	if err := call(old); err == nil {
		t.Error("a certificate of a CA that is gone was taken")
	}
	renew(t, dir, "server2", "tls-server", "other-ca.crt")
	if err := call(present); err == nil {
		t.Error("a server of an unknown CA was taken")
	} else if unknown := (*tls.CertificateVerificationError)(nil); !errors.As(err, &unknown) {
		t.Errorf("error %v does not say why", err)
	}
	renew(t, dir, "server2", "tls-server", "services-ca.crt")
	if err := call(present); err != nil {
		t.Errorf("with a renewed server: %v", err)
	}
	if err := call(rpc.ClientTLS{CA: file("services-ca.crt")}); err == nil {
		t.Error("a client without a certificate was taken")
	}
}

// serveTLS serves HTTP and gRPC with one configuration.
func serveTLS(t *testing.T, config *tls.Config) (httpAddr, grpcAddr string) {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	plain, rpcs := listen(), listen()
	web := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Second}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = web.Serve(tls.NewListener(plain, config)) }()
	go func() { _ = server.Serve(rpcs) }()
	t.Cleanup(func() { server.Stop(); _ = web.Close() })
	return plain.Addr().String(), rpcs.Addr().String()
}

func TestClientTLSSettings(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "client")
	for name, settings := range map[string]rpc.ClientTLS{
		"no key":         {CertFile: cert},
		"no certificate": {KeyFile: key},
		"no such file":   {CertFile: cert + "x", KeyFile: key},
		"no such CA":     {CA: cert + "x"},
		"CA no PEM":      {CA: key},
	} {
		if _, err := settings.Credentials(); err == nil {
			t.Errorf("%s: taken", name)
		}
		if _, err := settings.Config(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
