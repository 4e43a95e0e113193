package inference

import (
	"testing"

	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// hosts is a plan of candidates; those from substitutes on stand in for what was asked for.
type hosts struct {
	requested   string
	targets     []provider.Target
	substitutes int
}

func (h hosts) Plan(routing.Request) (routing.Plan, error) {
	out := routing.Plan{Requested: h.requested}
	for i, target := range h.targets {
		out.Candidates = append(out.Candidates, routing.Candidate{Target: target, Upstream: target.Model, Substitute: i >= h.substitutes})
	}
	return out, nil
}

// requested_provider and substituted, word by word as the contract has them: "provider the caller asked for; absent
// when there is no substitution risk", "true when a different provider served than was requested".
func TestRequestedAndSubstituted(t *testing.T) {
	a, b, other := provider.Target{Provider: "a", Model: "m"}, provider.Target{Provider: "b", Model: "m"}, provider.Target{Provider: "b", Model: "n"}
	down := failing(apierr.ClassServerError, 500)
	cases := []struct {
		name        string
		plan        hosts
		missing     []string
		down, fixed bool // a fails; no substitution is allowed
		requested   string
		substituted bool
		served      string
	}{
		{name: "one host of what was asked for", plan: hosts{"a", []provider.Target{a}, 1}, served: "a"},
		{name: "no substitution is allowed", plan: hosts{"a", []provider.Target{a, b}, 2}, fixed: true, served: "a"},
		{name: "it served, another might have", plan: hosts{"a", []provider.Target{a, other}, 1}, requested: "a", served: "a"},
		{name: "another model of another provider served", plan: hosts{"a", []provider.Target{a, other}, 1}, down: true, requested: "a", substituted: true, served: "b"},
		{name: "another host of the model served", plan: hosts{"a", []provider.Target{a, b}, 1}, down: true, requested: "a", substituted: true, served: "b"},
		{name: "the provider that was named has no key", plan: hosts{"a", []provider.Target{a, b}, 1}, missing: []string{"a"}, requested: "a", substituted: true, served: "b"},
		{name: "a bare model, its best host has no key", plan: hosts{"a", []provider.Target{a, b}, 2}, missing: []string{"a"}, served: "b"},
		{name: "the same without substitution", plan: hosts{"a", []provider.Target{a, b}, 2}, missing: []string{"a"}, fixed: true, served: "b"},
		{name: "a bare model, its best host fails", plan: hosts{"a", []provider.Target{a, b}, 2}, down: true, requested: "a", substituted: true, served: "b"},
		{name: "nothing was asked for", plan: hosts{"", []provider.Target{a, b}, 2}, down: true, served: "b"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			first := &script{name: "a", answer: good}
			if c.down {
				first.steps = down
			}
			bench := setup(t, c.missing, first, &script{name: "b", answer: good})
			fleet := *bench.Fleet()
			fleet.Planner = c.plan
			bench.Fleet = func() *Fleet { return &fleet }
			r := request()
			r.Route.Substitution = !c.fixed
			got, err := bench.Chat(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if u := got.Report; u.RequestedProvider != c.requested || u.Substituted != c.substituted || u.Provider != c.served {
				t.Errorf("requested %q, substituted %v, served by %q; want %q, %v, %q", u.RequestedProvider, u.Substituted, u.Provider, c.requested, c.substituted, c.served)
			}
			if row := bench.ledger.entries[0]; row.Substituted != c.substituted || row.Provider != c.served {
				t.Errorf("row %+v", row)
			}
		})
	}
}
