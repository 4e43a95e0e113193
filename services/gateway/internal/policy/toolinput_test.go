package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
)

const inputSettings = `
tools:
  sampling:
    - {servers: [files], by: gateway, model: shared, max_tokens: 1024, max_requests: 2, tools: true}
    - {servers: ["git*"], by: gateway, model: alpha/m1}
    - {servers: [bank], by: refuse}
    - {servers: [bank], by: gateway}
  elicitation:
    - {servers: [bank], origins: ["https://bank.example", "HTTPS://pay.Bank.example:443"]}
`

func TestInputsOfServers(t *testing.T) {
	p := policytest.Parse(t, policytest.Small+inputSettings)
	rules := p.ToolRules()
	for server, want := range map[string]toolrule.Sampling{
		"Files":  {By: toolrule.SamplingByGateway, Model: "shared", MaxTokens: 1024, MaxRequests: 2, Tools: true},
		"github": {By: toolrule.SamplingByGateway, Model: "alpha/m1", MaxTokens: 4096, MaxRequests: 4},
		"bank":   {By: toolrule.SamplingRefused},
		"other":  {By: toolrule.SamplingByClient},
	} {
		if got := rules.Sampling(server); got != want {
			t.Errorf("%s: %+v, want %+v", server, got, want)
		}
	}
	if !rules.MayOpen("bank", "https://pay.bank.example") || rules.MayOpen("bank", "https://evil.example") || rules.MayOpen("files", "https://bank.example") {
		t.Error("elicitation is not as the policy says")
	}
	without := policytest.Parse(t, policytest.Small)
	if diff := cmp.Diff([]string{"tools changed"}, policy.Changes(without, p)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// Every name of a model that a request may use is one for servers, too.
func TestModelsForServers(t *testing.T) {
	for name, ok := range map[string]bool{
		"small": true, "box/small": true, "org/m2": true, "alpha/org/m2": true, "shared": true, "beta/m1": false, "gamma/m1": false, "huge": false,
	} {
		problems := check(policytest.Small+"tools: {sampling: [{by: gateway, model: "+name+"}]}\n", "")
		if ok != (problems == "") {
			t.Errorf("%s: %q", name, problems)
		}
		if want := `tools.sampling[0].model: "` + name + `": no provider has such a model for chat`; !ok && !strings.HasSuffix(problems, want) {
			t.Errorf("%s: %q, want %q", name, problems, want)
		}
	}
	if problems := check(strings.Replace(policytest.Wide, "default_goal", "tools: {sampling: [{by: gateway, model: one/vectors}]}\ndefault_goal", 1), ""); problems == "" {
		t.Error("a model that does not chat may answer servers")
	}
}

func TestProblemsOfInputs(t *testing.T) {
	const wrong = `
tools:
  sampling:
    - {servers: [""], by: us}
    - {model: shared, max_tokens: 10}
    - {by: refuse, max_requests: 2}
    - {by: gateway, max_tokens: -1, max_requests: 65}
    - {by: client, tools: true}
  elicitation:
    - {servers: [bank], origins: ["https://bank.example/login", "https://", "ftp://bank.example", "https://bank.example#", "https://u@bank.example", "bank.example"]}
`
	want := strings.TrimSpace(`
policy.yaml:15:8: tools.sampling[0].servers: want names of 1 to 256 bytes, in which * stands for any characters
policy.yaml:15:23: tools.sampling[0].by: want client, gateway or refuse
policy.yaml:16:7: tools.sampling[1].by: want gateway, since the entry has model, max_tokens, max_requests or tools
policy.yaml:17:8: tools.sampling[2].by: want gateway, since the entry has model, max_tokens, max_requests or tools
policy.yaml:18:21: tools.sampling[3].max_tokens: want 0 to 1000000
policy.yaml:18:37: tools.sampling[3].max_requests: want 0 to 64
policy.yaml:19:8: tools.sampling[4].by: want gateway, since the entry has model, max_tokens, max_requests or tools
policy.yaml:21:35: tools.elicitation[0].origins[0]: want a scheme and a host, such as https://bank.example
policy.yaml:21:65: tools.elicitation[0].origins[1]: want a scheme and a host, such as https://bank.example
policy.yaml:21:77: tools.elicitation[0].origins[2]: want a scheme and a host, such as https://bank.example
policy.yaml:21:99: tools.elicitation[0].origins[3]: want a scheme and a host, such as https://bank.example
policy.yaml:21:124: tools.elicitation[0].origins[4]: want a scheme and a host, such as https://bank.example
policy.yaml:21:150: tools.elicitation[0].origins[5]: want a scheme and a host, such as https://bank.example`)
	if diff := cmp.Diff(want, check(policytest.Small+wrong, "")); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"tools.sampling":               "tools: {sampling: [" + strings.Repeat("{by: refuse},", 101) + "]}\n",
		"tools.elicitation":            "tools: {elicitation: [" + strings.Repeat("{},", 101) + "]}\n",
		"tools.elicitation[0].origins": "tools: {elicitation: [{origins: [" + strings.Repeat(`"https://a.example",`, 101) + "]}]}\n",
	} {
		if got := check(policytest.Small+text, ""); !strings.HasSuffix(got, name+": 101 are more than 100") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
