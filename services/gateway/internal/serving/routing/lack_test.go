package routing

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// A model that can't serve the request is excluded before the ranking, and the plan lists it.
func TestCapabilities(t *testing.T) {
	cases := []struct {
		name     string
		request  Request
		want     string
		excluded string
	}{
		{"nothing special", Request{Model: "small"}, "one/small ~two/wise ~one/big ~three/flash", ""},
		{"tools", Request{Model: "small", Needs: Needs{Tools: true}}, "~two/wise ~one/big", "one/small (tools) three/flash (tools)"},
		{"calls of one turn", Request{Model: "small", Needs: Needs{ParallelTools: true}}, "~two/wise ~one/big", "one/small (parallel_tools) three/flash (parallel_tools)"},
		{"an image", Request{Model: "small", Needs: Needs{Vision: true}}, "~two/wise ~one/big", "one/small (operation)"},
		{"an object", Request{Model: "wise", Needs: Needs{JSON: true}}, "~one/big", "two/wise (json_object) three/flash (json_object)"},
		{"a schema", Request{Model: "small", Needs: Needs{JSONSchema: true}}, "~two/wise ~one/big", "one/small (json_schema) three/flash (json_schema)"},
		{"a long input", Request{Model: "small", Needs: Needs{Context: 120_000}}, "~two/wise ~one/big ~three/flash", "one/small (context: at most 8000)"},
		{"a long input that one has in a shorter form", Request{Model: "small", Needs: Needs{Context: 120_000, Form: "openai", Compacted: Compacted{"one", 119_000}}}, "one/small ~two/wise ~one/big ~three/flash", ""},
		{"a long input that another has in a shorter form", Request{Model: "small", Needs: Needs{Context: 120_000, Form: "openai", Compacted: Compacted{"two", 119_000}}}, "~two/wise ~one/big ~three/flash", "one/small (context: at most 8000)"},
		{"an input that may just fit", Request{Model: "small", Needs: Needs{Context: 9_000}}, "one/small ~two/wise ~one/big ~three/flash", ""},
		{"too long but for one", Request{Model: "small", Needs: Needs{Context: 300_000}}, "~three/flash", "one/small (context: at most 8000) one/big (context: at most 100000) two/wise (context: at most 150000)"},
		{"a long answer", Request{Model: "small", Needs: Needs{Output: 9_000}}, "~two/wise ~three/flash", "one/small (max_tokens: at most 2000) one/big (max_tokens: at most 8000)"},
		{"input and answer together", Request{Model: "small", Needs: Needs{Context: 10_500, Output: 1_500}}, "~two/wise ~one/big ~three/flash", "one/small (context: at most 8000)"},
		{"a body of a dialect", Request{Model: "small", Needs: Needs{Dialect: "anthropic"}}, "~two/wise", "one/small (dialect) one/big (dialect) three/flash (dialect)"},
		{"vectors", Request{Operation: provider.OperationEmbeddings, Needs: Needs{Dimensions: 256}}, "one/vectors four/embed", ""},
		{"a length of vectors that one has", Request{Operation: provider.OperationEmbeddings, Needs: Needs{Dimensions: 300}}, "one/vectors", "four/embed (dimensions)"},
		{"tokens: nobody but the model that was named", Request{Operation: provider.OperationEmbeddings, Model: "one/vectors", Needs: Needs{Tokens: 8000}}, "one/vectors", "four/embed (vocabulary)"},
		{"tokens: any model of a server without a list", Request{Operation: provider.OperationEmbeddings, Model: "any/x", Needs: Needs{Tokens: 1}}, "any/x", "four/embed (vocabulary)"},
		{"images", Request{Operation: provider.OperationImages}, "three/paint three/easel", ""},
		{"a size of images that one has", Request{Operation: provider.OperationImages, Needs: Needs{Size: "512x512"}}, "three/easel", "three/paint (size)"},
		{"the size that is left to it", Request{Operation: provider.OperationImages, Needs: Needs{Size: "auto"}}, "three/paint three/easel", ""},
		{"what is not known passes", Request{Model: "any/thing", Needs: Needs{Tools: true, Vision: true, JSON: true, Context: 1e9}}, "any/thing", "one/big (context: at most 100000) two/wise (json_object)"},
	}
	p := policytest.Parse(t, policytest.Wide)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.request.Substitution = true
			plan, err := NewPlan(p, c.request, State{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want, c.excluded}, []string{names(plan), left(plan)}); diff != "" {
				t.Errorf("candidates and excluded (-want +got):\n%s", diff)
			}
		})
	}
}

