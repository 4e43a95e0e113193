package caller_test

import (
	"testing"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

func TestEveryOrganization(t *testing.T) {
	for name, tt := range map[string]struct {
		caller caller.Caller
		body   string
		want   apierr.Kind
	}{
		"a service":                 {caller.Caller{Role: caller.RoleService}, "", apierr.KindForbidden},
		"support":                   {caller.Caller{Role: caller.RoleSupport}, "", apierr.KindForbidden},
		"a caller without a role":   {caller.Caller{}, "", apierr.KindForbidden},
		"an organization's header":  {caller.Caller{Role: caller.RoleOperator, Organization: "acme"}, "", apierr.KindInvalid},
		"an organization's name":    {caller.Caller{Role: caller.RoleOperator}, "acme", apierr.KindInvalid},
		"both, as a service's call": {caller.Caller{Role: caller.RoleService, Organization: "acme"}, "acme", apierr.KindForbidden},
	} {
		if err := tt.caller.EveryOrganization(tt.body); apierr.From(err).Kind != tt.want {
			t.Errorf("%s: %v, want kind %v", name, err, tt.want)
		}
	}
	if err := (caller.Caller{Role: caller.RoleOperator}).EveryOrganization(""); err != nil {
		t.Errorf("an operator: %v", err)
	}
}
