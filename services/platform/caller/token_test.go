package caller

import (
	"slices"
	"strings"
	"testing"
)

// An accepted token file authenticates exactly its tokens, with a name and a role each.
func FuzzParseTokens(f *testing.F) {
	sum := strings.Repeat("ab", 32)
	f.Add("tokens:\n  - {name: a, role: operator, sha256: " + sum + "}\n")
	f.Add("tokens:\n  - {name: a, role: admin, sha256: " + sum + "}\n")
	f.Add("tokens:\n  - {name: a, role: service, sha256: ab}\n")
	f.Add("tokens: [&x {name: a}, *x]")
	f.Add("token: []")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := parseTokens(text)
		if (err == nil) != (len(entries) > 0) {
			t.Fatalf("%d tokens, %v", len(entries), err)
		}
		for _, e := range entries {
			if e.name == "" {
				t.Fatal("a token has no name")
			}
			if !slices.Contains([]Role{RoleService, RoleOperator, RoleSupport}, e.role) {
				t.Fatalf("%s has the role %v", e.name, e.role)
			}
		}
	})
}
