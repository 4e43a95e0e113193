package policy

import (
	"errors"
	"strings"

	"switchyard.dev/services/gateway/internal/governance/pattern"
)

// checkTools returns an error if a pattern is blank.
func checkTools(patterns []string) error {
	for _, pattern := range patterns {
		if strings.TrimSpace(pattern) == "" {
			return errors.New("tools_needing_approval: must not hold an empty name")
		}
	}
	return nil
}

// ApprovalTools returns the patterns of tools whose calls need an approval.
func (p *Policy) ApprovalTools() []string { return p.approvalTools }

// NeedsApproval returns a function that reports whether calls of a tool need an approval, or nil if no tool does. Case
// and surrounding spaces of a name are ignored.
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
		return pattern.Any(patterns, tool)
	}
}

func plainName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
