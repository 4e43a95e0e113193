package command_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/testkit"
)

// answer is a service that answers its readiness.
func answer(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health/ready" || r.Method != http.MethodGet {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// listening returns the address of a server of a handler.
func listening(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// portOf returns an address without its host, as settings name it.
func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestHealthcheck(t *testing.T) {
	hang := make(chan struct{})
	hanging := listening(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(hang) })
	up := listening(t, answer(http.StatusOK, "{}"))
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, tt := range map[string]struct {
		listen string
		args   []string
		code   int
		text   string
	}{
		"up":               {up, nil, 0, "ready\n"},
		"on all addresses": {":" + portOf(t, up), nil, 0, "ready\n"},
		"on 0.0.0.0":       {"0.0.0.0:" + portOf(t, up), nil, 0, "ready\n"},
		"not ready":        {listening(t, answer(http.StatusServiceUnavailable, "{\"checks\":\n{\"postgres\":\"failing\"}}\n")), nil, 1, `status 503 {"checks": {"postgres":"failing"}}`},
		"endless":          {listening(t, answer(http.StatusServiceUnavailable, strings.Repeat("x", 1<<20))), nil, 1, "status 503"},
		"a redirect":       {listening(t, http.RedirectHandler("/elsewhere", http.StatusFound)), nil, 1, "status 302"},
		"refused":          {testkit.FreeAddress(t), nil, 1, "refused"},
		"hanging":          {hanging, []string{"--timeout", "50ms"}, 1, "no answer in time"},
		"silent":           {silent.Addr().String(), []string{"--timeout=50ms"}, 1, "no answer in time"},
		"without a port":   {"localhost", nil, 1, "want the address"},
		"any port":         {":0", nil, 1, "want the address"},
	} {
		t.Run(name, func(t *testing.T) {
			got := commandtest.Run(shop("SHOP_LISTEN="+tt.listen, "SHOP_NAME=x"), "", append([]string{"healthcheck"}, tt.args...)...)
			if got.Code != tt.code || !strings.Contains(got.Out+got.Err, tt.text) || strings.Count(got.Out+got.Err, "\n") != 1 || len(got.Err) > 1024 {
				t.Errorf("%+v, want code %d and one line with %q", got, tt.code, tt.text)
			}
		})
	}
}

// issue returns a certificate for names that an authority has issued, and its file.
func issue(t *testing.T, names ...string) (certificate tls.Certificate, file string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: template.NotBefore, NotAfter: template.NotAfter, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = testkit.File(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// A service with TLS is asked with its own certificate, whatever name that has, and another service's isn't trusted.
func TestHealthcheckOverTLS(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, another := issue(t, "edge.example")
	for _, name := range []string{"edge.example", "*.edge.example", "192.0.2.1"} {
		certificate, file := issue(t, name)
		server := httptest.NewUnstartedServer(answer(http.StatusOK, ""))
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		listen := server.Listener.Addr().String()
		if err := (command.Face{Listen: listen, CertFile: file}).Ready(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := (command.Face{Listen: listen, CertFile: another}).Ready(ctx); err == nil {
			t.Errorf("%s: another certificate is trusted", name)
		}
		if err := (command.Face{Listen: listen}).Ready(ctx); err == nil {
			t.Errorf("%s: it is ready in plain text", name)
		}
	}
	for name, file := range map[string]string{"missing": another + ".old", "no certificate": testkit.File(t, "text")} {
		err := command.Face{Listen: ":1", CertFile: file}.Ready(ctx)
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
	}
}
