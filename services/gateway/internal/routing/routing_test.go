package routing

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
)

const policyText = `
default_model: box/small
default_goal: quality
providers:
  - {name: box, dialect: sandbox, models: [small, large]}
  - {name: alpha, dialect: openai, base_url: https://a.example, key_file: alpha.key, models: [m1, shared, {name: org/m2, upstream: m2-2026}]}
  - {name: beta, dialect: openai, base_url: https://b.example, key_file: /abs/beta.key, models: [shared, m3]}
goals:
  cost: [beta/m3, beta/shared, alpha/m1]
  quality: [alpha/m1, alpha/shared, beta/m3]
ladder: [alpha/m1, beta/m3]
`

const extraText = `{"providers": [{"name": "local", "dialect": "openai", "base_url": "http://127.0.0.1:11434", "key_file": "local.key"}]}`

func parse(t *testing.T) *Policy {
	t.Helper()
	p, err := Parse(Source{Text: []byte(policyText), KeysDir: "/keys"}, Source{Text: []byte(extraText)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlan(t *testing.T) {
	cases := []struct {
		name      string
		request   Request
		requested string
		want      string
	}{
		{"default model", Request{Model: DefaultModel, Substitution: true}, "", "box/small alpha/m1 beta/m3"},
		{"no model", Request{Substitution: true}, "", "box/small alpha/m1 beta/m3"},
		{"default by goal ends in the default", Request{Goal: GoalCost, Substitution: true}, "", "beta/m3 beta/shared alpha/m1 box/small"},
		{"default of a provider", Request{Provider: "beta", Substitution: true}, "beta", "beta/shared alpha/shared alpha/m1 beta/m3"},
		{"a goal without ranks", Request{Model: "m1", Goal: GoalLatency, Substitution: true}, "alpha", "alpha/m1 beta/m3"},
		{"one provider has it", Request{Model: "m3", Substitution: true}, "beta", "beta/m3 alpha/m1"},
		{"two have it, ranked by the default goal", Request{Model: "shared", Substitution: true}, "alpha", "alpha/shared beta/shared alpha/m1 beta/m3"},
		{"two have it, ranked by the goal asked for", Request{Model: "shared", Goal: GoalCost, Substitution: true}, "beta", "beta/shared alpha/shared beta/m3 alpha/m1"},
		{"two have it, one asked for", Request{Model: "shared", Provider: "beta", Substitution: true}, "beta", "beta/shared alpha/shared alpha/m1 beta/m3"},
		{"prefix", Request{Model: "beta/shared", Substitution: true}, "beta", "beta/shared alpha/shared alpha/m1 beta/m3"},
		{"no substitution: any host of the model, for the first that has a key", Request{Model: "shared"}, "alpha", "alpha/shared beta/shared"},
		{"no substitution of a host", Request{Model: "shared", Provider: "beta"}, "beta", "beta/shared"},
		{"no substitution where nothing was asked for", Request{}, "", "box/small alpha/m1 beta/m3"},
		{"a name with a slash, by the vendor's own name", Request{Model: "org/m2"}, "alpha", "alpha/org/m2=m2-2026"},
		{"any model of a provider without a list", Request{Model: "local/llama:8b"}, "local", "local/llama:8b"},
		{"the same by field", Request{Model: "llama:8b", Provider: "local"}, "local", "local/llama:8b"},
	}
	p := parse(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan, err := p.Plan(c.request, State{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, candidate := range plan.Candidates {
				text := candidate.String()
				if candidate.Upstream != candidate.Model {
					text += "=" + candidate.Upstream
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" || plan.Requested != c.requested {
				t.Errorf("requested %q, want %q; candidates (-want +got):\n%s", plan.Requested, c.requested, diff)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	cases := []struct {
		name    string
		request Request
		status  int
		reason  apierr.Reason
		text    string
	}{
		{"unknown model", Request{Model: "m9"}, 404, ReasonModelNotFound, `"m9"`},
		{"a bare name does not reach a provider without a list", Request{Model: "llama"}, 404, ReasonModelNotFound, `"llama"`},
		{"unknown provider", Request{Model: "m1", Provider: "gamma"}, 400, ReasonProviderUnknown, `"gamma"`},
		{"model of another provider", Request{Model: "m1", Provider: "beta"}, 404, ReasonModelNotFound, `"m1"`},
		{"prefix and field differ", Request{Model: "alpha/m1", Provider: "beta"}, 404, ReasonModelNotFound, `"alpha/m1"`},
		{"prefix without a model", Request{Model: "local/"}, 404, ReasonModelNotFound, `"local/"`},
		{"unknown goal", Request{Model: "m1", Goal: "fun"}, 400, apierr.ReasonInvalidRequest, "optimization_goal"},
		{"no model for a provider without a list", Request{Provider: "local"}, 400, apierr.ReasonInvalidRequest, "model: is required"},
	}
	p := parse(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := p.Plan(c.request, State{})
			e := apierr.From(err)
			if e == nil || e.Kind.HTTPStatus() != c.status || e.Reason != c.reason || !strings.Contains(e.Text, c.text) {
				t.Errorf("error %v, want %d %s with %q", e, c.status, c.reason, c.text)
			}
		})
	}
}

// A plan must not disturb the policy that it was made from.
func TestPlanLeavesThePolicy(t *testing.T) {
	p := parse(t)
	first, _ := p.Plan(Request{Model: "shared", Substitution: true}, State{})
	for _, goal := range goals {
		_, _ = p.Plan(Request{Model: "shared", Goal: goal, Substitution: true}, State{})
		_, _ = p.Plan(Request{Goal: goal, Substitution: true}, State{})
	}
	again, _ := p.Plan(Request{Model: "shared", Substitution: true}, State{})
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the plan changed (-first +again):\n%s", diff)
	}
}

func TestKeyFilesAreAbsolute(t *testing.T) {
	var got []string
	for _, provider := range parse(t).Providers {
		got = append(got, provider.KeyFile)
	}
	want := []string{"", "/keys/alpha.key", "/abs/beta.key", "/nonexistent/local.key"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("key files (-want +got):\n%s", diff)
	}
}

func TestExtraProviderReplaces(t *testing.T) {
	extra := `providers: [{name: alpha, dialect: openai, base_url: "http://127.0.0.1:9"}]`
	p, err := Parse(Source{Text: []byte(policyText)}, Source{Text: []byte(extra)})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.byName["alpha"]; got.BaseURL != "http://127.0.0.1:9" || got.KeyFile != "" || len(got.Models) != 3 {
		t.Errorf("alpha = %+v, want the new address, no key and the models it had", got)
	}
}

// A provider that is replaced by one with other models takes the ranks and the
// ladder's steps of its old ones with it.
func TestExtraProviderWithOtherModels(t *testing.T) {
	extra := `providers: [{name: alpha, dialect: openai, base_url: "http://127.0.0.1:9", models: [other]}]`
	p, err := Parse(Source{Text: []byte(policyText)}, Source{Text: []byte(extra)})
	if err != nil {
		t.Fatal(err)
	}
	if plan, err := p.Plan(Request{Goal: GoalQuality, Substitution: true}, State{}); err != nil || names(plan) != "beta/m3 box/small" {
		t.Errorf("%s, %v", names(plan), err)
	}
}

func TestParseRefuses(t *testing.T) {
	cases := []struct{ name, policy, extra, want string }{
		{"unknown field", policyText + "colour: red\n", "", "colour"},
		{"unknown field of a model", policyText, "providers: [{name: x, dialect: openai, models: [{name: m, colour: red}]}]", "colour"},
		{"bad price", policyText, "providers: [{name: x, dialect: openai, models: [{name: m, input_per_mtok_usd: cheap}]}]", "cheap"},
		{"bad name", policyText, "providers: [{name: X Y}]", "lower-case"},
		{"twice in the policy", strings.ReplaceAll(policyText, "name: beta", "name: alpha"), "", "there twice"},
		{"a model twice", policyText, "providers: [{name: x, dialect: openai, models: [m, m]}]", "there twice"},
		{"a reserved model", policyText, "providers: [{name: x, dialect: openai, models: [default]}]", "reserved"},
		{"unknown default", strings.Replace(policyText, "box/small", "box/huge", 1), "", "default_model"},
		{"unknown goal", strings.Replace(policyText, "default_goal: quality", "default_goal: fun", 1), "", "default_goal"},
		{"ranks of an unknown goal", strings.Replace(policyText, "  cost:", "  fun:", 1), "", "goals.fun"},
		{"unknown target in the ladder", strings.Replace(policyText, "ladder: [alpha/m1", "ladder: [gamma/m1", 1), "", "gamma/m1"},
		{"not YAML", "\t", "", "policy"},
		{"extra is not YAML", policyText, "\t", "extra providers"},
		{"empty", "", "", "default_model"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(Source{Text: []byte(c.policy)}, Source{Text: []byte(c.extra)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(policyText, extraText)
	f.Fuzz(func(t *testing.T, policy, extra string) {
		p, err := Parse(Source{Text: []byte(policy)}, Source{Text: []byte(extra)})
		if err != nil {
			return
		}
		if plan, err := p.Plan(Request{Substitution: true}, State{}); err != nil || len(plan.Candidates) == 0 {
			t.Errorf("a valid policy plans nothing: %v", err)
		}
	})
}
