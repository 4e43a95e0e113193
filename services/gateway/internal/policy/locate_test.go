package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

// check returns the problems of two files, one on a line.
func check(text, extra string) string {
	p, e := policy.Source{Name: "policy.yaml", Text: []byte(text)}, policy.Source{Name: "extra.yaml", Text: []byte(extra)}
	_, err := policy.Parse(p, e)
	if err == nil {
		return ""
	}
	var all []string
	for _, problem := range policy.NewLocator(p, e).Problems(err) {
		all = append(all, problem.String())
	}
	return strings.Join(all, "\n")
}

const faulty = `default_model: {chat: box/huge, images: box/small}
default_goal: fun
providers:
  - name: box
    dialect: sandbox
    aliases: [alpha2]
    models: [small]
  - name: alpha
    dialect: openai
    base_url: https://a.example
    default_model: m9
    models:
      - m1
      - {name: m2}
  - {name: beta, dialect: openai, base_url: https://b.example, aliases: [alpha2], models: [m1]}
goals:
  quality: [alpha/m1, [beta/m1, beta/m8]]
  taste: [alpha/m1]
ladder:
  chat:
    - alpha/m1
    - gamma/m1
data_classification:
  - organizations: [acme]
    default: secret
    classifications:
      public: {providers: [beta, delta]}
cache:
  ttl: 1ms
byok: maybe
`

