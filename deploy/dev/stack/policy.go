package stack

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
)

// ToolRules is the section of the gateway's policy with which a stack for people shows approvals: payments of more than
// 100 by the tool server payments need one. All other calls of tools are as the shipped policy has them.
//
//go:embed tools.yaml
var ToolRules string

// shippedPolicy is the path of the gateway's policy in the repository.
const shippedPolicy = "services/gateway/shipped/policy.yaml"

// writePolicy writes the shipped policy with the stack's rules of tools, if it has any.
func (s *Stack) writePolicy() error {
	if s.options.ToolRules == "" {
		return nil
	}
	shipped, err := os.ReadFile(filepath.Join(s.options.Root, filepath.FromSlash(shippedPolicy)))
	if err != nil {
		return err
	}
	return s.vault.write(policyFile, string(shipped)+"\n"+strings.TrimSuffix(s.options.ToolRules, "\n"))
}
