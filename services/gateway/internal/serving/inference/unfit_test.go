package inference

import (
	"testing"

	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// excluding is a plan of candidates without a key, and of excluded ones.
type excluding struct {
	requested  string
	substitute bool
	excluded   []routing.Exclusion
}

func (e excluding) Plan(routing.Request) (routing.Plan, error) {
	keyless := at("a", "a-1")
	keyless.Substitute = e.substitute
	return routing.Plan{Requested: e.requested, Candidates: []routing.Candidate{keyless}, Excluded: e.excluded}, nil
}

// Where no candidate remains, the error is about what was asked for: its key is missing, or it can't serve such a
// request, whatever keys its substitutes lack.
func TestErrorWithoutCandidates(t *testing.T) {
	unfit := routing.Exclusion{Target: provider.Target{Provider: "b", Model: "b-1"}, Lack: routing.LackTools}
	keyless := routing.Exclusion{Target: provider.Target{Provider: "a", Model: "a-2"}, Lack: routing.LackTools}
	for _, c := range []struct {
		name  string
		plan  excluding
		unfit bool
	}{
		{"what was asked for can't do it", excluding{"b", true, []routing.Exclusion{keyless, unfit}}, true},
		{"nothing was asked for", excluding{"", false, []routing.Exclusion{unfit}}, true},
		{"what was asked for has no key", excluding{"a", false, []routing.Exclusion{unfit}}, false},
		{"what can't do it has no key either", excluding{"a", true, []routing.Exclusion{keyless}}, false},
		{"nobody else", excluding{"a", false, nil}, false},
	} {
		b := setup(t, []string{"a"}, &script{name: "a", answer: good}, &script{name: "b", answer: good})
		b.Fleet().Planner = c.plan
		_, err := b.Chat(t.Context(), request())
		if !c.unfit {
			refused(t, err, 503, ReasonMissingKeys, apierr.ClassAuth)
			continue
		}
		if e := refused(t, err, 400, routing.ReasonCapabilityUnsupported, apierr.ClassPolicy); e.Text != "no candidate can do what was asked for: b/b-1 (tools)" {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}
