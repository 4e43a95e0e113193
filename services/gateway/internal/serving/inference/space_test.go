package inference

import (
	"testing"

	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Vectors of another host of the same model are in the same space, whatever the host calls the model; those of another
// model are not, even under the same name.
func TestSpaceOfVectors(t *testing.T) {
	candidateOf := func(model, identity string, substitute bool) routing.Candidate {
		return routing.Candidate{Target: provider.Target{Provider: "p", Model: model}, Identity: identity, Substitute: substitute}
	}
	asked := candidateOf("embed-v4.0", "embed-v4", false)
	for _, c := range []struct {
		name    string
		served  routing.Candidate
		another bool
	}{
		{"itself", asked, false},
		{"another name of the model", candidateOf("cohere.embed-v4:0", "embed-v4", false), false},
		{"the same name without an identity", candidateOf("embed-v4.0", "", false), false},
		{"the same name of another model", candidateOf("embed-v4.0", "embed-english-v3", false), true},
		{"another model", candidateOf("vectors", "", false), true},
		{"a substitute", candidateOf("vectors", "", true), true},
	} {
		s := selection{plan: routing.Plan{Candidates: []routing.Candidate{asked, c.served}}}
		if got := s.anotherSpace(provider.OperationEmbeddings, &candidate{Candidate: c.served}); got != c.another {
			t.Errorf("%s: another space is %t, want %t", c.name, got, c.another)
		}
		if s.anotherSpace(provider.OperationChat, &candidate{Candidate: c.served}) {
			t.Errorf("%s: a chat has no space", c.name)
		}
	}
}
