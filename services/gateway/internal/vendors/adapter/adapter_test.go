package adapter

import (
	"net/http"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Every dialect is found by its name, and its adapter can do all that the dialect says.
func TestDialectsKeepTheirWord(t *testing.T) {
	can := map[provider.Operation]func(p provider.Provider) bool{
		provider.OperationChat:       func(p provider.Provider) bool { _, ok := p.(provider.ChatProvider); return ok },
		provider.OperationVision:     func(p provider.Provider) bool { _, ok := p.(provider.ChatProvider); return ok },
		provider.OperationEmbeddings: func(p provider.Provider) bool { _, ok := p.(provider.Embedder); return ok },
		provider.OperationImages:     func(p provider.Provider) bool { _, ok := p.(provider.ImageMaker); return ok },
	}
	for _, relayed := range provider.Operations() {
		if can[relayed] == nil {
			can[relayed] = func(p provider.Provider) bool { _, ok := p.(provider.Relayer); return ok }
		}
	}
	for _, d := range dialects {
		found, ok := Find(d.Name)
		if !ok || found.Name != d.Name || d.Name == "" {
			t.Errorf("Find(%q) = %q, %t", d.Name, found.Name, ok)
		}
		p, err := d.New(provider.Settings{Name: "x", BaseURL: "https://vendor.example/v1", Transport: http.DefaultTransport})
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
			continue
		}
		for _, operation := range provider.Operations() {
			if got := can[operation](p); got != d.Operations.Has(operation) && !relaysOthers(d, operation) {
				t.Errorf("%s: the adapter can do %s is %t, and the dialect says %t", d.Name, operation, got, d.Operations.Has(operation))
			}
		}
	}
	if _, ok := Find("klingon"); ok {
		t.Error("a dialect that is none is found")
	}
}

// Providers of these dialects run batch jobs, of the APIs that the vendor has jobs of, where the setting says so.
func TestDialectsThatRunBatches(t *testing.T) {
	apis := map[string][]string{
		"openai":    {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/moderations", "/v1/responses"},
		"anthropic": {"/v1/messages"},
		"sandbox":   {"/v1/chat/completions", "/v1/embeddings", "/v1/messages"},
	}
	for _, d := range dialects {
		for _, on := range []*bool{nil, new(false), new(true)} {
			p, err := d.New(provider.Settings{Name: "x", BaseURL: "https://vendor.example/v1", Responses: new(true), Batches: on, Transport: http.DefaultTransport})
			if err != nil {
				t.Fatalf("%s: %v", d.Name, err)
			}
			runner, ok := p.(provider.BatchRunner)
			if want := apis[d.Name] != nil; ok != want {
				t.Fatalf("%s: runs batch jobs is %t, want %t", d.Name, ok, want)
			}
			for _, api := range apis[d.Name] {
				if got, want := runner.RunsBatches(api), d.Name == "sandbox" || on != nil && *on; got != want {
					t.Errorf("%s: runs jobs of %s is %t, want %t", d.Name, api, got, want)
				}
			}
		}
	}
}

// relaysOthers reports whether a dialect relays, but not this operation.
func relaysOthers(d provider.Dialect, operation provider.Operation) bool {
	return !provider.Contracted().Has(operation) && !d.Operations.Has(operation) && d.Operations.Has(provider.OperationRerank)
}

func TestNames(t *testing.T) {
	if got, want := Names(), "openai, anthropic, gemini, bedrock, vertex, cohere or sandbox"; got != want {
		t.Errorf("Names() = %q, want %q", got, want)
	}
}
