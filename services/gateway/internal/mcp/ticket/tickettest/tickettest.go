// Package tickettest has the keys of tests that seal tickets.
package tickettest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/secret"
)

// Secrets for Keys.
var (
	First  = strings.Repeat("a", trace.MinSecret)
	Second = strings.Repeat("b", trace.MinSecret)
)

// Keys returns the keys of a file with secrets.
func Keys(tb testing.TB, secrets ...string) *trace.Keys {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(strings.Join(secrets, "\n")), 0o600); err != nil {
		tb.Fatal(err)
	}
	k, err := trace.NewKeys(secret.File(file))
	if err != nil {
		tb.Fatal(err)
	}
	return k
}
