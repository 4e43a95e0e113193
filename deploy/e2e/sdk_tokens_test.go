//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"

	"switchyard.dev/deploy/dev/stack"
)

// refusesTokens is a vendor whose dialect can't carry token arrays.
var refusesTokens = addVendor(vendor{name: "texts-only", dialect: "gemini", model: "texts-only"})

// Inputs that are token arrays, as LangChain's OpenAIEmbeddings sends them: the vectors depend on the tokens alone,
// whether the input is one array or several, and exactly the tokens are billed.
func TestOpenAISDKTokens(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		for _, model := range []string{embedding.model, "sandbox"} {
			t.Run(d.name+" "+model, func(t *testing.T) {
				client := d.openAIClient()
				made := func(params openai.EmbeddingNewParams, tokens int64) []openai.Embedding {
					t.Helper()
					params.Model = model
					params.Dimensions = openai.Int(8)
					got, err := client.Embeddings.New(t.Context(), params)
					if err != nil {
						t.Fatal(err)
					}
					if got.Model != model || got.Usage.PromptTokens != tokens || got.Usage.TotalTokens != tokens {
						t.Errorf("%s, want %d tokens", got.RawJSON(), tokens)
					}
					return got.Data
				}
				type input = openai.EmbeddingNewParamsInputUnion
				one := made(openai.EmbeddingNewParams{Input: input{OfArrayOfTokens: []int64{1, 100257, 3}}}, 3)
				several := made(openai.EmbeddingNewParams{Input: input{OfArrayOfTokenArrays: [][]int64{{7}, {1, 100257, 3}}}}, 4)
				if len(one) != 1 || len(several) != 2 || len(one[0].Embedding) != 8 {
					t.Fatalf("%d and %d vectors", len(one), len(several))
				}
				if diff := cmp.Diff(one[0].Embedding, several[1].Embedding); diff != "" || cmp.Equal(one[0].Embedding, several[0].Embedding) {
					t.Errorf("the same tokens, and others: %s", diff)
				}
			})
		}
		t.Run(d.name+" not supported", func(t *testing.T) {
			client := d.openAIClient()
			_, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
				Model: refusesTokens.model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfTokens: []int64{1}},
			})
			if e := wantOpenAIError(t, err, http.StatusBadRequest, "capability_unsupported"); e.Param != "input" {
				t.Errorf("param %q: %s", e.Param, e.RawJSON())
			}
			if calls := h.vendorCalls(t, refusesTokens); len(calls) != 0 {
				t.Errorf("the vendor got %+v", calls)
			}
		})
	}
}

// Embedded token arrays are in the usage feed with their number of tokens.
func TestTokensAreBilled(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	service := h.service(stack.Gateway, organization)
	service.post(t, embeddingsPath, object{"model": "sandbox", "input": [][]int{{1, 2, 3}, {4}}}).into(t, http.StatusOK, new(vectors))
	var feed struct {
		Records []struct {
			Operation  string `json:"operation"`
			Tokens     int    `json:"input_tokens"`
			UsageState string `json:"usage_state"`
		} `json:"records"`
	}
	waitFor(t, waitTimeout, "the ledger row, which open transactions delay", func() error {
		if service.get(t, "/v1/usage").into(t, http.StatusOK, &feed); len(feed.Records) != 1 {
			return fmt.Errorf("%d records, want 1", len(feed.Records))
		}
		return nil
	})
	want := feed.Records[0]
	want.Operation, want.Tokens, want.UsageState = "embeddings", 4, "reported"
	same(t, want, feed.Records[0])
}
