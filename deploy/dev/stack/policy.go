package stack

import (
	_ "embed"
	"errors"
	"io"
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
func (s *Stack) writePolicy() (err error) {
	if s.options.ToolRules == "" {
		return nil
	}
	shipped, err := os.Open(filepath.Join(s.options.Root, filepath.FromSlash(shippedPolicy)))
	if err != nil {
		return err
	}
	defer func() { _ = shipped.Close() }()
	policy, err := os.OpenFile(s.vault.path(policyFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, policy.Close()) }()
	_, err = io.Copy(policy, io.MultiReader(shipped, strings.NewReader("\n"+s.options.ToolRules)))
	return err
}
