package stack

import (
	"os"
	"path/filepath"
	"testing"
)

// The rules of tools are added to the shipped policy, which the gateway uses alone where the stack has no rules.
func TestPolicyWithRulesOfTools(t *testing.T) {
	root := t.TempDir()
	shipped := filepath.Join(root, filepath.FromSlash(shippedPolicy))
	if err := os.MkdirAll(filepath.Dir(shipped), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(shipped, []byte("default_model: sandbox/sandbox"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, rules, user string
		file, want        string // of the policy that the gateway gets; "" is the shipped one
	}{
		{"a stack without rules", "", "", "", ""},
		{"a stack with rules", "tools: {}\n", "", policyFile, "default_model: sandbox/sandbox\ntools: {}\n"},
		{"the user's own policy", "tools: {}\n", "/p.yaml", "/p.yaml", "default_model: sandbox/sandbox\ntools: {}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := planned(t)
			s.vault, s.options.Root, s.options.ToolRules = vault{t.TempDir()}, root, tt.rules
			if err := s.writePolicy(); err != nil {
				t.Fatal(err)
			}
			var user environ
			if tt.user != "" {
				user = environ{"GATEWAY_POLICY_FILE=" + tt.user}
			}
			want := tt.file
			if want != "" && !filepath.IsAbs(want) {
				want = s.vault.path(want)
			}
			if got := environ(s.settings(Gateway, string(Gateway), user)).lookup("GATEWAY_POLICY_FILE"); got != want {
				t.Errorf("GATEWAY_POLICY_FILE=%s, want %s", got, want)
			}
			text, err := os.ReadFile(s.vault.path(policyFile))
			if string(text) != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("the policy is %q, error %v, want %q", text, err, tt.want)
			}
		})
	}
}
