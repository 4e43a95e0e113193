package testkit

import (
	"testing"

	"switchyard.dev/services/platform/caller"
)

func TestTokens(t *testing.T) {
	tokens := Tokens(t, Token{Name: "edge", Role: caller.RoleService, Text: "a"}, Token{Name: "ops", Role: caller.RoleOperator, Text: "b"})
	for bearer, want := range map[string]caller.Caller{
		"Bearer a": {Name: "edge", Role: caller.RoleService},
		"Bearer b": {Name: "ops", Role: caller.RoleOperator},
	} {
		got, err := tokens.Authenticate(bearer)
		if err != nil || got.Name != want.Name || got.Role != want.Role {
			t.Errorf("%s is %s, %s, %v", bearer, got.Name, got.Role, err)
		}
	}
	if _, err := tokens.Authenticate("Bearer c"); err == nil {
		t.Error("another token is accepted")
	}
}
