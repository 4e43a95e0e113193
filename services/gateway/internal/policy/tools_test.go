package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
)

const toolSettings = `
tools:
  minimum_trust: VERIFIED
  max_tool_calls: 100
  repeat_limit: 5
  max_depth: 3
  commands:
    - {name: files, argv: [/usr/bin/mcp-files, --root, /data], env: [HOME], dir: /data}
  rules:
    - {name: no deletion, servers: [github], tools: ["delete_*"], deny: true}
    - {when: 'args.amount > 100.0', approval: required, fresh_listing: 10s, minimum_trust: FIRST_PARTY}
`

func TestTools(t *testing.T) {
	p := policytest.Parse(t, policytest.Small+toolSettings)
	want := []policy.Command{{Name: "files", Argv: []string{"/usr/bin/mcp-files", "--root", "/data"}, Env: []string{"HOME"}, Dir: "/data"}}
	if diff := cmp.Diff(want, p.Commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	call := toolrule.Call{Server: "github", Tool: "pay", Arguments: map[string]any{"amount": int64(101)}}
	terms, denial := p.ToolRules().Decide(&call)
	if denial != nil || terms != (toolrule.Terms{
		MinimumTrust: trust.FirstParty, Approval: "tools.rules[1]", Approvers: "default", Page: true, FreshListing: 10 * time.Second, MaxToolCalls: 100, RepeatLimit: 5,
	}) {
		t.Errorf("%+v, %+v", terms, denial)
	}
	call.Tool = "delete_repo"
	if _, denial := p.ToolRules().Decide(&call); denial == nil || denial.Rule != "no deletion" {
		t.Errorf("%+v", denial)
	}
	without := policytest.Parse(t, policytest.Small)
	if p.MostDepth() != 3 || without.MostDepth() != run.MaxDepth {
		t.Errorf("depths %d and %d", p.MostDepth(), without.MostDepth())
	}
	absent := without.ToolRules()
	if terms, denial := absent.Decide(&call); denial != nil || terms != (toolrule.Terms{MinimumTrust: trust.Community}) {
		t.Errorf("without settings: %+v, %+v", terms, denial)
	}
}

// Every part that is wrong is named, with its place.
func TestProblemsOfTools(t *testing.T) {
	const wrong = `
tools:
  minimum_trust: HIGH
  max_tool_calls: -1
  repeat_limit: 1000001
  max_depth: 33
  commands:
    - {name: Files, argv: [/bin/x]}
    - {name: a, argv: [x]}
    - {name: b, argv: [/bin/x], env: [A=1]}
    - {name: c, argv: [/bin/x], dir: data}
    - {name: d, argv: [/bin/x]}
    - {name: d, argv: [/bin/x]}
  rules:
    - {servers: [github]}
    - {deny: true, when: 'arg.x > 1'}
    - {deny: true, when: 'args.x'}
    - {deny: true, when: 'size(args.x)'}
    - {methods: [tools/list], deny: true}
    - {methods: [tools/call, prompts/get], fresh_listing: 10s}
    - {deny: true, approvers: "a b", proof: mail}
    - {servers: [""], tools: [a], approval: maybe, fresh_listing: 1ms, name: "a/b", minimum_trust: low}
`
	want := strings.TrimSpace(`
policy.yaml:14:3: tools.minimum_trust: want UNTRUSTED, COMMUNITY, VERIFIED or FIRST_PARTY
policy.yaml:15:3: tools.max_tool_calls: want 0 to 1000000
policy.yaml:16:3: tools.repeat_limit: want 0 to 1000000
policy.yaml:17:3: tools.max_depth: want 0 to 32
policy.yaml:19:8: tools.commands[0].name: want lower-case letters, digits, '.', '_' and '-', at most 64
policy.yaml:20:17: tools.commands[1].argv: must begin with the absolute path of a program
policy.yaml:21:39: tools.commands[2].env[0]: want the name of an environment variable, without a value
policy.yaml:22:33: tools.commands[3].dir: must be an absolute path
policy.yaml:24:8: tools.commands[5].name: appears twice
policy.yaml:26:7: tools.rules[0]: has no effect: want deny, minimum_trust, require_run, approval, no_standing_approval or fresh_listing
policy.yaml:30:8: tools.rules[4].methods: want any of tools/call, resources/read, prompts/get, completion/complete
policy.yaml:31:8: tools.rules[5].methods: approval and fresh_listing are for tools/call alone
policy.yaml:32:20: tools.rules[6].approvers: want letters, digits, '.', '_' and '-', at most 64
policy.yaml:32:38: tools.rules[6].proof: want page or link
policy.yaml:32:7: tools.rules[6].approval: want required, since the rule has approvers or proof
policy.yaml:33:72: tools.rules[7].name: want letters, digits, spaces, '.', '_' and '-', at most 64
policy.yaml:33:8: tools.rules[7].servers: want names of 1 to 256 bytes, in which * stands for any characters
policy.yaml:33:85: tools.rules[7].minimum_trust: want UNTRUSTED, COMMUNITY, VERIFIED or FIRST_PARTY
policy.yaml:33:35: tools.rules[7].approval: want required
policy.yaml:33:52: tools.rules[7].fresh_listing: want 1s to 1h0m0s
policy.yaml:27:20: tools.rules[1].when: line 1, column 1: undeclared reference to 'arg' (did you mean 'args'?)
policy.yaml:29:20: tools.rules[3].when: line 1, column 1: is of type int, must be bool`)
	if diff := cmp.Diff(want, check(policytest.Small+wrong, "")); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestBoundsOfTools(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"rules":     {"tools: {rules: [" + strings.Repeat("{deny: true},", 201) + "]}\n", "tools.rules: 201 are more than 200"},
		"commands":  {"tools: {commands: [" + strings.Repeat("{name: a},", 101) + "]}\n", "tools.commands: 101 are more than 100"},
		"patterns":  {"tools: {rules: [{deny: true, tools: [" + strings.Repeat("a,", 101) + "]}]}\n", "tools.rules[0].tools: 101 are more than 100"},
		"arguments": {"tools: {commands: [{name: a, argv: [/a" + strings.Repeat(",b", 64) + "]}]}\n", "tools.commands[0].argv: 65 are more than 64"},
	} {
		if got := check(policytest.Small+c.text, ""); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
