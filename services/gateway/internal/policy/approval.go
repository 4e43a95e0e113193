package policy

import (
	"errors"
	"slices"
	"strings"
)

// checkTools refuses patterns that fit nothing.
func checkTools(patterns []string) error {
	for _, pattern := range patterns {
		if strings.TrimSpace(pattern) == "" {
			return errors.New("tools_needing_approval: must not hold an empty name")
		}
	}
	return nil
}

// ApprovalTools are the patterns of tools whose calls need an approval.
func (p *Policy) ApprovalTools() []string { return p.approvalTools }

// NeedsApproval gives the test for tools whose calls need an approval; nil when
// none does. Case and spaces around a name make no other tool of it.
func (p *Policy) NeedsApproval() func(tool string) bool {
	if len(p.approvalTools) == 0 {
		return nil
	}
	patterns := make([]string, len(p.approvalTools))
	for i, pattern := range p.approvalTools {
		patterns[i] = plainName(pattern)
	}
	return func(tool string) bool {
		tool = plainName(tool)
		return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, tool) })
	}
}

func plainName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
