package rerank_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/rerank"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestRead(t *testing.T) {
	body := `{"model":"m","query":"which","documents":["one",{"text":"two"}],"top_n":1}`
	call, err := rerank.Cohere(dialect.Source{Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	want := &dialect.Call{Model: "m", Relay: provider.Relay{
		Operation: provider.OperationRerank, API: "cohere", Path: "/rerank", Body: []byte(body),
		Estimate: provider.Usage{Input: 9, Searches: 1},
		Most:     provider.Usage{Input: 65, Searches: 1},
	}}
	if diff := cmp.Diff(want, call); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if call, err = rerank.Jina(dialect.Source{Body: []byte(body)}); err != nil || call.Relay.API != "openai" {
		t.Errorf("a call of Jina's form is of the API %q, err %v; want openai", call.Relay.API, err)
	}
}

func TestReadGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"query":"a","documents":`, growth.ValidJSON, "}"), growth.Around(`{"documents":["a"],"query":`, growth.ValidJSON, "}")...)
	inputs = append(inputs, growth.Repeat("documents", `{"query":"a","documents":["a"`, `,"a"`, "]}"))
	growth.Linear(t, growth.Each(inputs, func(body []byte) { _, _ = rerank.Jina(dialect.Source{Body: body}) })...)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"query":"a","documents":["a"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := rerank.Jina(dialect.Source{Body: body}); err != nil && apierr.From(err).Kind != apierr.KindInvalid {
			t.Errorf("%v is not an error of the caller", err)
		}
	})
}
