package policy_test

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
)

func TestNeedsApproval(t *testing.T) {
	needs := policytest.Parse(t, policytest.Wide+"tools_needing_approval: [deploy, 'db_*', '*-Delete']\n").NeedsApproval()
	for name, want := range map[string]bool{
		"deploy": true, "Deploy": true, "deploy\t": true, "db_drop": true, "db_": true, "user-delete": true,
		"deploys": false, "redeploy": false, "db": false, "delete": false, "": false,
	} {
		if needs(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
	if policytest.Parse(t, policytest.Wide).NeedsApproval() != nil {
		t.Error("a policy that names none needs approvals")
	}
	if _, err := policy.Parse(policy.Source{Text: []byte(policytest.Wide + "tools_needing_approval: ['']\n")}, policy.Source{}); err == nil || !strings.Contains(err.Error(), "tools_needing_approval: must not") {
		t.Errorf("an empty name: %v", err)
	}
}
