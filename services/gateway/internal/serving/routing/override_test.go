package routing

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func TestPin(t *testing.T) {
	cases := []struct {
		name      string
		pin       provider.Target
		request   Request
		requested string
		want      string // candidates, or a status and a part of the refusal
	}{
		{"a model", provider.Target{Provider: "two", Model: "wise"}, Request{Model: "big", Substitution: true}, "one", "~two/wise"},
		{"a model, for a request that names none", provider.Target{Provider: "two", Model: "wise"}, Request{Substitution: true}, "", "two/wise"},
		{"the model that was asked for", provider.Target{Provider: "two", Model: "wise"}, Request{Model: "two/wise"}, "two", "two/wise"},
		{"a provider: the model that was asked for", provider.Target{Provider: "three", Model: ""}, Request{Model: "shared", Substitution: true}, "three", "three/shared"},
		{"a provider that has not the model: its default", provider.Target{Provider: "two", Model: ""}, Request{Model: "big", Substitution: true}, "one", "~two/wise"},
		{"another operation: the provider's model for it", provider.Target{Provider: "one", Model: "big"}, Request{Operation: provider.OperationEmbeddings, Substitution: true}, "", "one/vectors"},
		{"an operation that the provider has not", provider.Target{Provider: "two", Model: "wise"}, Request{Operation: provider.OperationEmbeddings, Substitution: true}, "", "400 pinned to two, which has no model for embeddings"},
		{"what it can't do", provider.Target{Provider: "one", Model: "small"}, Request{Model: "big", Needs: Needs{Tools: true}, Substitution: true}, "", "400 one/small (tools)"},
		{"tokens of another model", provider.Target{Provider: "four", Model: "embed"}, Request{Operation: provider.OperationEmbeddings, Model: "one/vectors", Needs: Needs{Tokens: 1}, Substitution: true}, "", "400 four/embed (vocabulary)"},
		{"no substitution", provider.Target{Provider: "two", Model: "wise"}, Request{Model: "big"}, "", "422 allows no substitution of one/big"},
		{"a provider that is gone", provider.Target{Provider: "gone", Model: "x"}, Request{Substitution: true}, "", "400 pinned to gone"},
		{"a wrong name is refused all the same", provider.Target{Provider: "two", Model: "wise"}, Request{Model: "nonsense"}, "", "404 nonsense"},
	}
	p := policytest.Parse(t, policytest.Wide)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan, err := NewPlan(p, c.request, State{Override: steering.Override{Pin: &c.pin, Canary: &steering.Canary{Target: provider.Target{Provider: "three", Model: "flash"}, Percentage: 100}}})
			if status, text, refused := strings.Cut(c.want, " "); refused {
				if e := apierr.From(err); e == nil || fmt.Sprint(e.Kind.HTTPStatus()) != status || !strings.Contains(e.Text, text) {
					t.Errorf("error %v, want %s with %q", e, status, text)
				}
				return
			}
			if err != nil || names(plan) != c.want {
				t.Errorf("plan %s, %v, want %s", names(plan), err, c.want)
			}
			if plan.Requested != c.requested || !plan.Pinned {
				t.Errorf("requested %q, pinned %t; want %q, pinned", plan.Requested, plan.Pinned, c.requested)
			}
		})
	}
}

