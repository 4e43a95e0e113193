package routing

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func TestPlan(t *testing.T) {
	cases := []struct {
		name      string
		request   Request
		requested string
		want      string
	}{
		{"default model", Request{Model: policy.DefaultModel, Substitution: true}, "", "box/small alpha/m1 beta/m3"},
		{"no model", Request{Substitution: true}, "", "box/small alpha/m1 beta/m3"},
		{"default by goal ends in the default", Request{Goal: policy.GoalCost, Substitution: true}, "", "beta/m3 beta/shared alpha/m1 box/small"},
		{"default of a provider", Request{Provider: "beta", Substitution: true}, "beta", "beta/shared alpha/shared alpha/m1 beta/m3"},
		{"a goal without ranks", Request{Model: "m1", Goal: policy.GoalLatency, Substitution: true}, "alpha", "alpha/m1 beta/m3"},
		{"one provider has it", Request{Model: "m3", Substitution: true}, "beta", "beta/m3 alpha/m1"},
		{"two have it, ranked by the default goal", Request{Model: "shared", Substitution: true}, "alpha", "alpha/shared beta/shared alpha/m1 beta/m3"},
		{"two have it, ranked by the goal asked for", Request{Model: "shared", Goal: policy.GoalCost, Substitution: true}, "beta", "beta/shared alpha/shared beta/m3 alpha/m1"},
		{"two have it, one asked for", Request{Model: "shared", Provider: "beta", Substitution: true}, "beta", "beta/shared alpha/shared alpha/m1 beta/m3"},
		{"prefix", Request{Model: "beta/shared", Substitution: true}, "beta", "beta/shared alpha/shared alpha/m1 beta/m3"},
		{"no substitution: any host of the model, for the first that has a key", Request{Model: "shared"}, "alpha", "alpha/shared beta/shared"},
		{"no substitution of a host", Request{Model: "shared", Provider: "beta"}, "beta", "beta/shared"},
		{"no substitution where nothing was asked for", Request{}, "", "box/small alpha/m1 beta/m3"},
		{"a name with a slash, by the vendor's own name", Request{Model: "org/m2"}, "alpha", "alpha/org/m2=m2-2026"},
		{"any model of a provider without a list", Request{Model: "local/llama:8b"}, "local", "local/llama:8b"},
		{"the same by field", Request{Model: "llama:8b", Provider: "local"}, "local", "local/llama:8b"},
	}
	p := policytest.ParseSmall(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan, err := NewPlan(p, c.request, State{})
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

func TestPlanTakesAliases(t *testing.T) {
	plan, err := NewPlan(policytest.Parse(t, `
default_model: one/a
providers: [{name: one, aliases: [uno], dialect: openai, base_url: "http://127.0.0.1:1", models: [a]}]
`), Request{Provider: "Uno"}, State{})
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Candidates[0].Provider; got != "one" {
		t.Errorf("Uno is served by %s, want one", got)
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
	p := policytest.ParseSmall(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewPlan(p, c.request, State{})
			e := apierr.From(err)
			if e == nil {
				t.Fatalf("no error, want %d %s", c.status, c.reason)
			}
			if e.Kind.HTTPStatus() != c.status || e.Reason != c.reason {
				t.Errorf("error %v, want %d %s", e, c.status, c.reason)
			}
			if !strings.Contains(e.Text, c.text) {
				t.Errorf("text %q, want %s in it", e.Text, c.text)
			}
		})
	}
}

// A plan must not change the policy that it was made from.
func TestPlanLeavesThePolicy(t *testing.T) {
	p := policytest.ParseSmall(t)
	first, _ := NewPlan(p, Request{Model: "shared", Substitution: true}, State{})
	for _, goal := range policy.Goals() {
		_, _ = NewPlan(p, Request{Model: "shared", Goal: goal, Substitution: true}, State{})
		_, _ = NewPlan(p, Request{Goal: goal, Substitution: true}, State{})
	}
	again, _ := NewPlan(p, Request{Model: "shared", Substitution: true}, State{})
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the plan changed (-first +again):\n%s", diff)
	}
}

// A provider that is replaced by one with other models takes the ranks and the ladder's steps of its old ones with it.
func TestExtraProviderWithOtherModels(t *testing.T) {
	extra := `providers: [{name: alpha, dialect: openai, base_url: "http://127.0.0.1:9", models: [other]}]`
	p, err := policy.Parse(policy.Source{Text: []byte(policytest.Small)}, policy.Source{Text: []byte(extra)})
	if err != nil {
		t.Fatal(err)
	}
	if plan, err := NewPlan(p, Request{Goal: policy.GoalQuality, Substitution: true}, State{}); err != nil || names(plan) != "beta/m3 box/small" {
		t.Errorf("%s, %v", names(plan), err)
	}
}

// Each provider has a default for each operation.
func TestDefaultsOfProviders(t *testing.T) {
	p := policytest.Parse(t, policytest.Wide)
	for _, c := range []struct {
		provider  string
		operation provider.Operation
		vision    bool
		want      string
	}{
		{"one", provider.OperationChat, false, "one/small"},
		{"one", provider.OperationVision, false, "one/big"},
		{"one", provider.OperationChat, true, "one/big"},
		{"one", provider.OperationEmbeddings, false, "one/vectors"},
		{"three", provider.OperationImages, false, "three/flash"},
		{"", provider.OperationImages, false, "three/paint"},
	} {
		plan, err := NewPlan(p, Request{Provider: c.provider, Operation: c.operation, Needs: Needs{Vision: c.vision}}, State{})
		if err != nil || plan.Candidates[0].String() != c.want {
			t.Errorf("%s %s: %s, %v, want %s", c.provider, c.operation, names(plan), err, c.want)
		}
	}
	for _, name := range []string{"one", "any"} {
		if _, err := NewPlan(p, Request{Provider: name, Operation: provider.OperationImages}, State{}); apierr.From(err).Reason != apierr.ReasonInvalidRequest {
			t.Errorf("%s has no default for images: %v", name, err)
		}
	}
	narrow := policytest.Parse(t, `{default_model: {chat: a/m}, providers: [{name: a, dialect: openai, models: [{name: m, operations: [chat]}]}]}`)
	if _, err := NewPlan(narrow, Request{Operation: provider.OperationEmbeddings}, State{}); err == nil || !strings.Contains(err.Error(), "model: is required: the policy has no default for embeddings") {
		t.Errorf("no default: %v", err)
	}
}
