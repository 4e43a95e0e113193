package app

import (
	"fmt"
	"strings"
	"testing"

	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/testkit"
)

// Every role that the contract demands of a token can be given to one.
func TestTokensMayHaveEveryRole(t *testing.T) {
	for value, name := range optionsv1.Role_name {
		if role := optionsv1.Role(value); role == optionsv1.Role_ROLE_UNSPECIFIED || role == optionsv1.Role_ROLE_PUBLIC {
			continue
		}
		role := strings.ToLower(strings.TrimPrefix(name, "ROLE_"))
		file := testkit.File(t, fmt.Sprintf("tokens: [{name: x, role: %s, sha256: %s}]\n", role, strings.Repeat("0a", 32)))
		if _, err := caller.LoadTokens(file); err != nil {
			t.Errorf("role %s: %v", role, err)
		}
	}
}
