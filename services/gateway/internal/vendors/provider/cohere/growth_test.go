package cohere_test

import (
	"net/http"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/cohere"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestAnswerGrowsLinearly(t *testing.T) {
	providertest.Hostile{
		New: func(vendor http.RoundTripper) (provider.Provider, error) {
			return cohere.New(provider.Settings{Name: "cohere", BaseURL: "http://vendor.example", Transport: vendor})
		},
		Answers: append(growth.Around(`{"embeddings":{"float":`, growth.ValidJSON, "}}"),
			growth.Repeat("vectors", `{"embeddings":{"float":[[1]`, ",[1]", "]}}"), growth.Repeat("numbers", `{"embeddings":{"float":[[1`, ",0.5", "],[1]]}}")),
		Errors: growth.Around(`{"message":`, growth.ValidJSON, "}"),
	}.RunAnswersGrowth(t)
}
