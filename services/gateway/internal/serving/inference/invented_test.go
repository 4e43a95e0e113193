package inference

import (
	"context"
	"fmt"
	"testing"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// anything is a provider that accepts every name, for every operation.
type anything struct{ streaming }

func (a anything) Embed(_ context.Context, _ provider.Credential, r *provider.Embedding) (*provider.Vectors, error) {
	return &provider.Vectors{Vectors: make2(r.Len())}, nil
}

func (a anything) MakeImages(context.Context, provider.Credential, *provider.ImageRequest) (*provider.Images, error) {
	return &provider.Images{Images: []provider.Image{{URL: "https://images.example/1.png"}}}, nil
}

func make2(n int) [][]float32 {
	vectors := make([][]float32, n)
	for i := range vectors {
		vectors[i] = []float32{1, 2}
	}
	return vectors
}

// asNamed plans the model that the request names, which no policy lists.
type asNamed struct{}

func (asNamed) Plan(r routing.Request) (routing.Plan, error) {
	return routing.Plan{Candidates: []routing.Candidate{{
		Target: provider.Target{Provider: "a", Model: r.Model}, Upstream: r.Model, Unlisted: r.Model != "a-1",
	}}}, nil
}

// Callers who invent names, at a vendor that serves them all, use up neither the labels of metrics nor the places of
// models that the policy lists.
func TestInventedNamesUseNothingUp(t *testing.T) {
	s := &script{name: "a", answer: good, steps: nil}
	b := setup(t, nil, s)
	fleet := *b.Fleet()
	fleet.Planner = asNamed{}
	fleet.Providers = map[string]provider.Provider{"a": anything{streaming{s}}}
	b.Fleet = func() *Fleet { return &fleet }
	b.Ledger = &forgetful{}
	operations := []provider.Operation{
		provider.OperationChat, provider.OperationVision, provider.OperationEmbeddings, provider.OperationImages,
	}
	serve := func(operation provider.Operation, model string) (err error) {
		r := request()
		r.Route.Operation, r.Route.Model = operation, model
		switch operation {
		case provider.OperationEmbeddings:
			r.Embedding = provider.Embedding{Input: []string{"x"}}
			_, err = b.Embed(t.Context(), r)
		case provider.OperationImages:
			r.ImageRequest = provider.ImageRequest{Prompt: "x", Count: 1}
			_, err = b.MakeImages(t.Context(), r)
		default:
			_, err = b.Chat(t.Context(), r)
		}
		return err
	}
	const names = 10_000
	for i := range names {
		if err := serve(operations[i%len(operations)], fmt.Sprintf("made-up-%dx", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := serve(provider.OperationChat, "a-1"); err != nil {
		t.Fatal(err)
	}
	models := map[string]bool{}
	for l := range b.metrics.calls.series {
		models[l.model] = true
	}
	if n := len(models); n > 100 {
		t.Errorf("%d labels of models after %d names", n, names)
	}
	if !models["a-1"] {
		t.Error("the model that the policy lists has no label")
	}
	if n := len(b.Health.Figures()); n > 100 {
		t.Errorf("%d targets after %d names", n, names)
	}
	if n := len(b.Health.Snapshot()); n > 100 {
		t.Errorf("%d circuits after %d names", n, names)
	}
	for _, c := range []*counter{b.metrics.requests, b.metrics.attempts, b.metrics.tokens, b.metrics.failures} {
		if n := len(c.of); n > 20 {
			t.Errorf("a counter has %d sets of labels", n)
		}
	}
}

// forgetful is a ledger that keeps no entry.
type forgetful struct{ memoryLedger }

func (*forgetful) Commit(context.Context, ledger.Entry) error { return nil }
