package service_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/service"
	"switchyard.dev/services/platform/testkit"
)

// inTLS returns the address of a relay that ends TLS before the server at the address, and the CA of its certificate.
func inTLS(t *testing.T, address string) (relay, ca string) {
	t.Helper()
	https := httptest.NewTLSServer(http.NotFoundHandler())
	defer https.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: https.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			relays.Go(func() { join(near, address) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		relays.Wait()
	})
	return listener.Addr().String(), inPEM(https.Certificate().Raw)
}

// join relays a connection to an address until one side ends.
func join(near net.Conn, address string) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far)
}

func inPEM(certificate []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
}

// otherCA returns a CA that has issued nothing.
func otherCA(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM(der)
}

// The server's certificate has to come from a CA of the file, which is read again when it changes.
func TestRedisOfAPrivateCA(t *testing.T) {
	t.Parallel()
	address, ca := inTLS(t, testkit.Redis(t).Options().Addr)
	path := filepath.Join(t.TempDir(), "ca.crt")
	for _, tt := range []struct{ name, file, text, want string }{
		{"without the file", "", "", "certificate signed by unknown authority"},
		{"of another CA", path, otherCA(t), "certificate signed by unknown authority"},
		{"of its CA", path, ca, ""},
	} {
		if tt.file != "" {
			testkit.WriteFile(t, tt.file, tt.text)
		}
		client, err := service.OpenRedis(t.Context(), service.Redis{URLFile: file(t, "rediss://"+address), CAFile: tt.file})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		defer client.Close()
		err = client.Ping(t.Context()).Err()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestRenewedCAOfRedis(t *testing.T) {
	t.Parallel()
	address, ca := inTLS(t, testkit.Redis(t).Options().Addr)
	path := testkit.File(t, otherCA(t))
	client, err := service.OpenRedis(t.Context(), service.Redis{URLFile: file(t, "rediss://"+address), CAFile: path})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	testkit.WriteFile(t, path, ca)
	later := time.Now().Add(time.Second) // Another time, on file systems with coarse ones, too.
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

// A file of CAs goes with a URL of TLS, at the check of the settings and at the start.
func TestFilesOfRedis(t *testing.T) {
	t.Parallel()
	ca, missing := testkit.File(t, otherCA(t)), filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct{ name, url, ca, wantURL, wantCA string }{
		{"TLS", "rediss://h", "", "", ""},
		{"TLS with a CA", "rediss://h", ca, "", ""},
		{"a CA without TLS", "redis://h", ca, "", "must begin with rediss://"},
		{"no file", "rediss://h", missing, "", "no such file"},
		{"no CA in it", "rediss://h", testkit.File(t, "text"), "", "holds no PEM certificate"},
		{"a malformed URL", "h", ca, "invalid Redis URL", ""},
	} {
		r := service.Redis{Settings: "SHOP_REDIS_", URLFile: file(t, tt.url), CAFile: tt.ca}
		checks := r.FileChecks()
		_, opened := service.OpenRedis(t.Context(), r)
		for what, got := range map[string]struct {
			err  error
			want string
		}{
			"the URL": {checks["REDIS_URL_FILE"](), tt.wantURL}, "the CAs": {checks["REDIS_CA_FILE"](), tt.wantCA},
			"the start": {opened, tt.wantURL + tt.wantCA},
		} {
			if (got.err == nil) != (got.want == "") || got.err != nil && !strings.Contains(got.err.Error(), got.want) {
				t.Errorf("%s: %s: %v, want %q", tt.name, what, got.err, got.want)
			}
		}
	}
}
