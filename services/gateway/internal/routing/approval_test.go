package routing

import (
	"strings"
	"testing"
)

func TestNeedsApproval(t *testing.T) {
	needs := read(t, wide+"tools_needing_approval: [deploy, 'db_*', '*-Delete']\n").NeedsApproval()
	for name, want := range map[string]bool{
		"deploy": true, "Deploy": true, "deploy\t": true, "db_drop": true, "db_": true, "user-delete": true,
		"deploys": false, "redeploy": false, "db": false, "delete": false, "": false,
	} {
		if needs(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
	if read(t, wide).NeedsApproval() != nil {
		t.Error("a policy that names none needs approvals")
	}
	if _, err := Parse(Source{Text: []byte(wide + "tools_needing_approval: ['']\n")}, Source{}); err == nil || !strings.Contains(err.Error(), "tools_needing_approval: must not") {
		t.Errorf("an empty name: %v", err)
	}
}
