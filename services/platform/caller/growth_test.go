package caller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestParseTokensGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Number("tokens", "tokens:\n", "  - {name: n#, role: operator, sha256: ab}\n", ""),
		growth.Repeat("a long name", "tokens: [{name: ", "n", "}]"),
		growth.Nest("nested lists", "[", "", "]").In("tokens: ", ""),
	}
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, inputs), func(text []byte) { _, _ = parseTokens(string(text)) })...)
}

// The headers of callers: Authorization and the identity headers.
func TestHeadersGrowsLinearly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("tokens: [{name: a, role: operator, sha256: "+strings.Repeat("ab", 32)+"}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_, _ = tokens.Authenticate(text)
		_, _ = tokens.Authenticate("Bearer " + text)
		_ = new(Caller).Read(func(string) string { return text })
		_, _ = Caller{Organization: text}.OrganizationOf(text)
		_, _ = Caller{Run: text}.RunOf(text)
	})...)
}
