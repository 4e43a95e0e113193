package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
)

// Tools holds the settings for calls of tools of MCP servers.
type Tools struct {
	// MinimumTrust is the level of trust that every server must have: COMMUNITY if absent.
	MinimumTrust trust.Level `yaml:"minimum_trust"`
	// RequireRun refuses calls that name no run.
	RequireRun bool `yaml:"require_run"`
	// MaxToolCalls is how many calls of tools a run may make that has no limit of its own, and RepeatLimit how often a run
	// may make the same call; 0 is any number.
	MaxToolCalls int `yaml:"max_tool_calls"`
	RepeatLimit  int `yaml:"repeat_limit"`
	// MaxDepth is how many runs may be above a run: 32 if absent, 0 if runs may mint none below themselves.
	MaxDepth *int `yaml:"max_depth"`
	// Commands are the local servers that operators may register by their names.
	Commands []Command `yaml:"commands"`
	// Rules restrict calls. All that apply hold together.
	Rules []ToolRule `yaml:"rules"`
	// Sampling and Elicitation are about what servers ask of callers. The first entry of each that matches a server counts.
	Sampling    []Sampling    `yaml:"sampling"`
	Elicitation []Elicitation `yaml:"elicitation"`
}

// Command is a program that speaks the Model Context Protocol on its standard input and output.
type Command struct {
	Name string `yaml:"name"`
	// Argv is the program's absolute path and its arguments.
	Argv []string `yaml:"argv"`
	// Env names the variables of the gateway's environment that the program gets; it gets no others.
	Env []string `yaml:"env"`
	// Dir is the program's working directory; empty for the root.
	Dir string `yaml:"dir"`
}

// ToolRule is a rule in the policy file; see toolrule.Rule.
type ToolRule struct {
	Name         string      `yaml:"name"`
	Servers      []string    `yaml:"servers"`
	Tools        []string    `yaml:"tools"`
	Methods      []string    `yaml:"methods"`
	When         string      `yaml:"when"`
	Deny         bool        `yaml:"deny"`
	MinimumTrust trust.Level `yaml:"minimum_trust"`
	RequireRun   bool        `yaml:"require_run"`
	Approval     string      `yaml:"approval"`
	// Approvers names the group of people who approve, Proof how they prove that it is them: "page" (also if absent) or
	// "link".
	Approvers          string        `yaml:"approvers"`
	Proof              string        `yaml:"proof"`
	NoStandingApproval bool          `yaml:"no_standing_approval"`
	FreshListing       time.Duration `yaml:"fresh_listing"`
}

// Bounds of the settings for tools.
const (
	mostToolRules, mostToolPatterns, mostPattern = 200, 100, 256
	mostToolCalls                                = 1_000_000
	mostCommands, mostArguments, mostArgument    = 100, 64, 4096
	leastFresh, mostFresh                        = time.Second, time.Hour
)

// approvalRequired is the value of a rule's approval, and the others are those of its proof.
const (
	approvalRequired = "required"
	proofPage        = "page"
	proofLink        = "link"
)