func TestCanary(t *testing.T) {
	cases := []struct {
		name    string
		canary  steering.Canary
		request Request
		want    string
		takes   bool
	}{
		{"before the others, which stay behind it", steering.Canary{Target: provider.Target{Provider: "three", Model: "flash"}, Percentage: 100}, Request{Substitution: true}, "three/flash one/big two/wise", true},
		{"in place of what was asked for", steering.Canary{Target: provider.Target{Provider: "any", Model: "new"}, Percentage: 100}, Request{Model: "small", Substitution: true}, "~any/new one/small ~two/wise ~one/big ~three/flash", true},
		{"a host of what was asked for", steering.Canary{Target: provider.Target{Provider: "three", Model: ""}, Percentage: 100}, Request{Model: "shared", Substitution: true}, "three/shared one/shared two/shared ~two/wise ~one/big ~three/flash", true},
		{"a provider without the model", steering.Canary{Target: provider.Target{Provider: "three", Model: ""}, Percentage: 100}, Request{Model: "small", Substitution: true}, "one/small ~two/wise ~one/big ~three/flash", false},
		{"nobody", steering.Canary{Target: provider.Target{Provider: "three", Model: "flash"}}, Request{Substitution: true}, "one/big two/wise three/flash", false},
		{"no substitution, where nothing was asked for", steering.Canary{Target: provider.Target{Provider: "three", Model: "flash"}, Percentage: 100}, Request{}, "three/flash one/big two/wise", true},
		{"no substitution", steering.Canary{Target: provider.Target{Provider: "three", Model: "flash"}, Percentage: 100}, Request{Model: "small"}, "one/small", false},
		{"what it can't do", steering.Canary{Target: provider.Target{Provider: "three", Model: "flash"}, Percentage: 100}, Request{Model: "big", Needs: Needs{Tools: true}, Substitution: true}, "one/big ~two/wise", false},
		{"another operation", steering.Canary{Target: provider.Target{Provider: "three", Model: "paint"}, Percentage: 100}, Request{Substitution: true}, "two/wise one/big three/flash", false},
		{"a provider that is gone", steering.Canary{Target: provider.Target{Provider: "gone", Model: ""}, Percentage: 100}, Request{Model: "small", Substitution: true}, "one/small ~two/wise ~one/big ~three/flash", false},
	}
	p := policytest.Parse(t, policytest.Wide)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan, err := NewPlan(p, c.request, State{Override: steering.Override{Canary: &c.canary}})
			if err != nil || plan.Canary != c.takes {
				t.Errorf("takes the canary %t, %v, want %t", plan.Canary, err, c.takes)
			}
			if c.takes && names(plan) != c.want {
				t.Errorf("plan %s, want %s", names(plan), c.want)
			}
			stable, _ := NewPlan(p, c.request, State{})
			if !c.takes && names(plan) != names(stable) {
				t.Errorf("%s without the canary, %s with it", names(stable), names(plan))
			}
		})
	}
}

// The share is what was set, within four standard deviations; an organization's choice is the same at any time; a
// greater share keeps the organizations of a smaller one.
func TestCanaryShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := steering.Canary{
			Target:     provider.Target{Provider: rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "provider"), Model: rapid.StringMatching(`[a-z]{0,8}`).Draw(t, "model")},
			Percentage: rapid.Float64Range(0, 100).Draw(t, "percentage"), ByRun: rapid.Bool().Draw(t, "by run"),
		}
		more := c
		more.Percentage = rapid.Float64Range(c.Percentage, 100).Draw(t, "more")
		prefix := rapid.String().Draw(t, "prefix")
		const n = 5000
		taken := 0
		for i := range n {
			r := Request{Organization: fmt.Sprint(prefix, i)}
			if c.ByRun {
				r = Request{Organization: "acme", Run: fmt.Sprint(prefix, i)}
			}
			if !covers(&c, &r) {
				continue
			}
			taken++
			if !covers(&more, &r) {
				t.Fatalf("%+v: %v%% leaves out who %v%% had", r, more.Percentage, c.Percentage)
			}
		}
		share := c.Percentage / 100
		if deviation := math.Abs(float64(taken) - share*n); deviation > 4.5*math.Sqrt(n*share*(1-share))+1 {
			t.Fatalf("%d of %d at %v%%", taken, n, c.Percentage)
		}
	})
}

func TestCanaryGoesByWhatItSays(t *testing.T) {
	c := steering.Canary{Target: provider.Target{Provider: "a", Model: "b"}, Percentage: 50}
	for i := range 100 {
		one, other := Request{Organization: fmt.Sprint(i), Run: "r1"}, Request{Organization: fmt.Sprint(i), Run: "r2"}
		if covers(&c, &one) != covers(&c, &other) {
			t.Fatal("an organization's runs are split, though it goes by organization")
		}
		byRun := steering.Canary{Target: c.Target, Percentage: 50, ByRun: true}
		if without := (Request{Organization: fmt.Sprint(i)}); covers(&byRun, &without) != covers(&c, &without) {
			t.Fatal("a request without a run does not go by its organization")
		}
	}
	full, none := steering.Canary{Percentage: 100}, steering.Canary{Percentage: 0}
	for i := range 10_000 {
		if r := (Request{Organization: fmt.Sprint(i)}); !covers(&full, &r) || covers(&none, &r) {
			t.Fatal("100% is not all, or 0% not nobody")
		}
	}
}
