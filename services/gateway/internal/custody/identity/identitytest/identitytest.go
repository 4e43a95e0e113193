// Package identitytest serves token servers and files to the tests of the sources of identities. Only tests import it.
package identitytest

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// Serve returns the server of a handler, and clients that reach it. Both end with the test.
func Serve(t *testing.T, handler http.Handler) (*httptest.Server, identity.Clients) {
	t.Helper()
	server := httptest.NewServer(handler)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return server, identity.NewClients(transport, transport)
}

// File returns a file with a text.
func File(t *testing.T, text string) secret.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	testkit.WriteFile(t, path, text)
	return secret.File(path)
}
