package testkit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/services/platform/caller"
)

// Token is a service token for [Tokens]. Its bearer is a caller with that name and role.
type Token struct {
	Name string
	Role caller.Role
	Text string
}

// Tokens returns caller.Tokens that accept the given tokens. It loads them from a file, as services do.
func Tokens(tb testing.TB, accepted ...Token) *caller.Tokens {
	tb.Helper()
	var text strings.Builder
	text.WriteString("tokens:\n")
	for _, token := range accepted {
		sum := sha256.Sum256([]byte(token.Text))
		fmt.Fprintf(&text, "- {name: %s, role: %s, sha256: %s}\n", token.Name, token.Role, hex.EncodeToString(sum[:]))
	}
	tokens, err := caller.LoadTokens(File(tb, text.String()))
	if err != nil {
		tb.Fatal(err)
	}
	return tokens
}
