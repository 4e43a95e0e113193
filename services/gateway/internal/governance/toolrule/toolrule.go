// Package toolrule decides what the policy says of a call of a tool: whether it may be made, and on which terms. Rules
// only ever restrict; all that apply hold together. Package policy reads them, package toolcall applies them to lists of
// tools and to calls by the same function. It also says how servers are answered that ask for completions, and to where
// they may send callers.
package toolrule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/governance/pattern"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/expression"
)

// Rule is one rule. It applies to the calls of its tools on its servers for which When holds.
type Rule struct {
	// Name names the rule in refusals.
	Name string
	// Servers and Tools are patterns of servers' ids and of tools' own names; "*" stands for any characters, and case is
	// ignored. An empty list matches all.
	Servers, Tools []string
	// Methods are the methods of the protocol that the rule is about; empty for MethodCall alone. Tools then match what the
	// method names: see Call.
	Methods []string
	// When is an expression in CEL; empty for always. See Variables.
	When string
	// Deny refuses the calls.
	Deny bool
	// MinimumTrust is the level of trust that the server must have; empty for the policy's.
	MinimumTrust trust.Level
	// RequireRun refuses calls that name no run.
	RequireRun bool
	// Approval refuses calls that no person has approved.
	Approval bool
	// Approvers names the group of people who approve; empty for DefaultApprovers. Link takes a button in a message for an
	// approval; otherwise it is given on a page.
	Approvers string
	Link      bool
	// NoStanding refuses approvals of the calls in advance.
	NoStanding bool
	// FreshListing is how old the listing of the server's tools may be at a call; 0 is as old as any.
	FreshListing time.Duration
}

// DefaultApprovers is the group of approvers of rules that name none.
const DefaultApprovers = "default"

// Settings are the policy's settings for tools.
type Settings struct {
	// MinimumTrust is the level that every server must have; empty is trust.Community.
	MinimumTrust trust.Level
	RequireRun   bool
	// MaxToolCalls is how many calls of tools a run may make that has no limit of its own, and RepeatLimit how often a run
	// may make the same call; 0 is any number.
	MaxToolCalls, RepeatLimit int
	Rules                     []Rule
	// Sampling and Elicitation are about what servers ask of callers. The first of each that matches a server counts.
	Sampling    []SamplingRule
	Elicitation []ElicitationRule
}

// Terms are the terms of a call that may be made.
type Terms struct {
	// MinimumTrust is the level that the server must have.
	MinimumTrust trust.Level
	// Approval is the name of the first rule that asks for an approval, and Approvers the group that it names; both are
	// empty for none.
	Approval, Approvers string
	// Page reports whether an approval has to be given on a page: one of the rules that ask for it demands it. NoStanding
	// reports whether it can't be given in advance.
	Page, NoStanding bool
	// FreshListing is how old the listing of the server's tools may be; 0 is as old as any.
	FreshListing time.Duration
	// MaxToolCalls and RepeatLimit are those of the Settings.
	MaxToolCalls, RepeatLimit int
}

// Methods that rules may be about.
const (
	MethodCall     = "tools/call"
	MethodRead     = "resources/read"
	MethodPrompt   = "prompts/get"
	MethodComplete = "completion/complete"
)

// Methods returns the methods that rules may be about.
func Methods() []string { return []string{MethodCall, MethodRead, MethodPrompt, MethodComplete} }

// Call is a call of a tool, or of another method. Organization, User and Run are empty for none.
type Call struct {
	// Method is empty for MethodCall.
	Method string
	// Server is the server's id. Tool is what the method names: the server's own name of the tool or prompt, the URI of the
	// resource; of a completion the name of the prompt or the template of the resource.
	Server, Tool            string
	Organization, User, Run string
	// Arguments are those of the canonical form, as expression.Object returns them; List ignores them.
	Arguments map[string]any
}

