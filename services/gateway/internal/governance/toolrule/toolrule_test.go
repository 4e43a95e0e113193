package toolrule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/expression"
)

func compile(t interface{ Fatal(args ...any) }, settings toolrule.Settings) *toolrule.Rules {
	rules, err := toolrule.Compile(settings)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func call(t *testing.T, server, tool, arguments string) *toolrule.Call {
	t.Helper()
	object, err := expression.Object([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return &toolrule.Call{Server: server, Tool: tool, Organization: "acme", User: "ann", Run: "r1", Arguments: object}
}

func TestDecide(t *testing.T) {
	rules := compile(t, toolrule.Settings{MaxToolCalls: 50, RepeatLimit: 3, Rules: []toolrule.Rule{
		{Name: "verified", Servers: []string{"github"}, Tools: []string{"merge_*", "Delete_*"}, MinimumTrust: trust.Verified, FreshListing: time.Minute},
		{Name: "no deletion", Tools: []string{"delete_*"}, Deny: true, When: `args.confirmed != true`},
		{Name: "large", Servers: []string{"bank"}, When: "args.amount > 100.0", Approval: true},
		{Name: "huge", Servers: []string{"bank"}, When: "args.amount > 1000", MinimumTrust: trust.FirstParty, Approval: true, FreshListing: time.Second},
		{Name: "community", Servers: []string{"bank"}, MinimumTrust: trust.Community, FreshListing: time.Hour},
		{Name: "guests", When: `organization.startsWith("guest-") || user == "eve"`, Deny: true},
		{Name: "with a run", Tools: []string{"deploy"}, RequireRun: true},
		{Name: "nested", Servers: []string{"loops"}, When: "args.xs.all(x, args.xs.all(y, x > 0 && y > 0))", Deny: true},
	}})
	of := func(minimum trust.Level, approval string, fresh time.Duration) toolrule.Terms {
		terms := toolrule.Terms{MinimumTrust: minimum, Approval: approval, FreshListing: fresh, MaxToolCalls: 50, RepeatLimit: 3}
		if approval != "" {
			terms.Approvers, terms.Page = toolrule.DefaultApprovers, true
		}
		return terms
	}
	denied := func(rule string) *toolrule.Denial { return &toolrule.Denial{Rule: rule, Reason: toolrule.ReasonDenied} }
	xs := `{"xs":[` + strings.TrimSuffix(strings.Repeat("1,", 5000), ",") + `]}`
	for _, c := range []struct {
		server, tool, arguments string
		change                  func(*toolrule.Call)
		want                    toolrule.Terms
		denial                  *toolrule.Denial
	}{
		{server: "files", tool: "read", arguments: "{}", want: of(trust.Community, "", 0)},
		{server: "github", tool: "merge_pr", arguments: "{}", want: of(trust.Verified, "", time.Minute)},
		{server: "GitHub", tool: "MERGE_pr", arguments: "{}", want: of(trust.Verified, "", time.Minute)},
		{server: "gitlab", tool: "merge_pr", arguments: "{}", want: of(trust.Community, "", 0)},
		{server: "github", tool: "delete_repo", arguments: `{"confirmed":true}`, want: of(trust.Verified, "", time.Minute)},
		{server: "github", tool: "delete_repo", arguments: `{"confirmed":false}`, denial: denied("no deletion")},
		{server: "github", tool: "delete_repo", arguments: `{"confirmed":"true"}`, denial: denied("no deletion")},
		{server: "github", tool: "delete_repo", arguments: `{}`, denial: denied("no deletion")}, // It reads what isn't there.
		{server: "bank", tool: "pay", arguments: `{"amount":100}`, want: of(trust.Community, "", time.Hour)},
		{server: "bank", tool: "pay", arguments: `{"amount":100.5}`, want: of(trust.Community, "large", time.Hour)},
		{server: "bank", tool: "pay", arguments: `{"amount":1001}`, want: of(trust.FirstParty, "large", time.Second)},
		{server: "bank", tool: "pay", arguments: `{"amount":"1"}`, denial: denied("large")},
		{server: "files", tool: "read", arguments: "{}", change: func(c *toolrule.Call) { c.Organization = "guest-1" }, denial: denied("guests")},
		{server: "files", tool: "read", arguments: "{}", change: func(c *toolrule.Call) { c.User = "eve" }, denial: denied("guests")},
		{server: "files", tool: "read", arguments: "{}", change: func(c *toolrule.Call) { c.Run = "" }, want: of(trust.Community, "", 0)},
		{server: "files", tool: "deploy", arguments: "{}", want: of(trust.Community, "", 0)},
		{
			server: "files", tool: "deploy", arguments: "{}", change: func(c *toolrule.Call) { c.Run = "" },
			denial: &toolrule.Denial{Rule: "with a run", Reason: toolrule.ReasonRunRequired},
		},
		{server: "loops", tool: "x", arguments: xs, denial: denied("nested")},
		{server: "bank", tool: "pay", arguments: "{}", change: func(c *toolrule.Call) { c.Arguments = nil }, denial: denied("large")},
	} {
		made := call(t, c.server, c.tool, c.arguments)
		if c.change != nil {
			c.change(made)
		}
		terms, denial := rules.Decide(made)
		if terms != c.want || (denial == nil) != (c.denial == nil) || denial != nil && (denial.Rule != c.denial.Rule || denial.Reason != c.denial.Reason) {
			t.Errorf("%s/%s %.40s: %+v, %+v, want %+v, %+v", c.server, c.tool, c.arguments, terms, denial, c.want, c.denial)
		}
	}
}

// Of several rules that ask for an approval, the first names the approvers, and one is enough that demands a page or
// refuses approvals in advance.
func TestApprovals(t *testing.T) {
	rules := compile(t, toolrule.Settings{Rules: []toolrule.Rule{
		{Name: "deploy", Tools: []string{"deploy", "drop"}, Approval: true, Approvers: "ops", Link: true},
		{Name: "drop", Tools: []string{"drop"}, Approval: true, Approvers: "dba", NoStanding: true},
	}})
	for tool, want := range map[string]toolrule.Terms{
		"read":   {MinimumTrust: trust.Community},
		"deploy": {MinimumTrust: trust.Community, Approval: "deploy", Approvers: "ops"},
		"drop":   {MinimumTrust: trust.Community, Approval: "deploy", Approvers: "ops", Page: true, NoStanding: true},
	} {
		if terms, denial := rules.Decide(&toolrule.Call{Server: "s", Tool: tool}); denial != nil || terms != want {
			t.Errorf("%s: %+v, %+v, want %+v", tool, terms, denial, want)
		}
	}
}

// Lists leave out what no arguments can make callable, and only that.
func TestList(t *testing.T) {
	rules := compile(t, toolrule.Settings{MinimumTrust: trust.Untrusted, Rules: []toolrule.Rule{
		{Name: "never", Tools: []string{"drop"}, Deny: true},
		{Name: "some", Tools: []string{"pay"}, When: "args.amount > 1", Deny: true, MinimumTrust: trust.FirstParty},
		{Name: "acme", When: "organization != 'acme'", Tools: []string{"internal_*"}, Deny: true},
	}})
	for tool, want := range map[string]bool{"drop": false, "pay": true, "internal_x": true} {
		terms, denial := rules.List(&toolrule.Call{Server: "s", Tool: tool, Organization: "acme"})
		if (denial == nil) != want || want && terms.MinimumTrust != trust.Untrusted {
			t.Errorf("%s: %+v, %+v", tool, terms, denial)
		}
	}
	if _, denial := rules.List(&toolrule.Call{Server: "s", Tool: "internal_x", Organization: "bolt"}); denial == nil || denial.Rule != "acme" {
		t.Errorf("another organization's: %+v", denial)
	}
}

func TestDefaults(t *testing.T) {
	for name, rules := range map[string]*toolrule.Rules{"none": nil, "empty": compile(t, toolrule.Settings{})} {
		terms, denial := rules.Decide(&toolrule.Call{Server: "s", Tool: "t"})
		if denial != nil || terms != (toolrule.Terms{MinimumTrust: trust.Community}) {
			t.Errorf("%s: %+v, %+v", name, terms, denial)
		}
	}
	rules := compile(t, toolrule.Settings{RequireRun: true})
	_, denial := rules.Decide(&toolrule.Call{Server: "s", Tool: "t"})
	if denial == nil || denial.Reason != toolrule.ReasonRunRequired {
		t.Fatalf("without a run: %+v", denial)
	}
	if _, listed := rules.List(&toolrule.Call{Server: "s", Tool: "t"}); listed == nil {
		t.Error("is listed without a run")
	}
	if err := denial.Err(); err.Kind != apierr.KindForbidden || err.Reason != "run_required" {
		t.Errorf("%+v", err)
	}
	if err := (&toolrule.Denial{Rule: "tools.rules[1]", Reason: toolrule.ReasonDenied, Text: "refuses this call"}).Err(); err.Text != "rule tools.rules[1]: refuses this call" {
		t.Errorf("%+v", err)
	}
}

func TestCompileNamesTheRule(t *testing.T) {
	_, err := toolrule.Compile(toolrule.Settings{Rules: []toolrule.Rule{{}, {When: "arg.x == 1"}}})
	wrong, ok := errors.AsType[*toolrule.RuleError](err)
	if !ok || wrong.Index != 1 || !strings.HasPrefix(wrong.Err.Error(), "line 1, column 1: undeclared reference to 'arg'") {
		t.Errorf("%v", err)
	}
}

// For random rules and calls: one more rule never makes a call possible or its terms easier, the order of rules doesn't
// matter for what is allowed, and what a call may do is in the list.
func TestRulesOnlyRestrict(t *testing.T) {
	levels := []trust.Level{"", trust.Untrusted, trust.Community, trust.Verified, trust.FirstParty}
	names := rapid.SampledFrom([]string{"a", "ab", "b"})
	anyRule := rapid.Custom(func(t *rapid.T) toolrule.Rule {
		patterns := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a*", "*b", "*"}), 0, 2)
		return toolrule.Rule{
			Name: rapid.StringN(1, 4, 8).Draw(t, "name"), Servers: patterns.Draw(t, "servers"), Tools: patterns.Draw(t, "tools"),
			When: rapid.SampledFrom([]string{"", "args.n > 1", "run == ''", "tool == 'a'", "has(args.n) && args.n == 0"}).Draw(t, "when"),
			Deny: rapid.IntRange(0, 3).Draw(t, "deny") == 0, MinimumTrust: rapid.SampledFrom(levels).Draw(t, "trust"),
			RequireRun: rapid.IntRange(0, 3).Draw(t, "run") == 0, Approval: rapid.Bool().Draw(t, "approval"),
			FreshListing: time.Duration(rapid.IntRange(0, 3).Draw(t, "fresh")) * time.Second,
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(anyRule, 1, 5).Draw(t, "rules")
		made := &toolrule.Call{Server: names.Draw(t, "server"), Tool: names.Draw(t, "tool"), Run: rapid.SampledFrom([]string{"", "r"}).Draw(t, "run id")}
		if rapid.Bool().Draw(t, "has n") {
			made.Arguments = map[string]any{"n": int64(rapid.IntRange(0, 2).Draw(t, "n"))}
		}
		fewer, without := compile(t, toolrule.Settings{Rules: rules[1:]}).Decide(made)
		all, denial := compile(t, toolrule.Settings{Rules: rules}).Decide(made)
		if denial == nil && (without != nil || !all.MinimumTrust.AtLeast(fewer.MinimumTrust) || fewer.Approval != "" && all.Approval == "" ||
			fewer.FreshListing > 0 && (all.FreshListing == 0 || all.FreshListing > fewer.FreshListing)) {
			t.Fatalf("with a rule more %+v, before %+v, %+v", all, fewer, without)
		}
		turned := append(append([]toolrule.Rule{}, rules[1:]...), rules[0])
		other, refused := compile(t, toolrule.Settings{Rules: turned}).Decide(made)
		other.Approval, all.Approval = fmt.Sprint(other.Approval != ""), fmt.Sprint(all.Approval != "")
		if (refused == nil) != (denial == nil) || !cmp.Equal(all, other) {
			t.Fatalf("%+v, %+v; in another order %+v, %+v", all, denial, other, refused)
		}
		if _, unlisted := compile(t, toolrule.Settings{Rules: rules}).List(made); unlisted != nil && denial == nil {
			t.Fatalf("may be called, and isn't listed: %+v", unlisted)
		}
	})
}
