package rpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit"
)

// certificate writes a self-signed pair for 127.0.0.1 and returns it.
func certificate(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func pool(t *testing.T, certFile string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(text)
	return p
}

func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	serverCert, serverKey := certificate(t, dir, "server")
	clientCert, clientKey := certificate(t, dir, "client")
	strangerCert, strangerKey := certificate(t, dir, "stranger")
	config, err := rpc.TLS{Certificate: rpc.Certificate{CertFile: serverCert, KeyFile: serverKey}, ClientCA: clientCert}.Config()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Listener = tls.NewListener(server.Listener, config)
	server.Start()
	defer server.Close()

	get := func(cert, key string) error {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(t, serverCert), Certificates: []tls.Certificate{own}}}}
		defer client.CloseIdleConnections()
		resp, err := client.Get("https://" + server.Listener.Addr().String())
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	if err := get(clientCert, clientKey); err != nil {
		t.Errorf("a known client: %v", err)
	}
	if err := get(strangerCert, strangerKey); err == nil {
		t.Error("a stranger's certificate was taken")
	}

	// A renewed certificate is served without a restart. A half-replaced pair is not.
	if err := os.WriteFile(serverKey, []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	future := time.Now().Add(time.Minute)
	if err := os.Chtimes(serverCert, future, future); err != nil {
		t.Fatal(err)
	}
	if err := get(clientCert, clientKey); err != nil {
		t.Errorf("in the middle of a renewal: %v", err)
	}
	certificate(t, dir, "server")
	if err := os.Chtimes(serverCert, future.Add(time.Minute), future.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := get(clientCert, clientKey); err != nil {
		t.Errorf("after a renewal: %v", err)
	}
}

// A health probe needs no certificate; every other client must present one that the CA signed.
func TestMutualTLSOfAServer(t *testing.T) {
	dir := t.TempDir()
	serverCert, serverKey := certificate(t, dir, "server")
	clientCert, clientKey := certificate(t, dir, "client")
	strangerCert, strangerKey := certificate(t, dir, "stranger")
	config, err := rpc.TLS{Certificate: rpc.Certificate{CertFile: serverCert, KeyFile: serverKey}, ClientCA: clientCert}.Config()
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(t, io.Discard, func(o *rpc.Options) { o.TLS = config })
	server.HandleOpen("GET /health/live", rpc.Live())
	server.RegisterService(echoDesc(), answer(func(_ context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) { return in, nil }))
	transcode(t, server.Mux(), server.Local(), "/v1/open", "/rpctest.EchoService/Open")
	server.Handle(http.MethodGet, "/v1/watch", "/rpctest.EchoService/Watch", func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, "event")
		return err
	})
	httpAddr, grpcAddr := testkit.FreeAddress(t), testkit.FreeAddress(t)
	runner := lifecycle.New(slog.New(slog.DiscardHandler), lifecycle.Options{Grace: time.Second})
	if err := server.Serve(t.Context(), runner, httpAddr, grpcAddr); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(ctx) }()
	defer func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}()

	config = &tls.Config{RootCAs: pool(t, serverCert)}
	for _, c := range []struct {
		name, cert, key, verb, path string
		status                      int
	}{
		{name: "a probe", verb: http.MethodGet, path: "/health/live", status: http.StatusOK},
		{name: "nobody", verb: http.MethodPost, path: "/v1/open", status: http.StatusUnauthorized},
		{name: "nobody with a token", verb: http.MethodGet, path: "/v1/watch", status: http.StatusUnauthorized},
		{name: "a client with a token", cert: clientCert, key: clientKey, verb: http.MethodGet, path: "/v1/watch", status: http.StatusOK},
		{name: "a client", cert: clientCert, key: clientKey, verb: http.MethodPost, path: "/v1/open", status: http.StatusOK},
		{name: "a stranger", cert: strangerCert, key: strangerKey, verb: http.MethodPost, path: "/v1/open", status: http.StatusUnauthorized},
	} {
		config := config.Clone()
		if c.cert != "" {
			own, err := tls.LoadX509KeyPair(c.cert, c.key)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{own}
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		status := 0
		r, err := http.NewRequestWithContext(t.Context(), c.verb, "https://"+httpAddr+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer svc")
		if resp, err := client.Do(r); err == nil {
			status = resp.StatusCode
			_ = resp.Body.Close()
		}
		client.CloseIdleConnections()
		if status != c.status {
			t.Errorf("%s: status %d, want %d", c.name, status, c.status)
		}
		conn, err := grpc.NewClient(grpcAddr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if known := c.cert == clientCert; known != (err == nil) {
			t.Errorf("%s over gRPC: %v", c.name, err)
		}
		_ = conn.Close()
	}
}

func TestTLSSettings(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "server")
	if config, err := (rpc.TLS{}).Config(); config != nil || err != nil {
		t.Errorf("off: %v, %v", config, err)
	}
	for name, settings := range map[string]rpc.TLS{
		"no key":       {Certificate: rpc.Certificate{CertFile: cert}},
		"no such file": {Certificate: rpc.Certificate{CertFile: cert + "x", KeyFile: key}},
		"CA only":      {ClientCA: cert},
		"CA no PEM":    {Certificate: rpc.Certificate{CertFile: cert, KeyFile: key}, ClientCA: key},
	} {
		if _, err := settings.Config(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestTLSCheck(t *testing.T) {
	const both, authority = "X_CERT_FILE, X_KEY_FILE: want both or neither", "X_CLIENT_CA_FILE: only with X_CERT_FILE and X_KEY_FILE"
	pair := rpc.Certificate{CertFile: "c", KeyFile: "k"}
	for name, tt := range map[string]struct {
		settings interface{ Check(prefix string) error }
		want     string // the error; empty for none
	}{
		"none":                     {rpc.TLS{}, ""},
		"a pair":                   {pair, ""},
		"a pair and CAs":           {rpc.TLS{Certificate: pair, ClientCA: "a"}, ""},
		"CAs alone":                {rpc.TLS{ClientCA: "a"}, authority},
		"CAs with half a pair":     {rpc.TLS{Certificate: rpc.Certificate{KeyFile: "k"}, ClientCA: "a"}, both},
		"a certificate alone":      {rpc.Certificate{CertFile: "c"}, both},
		"a client's CAs alone":     {rpc.ClientTLS{CA: "a"}, ""},
		"a client with half a one": {rpc.ClientTLS{KeyFile: "k"}, both},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.settings.Check("X_")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