// Reasons of refusals.
const (
	ReasonDenied      apierr.Reason = "tool_denied"
	ReasonRunRequired apierr.Reason = "run_required"
)

// Denial is the refusal of a call.
type Denial struct {
	// Rule is the name of the rule that refuses the call; empty for the settings of all tools.
	Rule   string
	Reason apierr.Reason
	Text   string
}

// Err returns the denial as the error of a call: 403.
func (d *Denial) Err() *apierr.Error {
	text := d.Text
	if d.Rule != "" {
		text = "rule " + d.Rule + ": " + text
	}
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: d.Reason, Class: apierr.ClassPolicy, Text: text}
}

// Rules are rules that were compiled. They never change; safe for concurrent use. Nil Rules are those of the zero
// Settings.
type Rules struct {
	settings    Settings
	rules       []compiled
	sampling    []SamplingRule
	elicitation []ElicitationRule
}

type compiled struct {
	Rule

	// when is nil for always; arguments reports whether it uses them.
	when      *expression.Program
	arguments bool
}

// Variables returns the variables of expressions: the arguments as "args", and the texts "method", "server", "tool",
// "organization", "user" and "run". Numbers of arguments are integers where they have no fraction (also 100.0, which is
// 100 in the canonical form) and otherwise doubles; comparisons take both, arithmetic doesn't mix them.
func Variables() []expression.Variable {
	return []expression.Variable{
		{Name: VariableArguments, Kind: expression.JSON}, {Name: "method"}, {Name: "server"}, {Name: "tool"}, {Name: "organization"}, {Name: "user"}, {Name: "run"},
	}
}

// VariableArguments is the variable that has the call's arguments.
const VariableArguments = "args"

