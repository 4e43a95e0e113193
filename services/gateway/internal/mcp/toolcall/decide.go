package toolcall

import (
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

// facts is what is known of a tool when it is decided whether it may be called, whatever its arguments.
type facts struct {
	// authority is the run's; nil for a call without a minted run.
	authority *run.Run
	// entry is the server, with the tools of its latest listing.
	entry *definition.Entry
	// method is empty for a call of a tool. tool is the tool's own name, or what another method names.
	method, tool string

	level trust.Level
	// terms are the policy's, and denial is its refusal; one of them is zero.
	terms  toolrule.Terms
	denial *toolrule.Denial
}

// decide returns a tool that may be called, or why it may not. Lists and calls share it; a call takes from its run's
// limits between the two parts.
func decide(f *facts) (definition.Tool, error) {
	if refused := decideRun(f); refused != nil {
		return definition.Tool{}, refused
	}
	return decideTool(f)
}

// decideRun returns why calls of a run, or of none, may not use a tool; nil if they may.
func decideRun(f *facts) error {
	switch {
	case f.denial != nil && f.denial.Reason == toolrule.ReasonRunRequired:
		return f.denial.Err()
	case f.authority != nil && !f.authority.Limits.AllowsTool(f.entry.Server.ID, f.allowed()):
		return run.ErrToolNotAllowed
	}
	return nil
}

// decideTool returns the tool of a server that is trusted enough, if its definition is approved and no rule denies it.
func decideTool(f *facts) (definition.Tool, error) {
	if !f.entry.Server.Offers(toolserver.FeatureTools) {
		return definition.Tool{}, definition.ErrToolNotFound
	}
	if f.denial == nil && !f.level.AtLeast(f.terms.MinimumTrust) {
		return definition.Tool{}, ErrUntrusted
	}
	tool, err := f.entry.Check(f.tool)
	if err == nil && f.denial != nil {
		err = f.denial.Err()
	}
	return tool, err
}