// Every part that is wrong is told, with its place.
func TestProblems(t *testing.T) {
	want := []string{
		`policy.yaml:2:1: default_goal: want cost, latency or quality`,
		`policy.yaml:29:3: cache.ttl: want at least 1s`,
		`policy.yaml:30:7: byok: "maybe": want fleet, prefer or require`,
		`policy.yaml:15:74: providers[2].aliases: "alpha2" belongs to box, too`,
		`policy.yaml:11:20: providers[1].default_model: "m9": the provider has no such model`,
		`policy.yaml:17:33: goals.quality: "beta/m8": the provider has no such model`,
		`policy.yaml:18:3: goals.taste: want cost, latency or quality`,
		`policy.yaml:1:23: default_model.chat: "box/huge": the provider has no such model`,
		`policy.yaml:22:7: ladder.chat: "gamma/m1": want provider/model of a configured provider`,
		`policy.yaml:27:34: data_classification[0].classifications.public.providers: "delta": no such provider`,
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), check(faulty, "")); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestPlacesOfProblems(t *testing.T) {
	small := policytest.Small // Its first line is empty.
	for _, c := range []struct{ name, policy, extra, want string }{
		{
			"an unknown field", small + "colour: red\nsize: big\n", "",
			"policy.yaml:12:1: field colour: there is no such field\npolicy.yaml:13:1: field size: there is no such field",
		},
		{"no YAML", "a: [", "", "policy.yaml:1:1: did not find expected node content"},
		{
			"an unknown field of a model", small, "providers:\n  - name: x\n    dialect: openai\n    models:\n      - {name: m, colour: red}\n",
			"extra.yaml:5:7: field colour: there is no such field",
		},
		{
			"a price that is none", small, "providers:\n  - name: x\n    dialect: openai\n    models:\n      - {name: m, input_per_mtok_usd: cheap}\n",
			`extra.yaml:5:7: want a price, a decimal number such as 1.25`,
		},
		{
			"two providers", small, "providers:\n  - {name: X}\n  - {name: y, dialect: klingon}\n",
			"extra.yaml:2:6: providers[0].name: want lower-case letters, digits, '.', '_' and '-', at most 64\n" +
				`extra.yaml:3:24: providers[1].dialect: "klingon": want openai, anthropic, gemini, bedrock, vertex, cohere or sandbox`,
		},
		{
			"a model of a provider", small, "providers:\n  - name: x\n    dialect: openai\n    models:\n      - m\n      - {name: n, limits: {context: -1}}\n",
			"extra.yaml:6:19: providers[0].models[1].limits, image_tokens: must not be negative",
		},
		{
			"a further provider after all", small, "providers:\n  - {name: x, dialect: sandbox, models: [m]}\n  - {name: alpha, dialect: sandbox, models: [m], default_model: n}\n",
			`extra.yaml:3:65: providers[1].default_model: "n": the provider has no such model`,
		},
		{"nothing", "", "", "policy.yaml: default_model: is required, for chat at least"},
		{"a list for a mapping", "default_model: a/b\nproviders: {name: x}\n", "", "policy.yaml:2:1: want a list, not a mapping"},
	} {
		if got := check(c.policy, c.extra); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// The number of problems that are told is bounded.
func TestProblemsAreBounded(t *testing.T) {
	extra := "providers:\n" + strings.Repeat("  - {name: X}\n", 1000)
	got := strings.Split(check(policytest.Small, extra), "\n")
	if len(got) != 101 || got[100] != "extra.yaml: and at least 900 more" {
		t.Errorf("%d lines, the last is %s", len(got), got[len(got)-1])
	}
}

func TestPlacesOfModels(t *testing.T) {
	l := policy.NewLocator(policy.Source{Text: []byte(policytest.Small)}, policy.Source{Name: "extra.yaml", Text: []byte("providers:\n  - {name: alpha, dialect: openai}\n  - {name: gamma, models: [x]}\n")})
	for target, want := range map[provider.Target]string{
		{Provider: "box", Model: "large"}:    "policy:5:51: providers[0].models[1]: x",
		{Provider: "alpha", Model: "org/m2"}: "policy:6:107: providers[1].models[2]: x",
		{Provider: "alpha"}:                  "extra.yaml:2:5: providers[0]: x",
		{Provider: "gamma", Model: "x"}:      "extra.yaml:3:28: providers[1].models[0]: x",
		{Provider: "beta", Model: "unknown"}: "policy:7:5: providers[2]: x",
		{Provider: "nowhere"}:                "policy: x",
	} {
		p := l.Model(target)
		if p.Rule = "x"; p.String() != want {
			t.Errorf("%s is at %s, want %s", target, p, want)
		}
	}
	for err, want := range map[string]string{
		"price of gamma/x: input_per_mtok_usd: wrong": "extra.yaml:3:28: providers[1].models[0].input_per_mtok_usd: wrong",
		"provider box: base_url: wrong":               "policy:5:5: providers[0].base_url: wrong",
	} {
		if got := l.Problems(fmt.Errorf("%s", err)); len(got) != 1 || got[0].String() != want {
			t.Errorf("%s: %v, want %s", err, got, want)
		}
	}
}

func FuzzProblems(f *testing.F) {
	f.Add(faulty, "providers: [{name: X}]")
	f.Add("a: &a [*a]", "\t")
	f.Fuzz(func(t *testing.T, text, extra string) {
		p, e := policy.Source{Name: "p", Text: []byte(text)}, policy.Source{Name: "e", Text: []byte(extra)}
		_, err := policy.Parse(p, e)
		l := policy.NewLocator(p, e)
		_ = l.Model(provider.Target{Provider: "a", Model: "b"})
		if err == nil {
			return
		}
		problems := l.Problems(err)
		if len(problems) == 0 {
			t.Fatalf("%v is no problem", err)
		}
		for _, problem := range problems {
			if problem.Line > 1+max(strings.Count(text, "\n"), strings.Count(extra, "\n"))+1 {
				t.Fatalf("%s is behind the file's end", problem)
			}
		}
	})
}

func TestProblemsGrowLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Number("providers", `{"providers": [`, `{"name": "X#"},`, `{"name": "z"}]}`),
		growth.Number("unknown fields", `{"providers": [], `, `"x#": 1,`, `"z": 1}`),
		growth.Nest("nested lists", "[", "", "]").In(`{"providers": `, "}"),
	}
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, inputs), func(text []byte) { _ = check(policytest.Small, string(text)) })...)
}