var (
	ruleName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$`)
	groupName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// setTools checks and compiles the settings for tools.
func (p *Policy) setTools(t Tools) error {
	var wrong failures
	wrong.add("tools.minimum_trust", checkTrust(t.MinimumTrust))
	wrong.add("tools.max_tool_calls", checkCount(t.MaxToolCalls))
	wrong.add("tools.repeat_limit", checkCount(t.RepeatLimit))
	if t.MaxDepth != nil && (*t.MaxDepth < 0 || *t.MaxDepth > run.MaxDepth) {
		wrong.add("tools.max_depth", fmt.Errorf("want 0 to %d", run.MaxDepth))
	}
	wrong.addCommands(t.Commands)
	settings := toolrule.Settings{
		MinimumTrust: t.MinimumTrust, RequireRun: t.RequireRun, MaxToolCalls: t.MaxToolCalls, RepeatLimit: t.RepeatLimit,
	}
	if len(t.Rules) > mostToolRules {
		wrong.add("tools.rules", fmt.Errorf("%d are more than %d", len(t.Rules), mostToolRules))
		t.Rules = nil
	}
	for i := range t.Rules {
		at := fmt.Sprintf("tools.rules[%d]", i)
		wrong.add(at, t.Rules[i].check())
		settings.Rules = append(settings.Rules, t.Rules[i].rule(at))
	}
	wrong.addInputs(&t, &settings)
	rules, err := toolrule.Compile(settings)
	if err != nil {
		for _, each := range flat(err) {
			if bad, ok := errors.AsType[*toolrule.RuleError](each); ok {
				each = fmt.Errorf("rules[%d].when: %w", bad.Index, bad.Err)
			}
			wrong = append(wrong, fmt.Errorf("tools.%w", each))
		}
	}
	p.tools, p.toolRules = t, rules
	return wrong.err()
}

func checkTrust(level trust.Level) error {
	if level == "" || level.AtLeast(trust.Untrusted) {
		return nil
	}
	return errors.New("want UNTRUSTED, COMMUNITY, VERIFIED or FIRST_PARTY")
}

func checkCount(n int) error {
	if n < 0 || n > mostToolCalls {
		return fmt.Errorf("want 0 to %d", mostToolCalls)
	}
	return nil
}

// rule returns the rule for package toolrule. One without a name is named by its place.
func (r *ToolRule) rule(at string) toolrule.Rule {
	return toolrule.Rule{
		Name: cmp.Or(r.Name, at), Servers: r.Servers, Tools: r.Tools, Methods: r.Methods, When: r.When, Deny: r.Deny, MinimumTrust: r.MinimumTrust,
		RequireRun: r.RequireRun, Approval: r.Approval == approvalRequired, Approvers: r.Approvers, Link: r.Proof == proofLink,
		NoStanding: r.NoStandingApproval, FreshListing: r.FreshListing,
	}
}

func (r *ToolRule) check() error {
	var wrong failures
	if r.Name != "" && !ruleName.MatchString(r.Name) {
		wrong.add("name", errors.New("want letters, digits, spaces, '.', '_' and '-', at most 64"))
	}
	wrong.add("servers", checkPatterns(r.Servers))
	wrong.add("tools", checkPatterns(r.Tools))
	wrong.add("methods", r.checkMethods())
	wrong.add("minimum_trust", checkTrust(r.MinimumTrust))
	wrong.addApproval(r)
	if r.FreshListing != 0 && (r.FreshListing < leastFresh || r.FreshListing > mostFresh) {
		wrong.add("fresh_listing", fmt.Errorf("want %s to %s", leastFresh, mostFresh))
	}
	if err := wrong.err(); err != nil {
		return err
	}
	if !r.Deny && r.MinimumTrust == "" && !r.RequireRun && r.Approval == "" && !r.NoStandingApproval && r.FreshListing == 0 {
		return errors.New("has no effect: want deny, minimum_trust, require_run, approval, no_standing_approval or fresh_listing")
	}
	return nil
}

// checkMethods checks the methods of a rule. Approvals and listings are of tools alone.
func (r *ToolRule) checkMethods() error {
	if len(r.Methods) > len(toolrule.Methods()) {
		return fmt.Errorf("%d are more than %d", len(r.Methods), len(toolrule.Methods()))
	}
	for _, method := range r.Methods {
		switch {
		case !slices.Contains(toolrule.Methods(), method):
			return fmt.Errorf("want any of %s", strings.Join(toolrule.Methods(), ", "))
		case method != toolrule.MethodCall && (r.Approval != "" || r.FreshListing != 0):
			return errors.New("approval and fresh_listing are for tools/call alone")
		}
	}
	return nil
}

// addApproval checks what a rule says of approvals.
func (f *failures) addApproval(r *ToolRule) {
	if r.Approval != "" && r.Approval != approvalRequired {
		f.add("approval", errors.New("want required"))
	}
	if r.Approvers != "" && !groupName.MatchString(r.Approvers) {
		f.add("approvers", errors.New("want letters, digits, '.', '_' and '-', at most 64"))
	}
	if r.Proof != "" && r.Proof != proofPage && r.Proof != proofLink {
		f.add("proof", errors.New("want page or link"))
	}
	if r.Approval == "" && (r.Approvers != "" || r.Proof != "") {
		f.add("approval", errors.New("want required, since the rule has approvers or proof"))
	}
}

func checkPatterns(patterns []string) error {
	if len(patterns) > mostToolPatterns {
		return fmt.Errorf("%d are more than %d", len(patterns), mostToolPatterns)
	}
	for _, p := range patterns {
		if strings.TrimSpace(p) == "" || len(p) > mostPattern {
			return fmt.Errorf("want names of 1 to %d bytes, in which * stands for any characters", mostPattern)
		}
	}
	return nil
}

func (f *failures) addCommands(commands []Command) {
	if len(commands) > mostCommands {
		f.add("tools.commands", fmt.Errorf("%d are more than %d", len(commands), mostCommands))
		return
	}
	seen := make(map[string]bool)
	for i := range commands {
		err := commands[i].check()
		if err == nil && seen[commands[i].Name] {
			err = errors.New("name: appears twice")
		}
		f.add(fmt.Sprintf("tools.commands[%d]", i), err)
		seen[commands[i].Name] = true
	}
}

func (c *Command) check() error {
	switch {
	case !providerName.MatchString(c.Name):
		return errors.New("name: want lower-case letters, digits, '.', '_' and '-', at most 64")
	case len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]):
		return errors.New("argv: must begin with the absolute path of a program")
	case len(c.Argv) > mostArguments:
		return fmt.Errorf("argv: %d are more than %d", len(c.Argv), mostArguments)
	case len(c.Env) > mostArguments:
		return fmt.Errorf("env: %d are more than %d", len(c.Env), mostArguments)
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return errors.New("dir: must be an absolute path")
	}
	for i, argument := range c.Argv {
		if len(argument) > mostArgument || strings.ContainsRune(argument, 0) {
			return fmt.Errorf("argv[%d]: want at most %d bytes, without NUL", i, mostArgument)
		}
	}
	for i, name := range c.Env {
		if !variableName.MatchString(name) {
			return fmt.Errorf("env[%d]: want the name of an environment variable, without a value", i)
		}
	}
	return nil
}

// ToolRules returns the rules for calls of tools.
func (p *Policy) ToolRules() *toolrule.Rules { return p.toolRules }

// MostDepth returns how many runs may be above a run.
func (p *Policy) MostDepth() int {
	if p.tools.MaxDepth == nil {
		return run.MaxDepth
	}
	return *p.tools.MaxDepth
}

// Commands returns the local servers that operators may register.
func (p *Policy) Commands() []Command { return p.tools.Commands }
