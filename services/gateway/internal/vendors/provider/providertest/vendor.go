package providertest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

// Key is the key with which the suite authenticates. "{{key}}" stands for it in golden files.
const Key = "sk-conformance-7c1d0e42"

// patience ends a test that would hang; nothing is measured against it.
const patience = 20 * time.Second

// Credential returns a credential with Key.
func Credential() provider.Credential {
	return provider.Credential{Key: secret.New(Key), Source: "fleet"}
}

// serve starts a vendor that answers with handler and returns a provider for it.
func (d Dialect) serve(t *testing.T, handler http.HandlerFunc) provider.ChatProvider {
	t.Helper()
	p, _ := d.serveOn(t, httptest.NewUnstartedServer(handler))
	return p
}

func (d Dialect) serveOn(t *testing.T, server *httptest.Server) (provider.ChatProvider, *httptest.Server) {
	t.Helper()
	server.Start()
	t.Cleanup(server.Close)
	transport := network.NewTransport(patience)
	t.Cleanup(transport.CloseIdleConnections)
	p, err := d.New(server.URL, transport)
	if err != nil {
		t.Fatal(err)
	}
	return p, server
}

// reply returns a handler that sends one answer.
func reply(status int, header http.Header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var asJSON = http.Header{"Content-Type": {"application/json"}}

// golden returns the content of testdata/<dir>/<name>.
func golden(t *testing.T, dir, name string) string {
	t.Helper()
	return goldenIn(t, "testdata", dir, name)
}

func goldenIn(t *testing.T, testdata, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata, dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "{{key}}", Key)
}