// Where no candidate can serve the request, the error says what none of them can do.
func TestNobodyCan(t *testing.T) {
	cases := []struct {
		name    string
		request Request
		reason  apierr.Reason
		class   apierr.Class
		text    string
	}{
		{"the one that was asked for", Request{Model: "small", Needs: Needs{Tools: true}}, ReasonCapabilityUnsupported, apierr.ClassPolicy, "one/small (tools)"},
		{
			"all",
			Request{Model: "small", Substitution: true, Needs: Needs{Output: 1_000_000, Tools: true}},
			ReasonCapabilityUnsupported, apierr.ClassPolicy,
			"one/small (tools), one/big (max_tokens: at most 8000), two/wise (max_tokens: at most 64000), three/flash (tools)",
		},
		{"too long", Request{Model: "small", Needs: Needs{Context: 1_000_000}}, ReasonContextOverflow, apierr.ClassContextOverflow, "one/small (context: at most 8000)"},
		{
			"more tokens than it reads, one too many",
			Request{Operation: provider.OperationEmbeddings, Model: "one/vectors", Substitution: true, Needs: Needs{Tokens: 8001}},
			ReasonContextOverflow, apierr.ClassContextOverflow, "input: too long for every candidate: one/vectors (context: at most 8000), four/embed (vocabulary)",
		},
		{
			"tokens, and a dialect of texts",
			Request{Operation: provider.OperationEmbeddings, Model: "four/embed", Substitution: true, Needs: Needs{Tokens: 1}},
			ReasonCapabilityUnsupported, apierr.ClassPolicy, "input: only the model that was named can read these tokens, and no provider of it takes token input; send texts: four/embed (token_input)",
		},
		{
			"tokens, and a length of vectors that it has not",
			Request{Operation: provider.OperationEmbeddings, Model: "one/vectors", Substitution: true, Needs: Needs{Tokens: 1, Dimensions: 9999}},
			ReasonCapabilityUnsupported, apierr.ClassPolicy, "no candidate can do what was asked for: one/vectors (dimensions: at most 1024)",
		},
		{"tokens of no model", Request{Operation: provider.OperationEmbeddings, Needs: Needs{Tokens: 1}}, apierr.ReasonInvalidRequest, apierr.ClassPolicy, "model: is required if the input is tokens"},
		{
			"tokens of a provider's default",
			Request{Operation: provider.OperationEmbeddings, Model: policy.DefaultModel, Provider: "one", Needs: Needs{Tokens: 1}},
			apierr.ReasonInvalidRequest, apierr.ClassPolicy, "model: is required if the input is tokens",
		},
		{"a long prompt of images", Request{Operation: provider.OperationImages, Model: "big", Needs: Needs{Context: 1_000_000}}, ReasonCapabilityUnsupported, apierr.ClassPolicy, "one/big (operation)"},
		{
			"a field of one dialect",
			Request{Model: "one/small", Needs: Needs{Dialect: "anthropic", DialectField: "top_k"}},
			ReasonCapabilityUnsupported, apierr.ClassPolicy,
			"top_k: only providers of the anthropic dialect can carry it: one/small (dialect)",
		},
		{"another operation", Request{Model: "one/vectors"}, ReasonCapabilityUnsupported, apierr.ClassPolicy, "one/vectors (operation)"},
		{"a dialect that has no such operation", Request{Model: "four/embed"}, ReasonCapabilityUnsupported, apierr.ClassPolicy, "four/embed (operation)"},
	}
	p := policytest.Parse(t, policytest.Wide)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewPlan(p, c.request, State{})
			checkRefusal(t, err, refusal{apierr.KindInvalid, c.reason, c.class}, c.text)
		})
	}
	if _, err := NewPlan(p, Request{Operation: "song"}, State{}); apierr.From(err).Kind != apierr.KindInternal {
		t.Errorf("an operation that there is not: %v", err)
	}
}