// Compile returns the rules of settings. The error joins a *RuleError for each rule whose expression is wrong.
func Compile(settings Settings) (*Rules, error) {
	expressions, err := expression.New(Variables()...)
	if err != nil {
		return nil, fmt.Errorf("toolrule: %w", err)
	}
	r := &Rules{settings: settings}
	r.setInputs(&settings)
	var wrong []error
	for i, rule := range settings.Rules {
		c := compiled{Rule: rule}
		c.Servers, c.Tools = lower(rule.Servers), lower(rule.Tools)
		if rule.When != "" {
			if c.when, err = expressions.Compile(rule.When); err != nil {
				wrong = append(wrong, &RuleError{Index: i, Err: err})
				continue
			}
			c.arguments = c.when.Uses(VariableArguments)
		}
		r.rules = append(r.rules, c)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return r, nil
}

// RuleError is the error of a rule's expression.
type RuleError struct {
	Index int
	Err   error
}

// Error implements error.
func (e *RuleError) Error() string { return fmt.Sprintf("rules[%d].when: %s", e.Index, e.Err) }

// Unwrap returns the error of the expression.
func (e *RuleError) Unwrap() error { return e.Err }

func lower(patterns []string) []string {
	all := make([]string, len(patterns))
	for i, p := range patterns {
		all[i] = strings.ToLower(p)
	}
	return all
}

// LeastTrust returns the level that a server must have whatever is called of it.
func (r *Rules) LeastTrust() trust.Level {
	if r == nil || r.settings.MinimumTrust == "" {
		return trust.Community
	}
	return r.settings.MinimumTrust
}

// Decide returns the terms of a call, or why it is refused. An expression that fails, reads an argument that the call
// lacks, or costs too much, refuses it: nothing is known then of what the rule is for.
func (r *Rules) Decide(c *Call) (Terms, *Denial) { return r.decide(c, true) }

// List returns the terms under which a tool may be called, as far as they don't depend on arguments, or why it may not
// be called with any: it is Decide without the rules whose expressions use arguments.
func (r *Rules) List(c *Call) (Terms, *Denial) { return r.decide(c, false) }

func (r *Rules) decide(c *Call, arguments bool) (Terms, *Denial) {
	if r == nil {
		r = &Rules{}
	}
	terms := Terms{MinimumTrust: r.LeastTrust(), MaxToolCalls: r.settings.MaxToolCalls, RepeatLimit: r.settings.RepeatLimit}
	if r.settings.RequireRun && c.Run == "" {
		return Terms{}, runRequired("")
	}
	server, tool := strings.ToLower(c.Server), strings.ToLower(c.Tool)
	method := c.method()
	var values map[string]any
	for i := range r.rules {
		rule := &r.rules[i]
		if rule.arguments && !arguments || !rule.about(method) || !rule.names(server, tool) {
			continue
		}
		if values == nil && rule.when != nil {
			values = c.values(arguments)
		}
		switch applies, denial := rule.applies(values); {
		case denial != nil:
			return Terms{}, denial
		case !applies:
			continue
		}
		if denial := rule.restrict(&terms, c); denial != nil {
			return Terms{}, denial
		}
	}
	return terms, nil
}

// about reports whether the rule is about a method.
func (r *compiled) about(method string) bool {
	if len(r.Methods) == 0 {
		return method == MethodCall
	}
	return slices.Contains(r.Methods, method)
}

// method returns the method of a call.
func (c *Call) method() string { return cmp.Or(c.Method, MethodCall) }

// names reports whether the rule names a tool.
func (r *compiled) names(server, tool string) bool {
	return (len(r.Servers) == 0 || pattern.Any(r.Servers, server)) && (len(r.Tools) == 0 || pattern.Any(r.Tools, tool))
}

// applies reports whether the rule's expression holds, or refuses the call where that can't be known.
func (r *compiled) applies(values map[string]any) (bool, *Denial) {
	if r.when == nil {
		return true, nil
	}
	switch result, _ := r.when.Evaluate(values); result {
	case expression.True:
		return true, nil
	case expression.False:
		return false, nil
	case expression.Absent:
		return false, &Denial{r.Name, ReasonDenied, "reads an argument that the call lacks"}
	case expression.Costly:
		return false, &Denial{r.Name, ReasonDenied, "can't be evaluated: the arguments are too large for it"}
	default:
		return false, &Denial{r.Name, ReasonDenied, "can't be evaluated: an argument is of another type than it expects"}
	}
}

// restrict adds what the rule demands to the terms, or refuses the call.
func (r *compiled) restrict(terms *Terms, c *Call) *Denial {
	switch {
	case r.Deny:
		return &Denial{r.Name, ReasonDenied, "refuses this call"}
	case r.RequireRun && c.Run == "":
		return runRequired(r.Name)
	}
	if r.MinimumTrust != "" && r.MinimumTrust.AtLeast(terms.MinimumTrust) {
		terms.MinimumTrust = r.MinimumTrust
	}
	if r.Approval {
		if terms.Approval == "" {
			terms.Approval, terms.Approvers = r.Name, cmp.Or(r.Approvers, DefaultApprovers)
		}
		terms.Page = terms.Page || !r.Link
	}
	terms.NoStanding = terms.NoStanding || r.NoStanding
	if r.FreshListing > 0 && (terms.FreshListing == 0 || r.FreshListing < terms.FreshListing) {
		terms.FreshListing = r.FreshListing
	}
	return nil
}

func runRequired(rule string) *Denial {
	return &Denial{rule, ReasonRunRequired, "calls of this tool must name a run (X-Run-Id)"}
}

// Values returns the variables of expressions.
func (c *Call) Values() map[string]any { return c.values(true) }

func (c *Call) values(arguments bool) map[string]any {
	values := map[string]any{"method": c.method(), "server": c.Server, "tool": c.Tool, "organization": c.Organization, "user": c.User, "run": c.Run}
	if arguments {
		values[VariableArguments] = map[string]any{}
		if c.Arguments != nil {
			values[VariableArguments] = c.Arguments
		}
	}
	return values
}
