package policy_test

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
)

func TestResilience(t *testing.T) {
	want := policy.Resilience{Breaker: policy.Breaker{FailurePercent: 50, Sample: 5, Window: 30 * time.Second, Delay: 5 * time.Second, MaxDelay: time.Minute}}
	if got := policytest.Parse(t, policytest.Wide).Resilience(); got != want {
		t.Errorf("without a setting: %+v, want %+v", got, want)
	}
	got := policytest.Parse(t, policytest.Wide+"resilience: {breaker: {sample: 9}}").Resilience()
	want.Breaker.Sample = 9
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCacheTTL(t *testing.T) {
	p := policytest.Parse(t, policytest.Wide+`
cache:
  ttl: 1m
  organizations:
    - {organizations: [acme], enabled: true, ttl: 10m}
    - {organizations: ["acme*"], enabled: true}
    - {organizations: [no], enabled: false}
`)
	for organization, want := range map[string]time.Duration{"acme": 10 * time.Minute, "acme2": time.Minute, "no": 0, "other": 0} {
		if got := p.CacheTTL(organization); got != want {
			t.Errorf("%s: %s, want %s", organization, got, want)
		}
	}
	if got := policytest.Parse(t, policytest.Wide).CacheTTL("acme"); got != 0 {
		t.Errorf("%s, though the policy says nothing", got)
	}
	on := policytest.Parse(t, policytest.Wide+`cache: {enabled: true, organizations: [{organizations: [no]}]}`)
	if on.CacheTTL("acme") != 5*time.Minute || on.CacheTTL("no") != 0 {
		t.Errorf("%s and %s", on.CacheTTL("acme"), on.CacheTTL("no"))
	}
}

// Each error names the file, the path in it and the rule.
func TestParseNames(t *testing.T) {
	cases := []struct{ name, policy, extra, want string }{
		{"a field", policytest.Wide + "colour: red\n", "", "/etc/policy.yaml: line 48: field colour: there is no such field"},
		{"a field of a model", policytest.Wide, "providers:\n  - {name: x, dialect: openai, models: [{name: m, limits: {contxt: 3}}]}", "/etc/extra.yaml: line 2: field contxt: there is no such field"},
		{"a feature", policytest.Wide, "providers: [{name: x, dialect: openai, features: [fly]}]", `/etc/extra.yaml: features: "fly": want one of [tools`},
		{"settings of sampling", policytest.Wide, "providers: [{name: x, dialect: openai, sampling: some}]", `sampling: "some": want any, one or default`},
		{"a dialect", policytest.Wide, "providers: [{name: x, dialect: klingon}]", `/etc/extra.yaml: providers[0] "x": dialect: "klingon": want openai, anthropic, gemini, bedrock, vertex, cohere or sandbox`},
		{"an operation", policytest.Wide, "providers: [{name: x, dialect: openai, models: [m, {name: n, operations: [sing]}]}]", `/etc/extra.yaml: providers[0] "x": models[1] "n": operations: "sing"`},
		{"a limit", policytest.Wide, "providers: [{name: x, dialect: openai, models: [{name: n, limits: {output: -1}}]}]", "must not be negative"},
		{"dimensions", policytest.Wide, "providers: [{name: x, dialect: openai, models: [{name: n, dimensions: {any_of: [1], max: 2}}]}]", "want any_of, or min and max"},
		{"a cache time", policytest.Wide, "providers: [{name: x, dialect: openai, prompt_cache_ttl: 5ms}]", "prompt_cache_ttl: want at least 1s"},
		{"a provider twice in one file", policytest.Wide, "providers: [{name: x, dialect: openai}, {name: x, dialect: openai}]", `/etc/extra.yaml: providers[1] "x": name: appears twice`},
		{"a default for an operation", strings.Replace(policytest.Wide, "embeddings: one/vectors,", "embeddings: one/big,", 1), "", `/etc/policy.yaml: default_model.embeddings: "one/big" does not support embeddings`},
		{"a default for no operation", strings.Replace(policytest.Wide, "embeddings: one/vectors,", "songs: one/big,", 1), "", "default_model.songs: want one of [chat embeddings vision images"},
		{"a default of a provider", strings.Replace(policytest.Wide, "{chat: small}", "{chat: tiny}", 1), "", `providers[0] "one": default_model.chat: "tiny": the provider has no such model`},
		{"a ladder", strings.Replace(policytest.Wide, "embeddings: [four/embed]", "embeddings: [one/big]", 1), "", `ladder.embeddings: "one/big" does not support embeddings`},
		{"a rank twice", strings.Replace(policytest.Wide, "cost: [one/small,", "cost: [one/small, one/small,", 1), "", `goals.cost: "one/small": appears twice`},
		{"a rule", policytest.Wide + "data_classification: [{organizations: ['*'], classifications: {x: maybe}}]", "", `classifications: "maybe": want allow, deny`},
		{"a rule's field", policytest.Wide + "data_classification: [{organizations: ['*'], classifications: {x: {provders: [a]}}}]", "", "line 48: field provders: there is no such field"},
		{"a rule's provider", policytest.Wide + "data_classification: [{organizations: ['*'], classifications: {x: {providers: [gone]}}}]", "", `data_classification[0].classifications.x.providers: "gone": no such provider`},
		{"a rule's default", policytest.Wide + "data_classification: [{organizations: ['*'], default: y, classifications: {x: deny}}]", "", `default: "y" is not one of the classifications`},
		{"rules for nobody", policytest.Wide + "data_classification: [{classifications: {x: deny}}]", "", "organizations: is required"},
		{"a breaker", policytest.Wide + "resilience: {breaker: {failure_percent: 0}}", "", "resilience.breaker: want failure_percent"},
		{"a breaker's times", policytest.Wide + "resilience: {breaker: {max_delay: 1s}}", "", "max_delay not below it"},
		{"a cache", policytest.Wide + "cache: {ttl: 1ms}", "", "cache.ttl"},
		{"a cache of nobody", policytest.Wide + "cache: {organizations: [{enabled: true}]}", "", "cache.organizations"},
		{"a kind", policytest.Wide + "cache: {enabled: perhaps}", "", "/etc/policy.yaml: line 48: want true or false, not a text"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := policy.Parse(policy.Source{Name: "/etc/policy.yaml", Text: []byte(c.policy)}, policy.Source{Name: "/etc/extra.yaml", Text: []byte(c.extra)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q in it", err, c.want)
			}
			if namesGoType(err.Error()) {
				t.Errorf("error %v names a type of Go", err)
			}
			if strings.ContainsRune(err.Error(), '\n') {
				t.Errorf("error %v, want one line", err)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	one, again := policytest.Parse(t, policytest.Wide), policytest.Parse(t, policytest.Wide)
	if one.Version() != again.Version() || len(one.Version()) != 12 || policytest.Parse(t, policytest.Wide+"\n").Version() == one.Version() {
		t.Errorf("%s, %s", one.Version(), again.Version())
	}
}

// namesGoType reports whether an error contains a Go type instead of the file's terms.
func namesGoType(text string) bool {
	return strings.Contains(strings.ReplaceAll(text, "/etc/policy.yaml", ""), "policy.")
}
