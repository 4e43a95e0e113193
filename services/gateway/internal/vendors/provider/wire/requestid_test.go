package wire_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

// The vendor's own ID of a call is read from the header that its support asks for, with any status; an ID that can't be
// shown is ignored.
func TestPostNotesTheVendorsID(t *testing.T) {
	const key = "sk-canary-5f0c"
	long := strings.Repeat("x", 129)
	for name, tt := range map[string]struct {
		header http.Header
		want   string
	}{
		"none":                   {http.Header{}, ""},
		"OpenAI":                 {http.Header{"X-Request-Id": {"req_1"}}, "req_1"},
		"Anthropic":              {http.Header{"Request-Id": {"req_011C"}}, "req_011C"},
		"Azure":                  {http.Header{"Apim-Request-Id": {"apim"}, "X-Ms-Request-Id": {"ms"}, "X-Request-Id": {"x"}}, "apim"},
		"Azure's storage":        {http.Header{"X-Ms-Request-Id": {"ms"}}, "ms"},
		"the longest":            {http.Header{"X-Request-Id": {long[1:]}}, long[1:]},
		"too long":               {http.Header{"X-Request-Id": {long}}, ""},
		"too long, and another":  {http.Header{"Request-Id": {long}, "X-Request-Id": {"req_2"}}, "req_2"},
		"with a space":           {http.Header{"X-Request-Id": {"req 1"}}, ""},
		"beyond ASCII":           {http.Header{"X-Request-Id": {"réq"}}, ""},
		"the key":                {http.Header{"X-Request-Id": {"id-" + key}}, ""},
		"the key, and a real id": {http.Header{"Request-Id": {key}, "X-Request-Id": {"req_3"}}, "req_3"},
	} {
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), tt.header)
				w.WriteHeader(status)
			}))
			var receipt provider.Receipt
			ctx := provider.WithReceipt(t.Context(), &receipt)
			response, err := caller(status).With(provider.Credential{Key: secret.New(key)}).Post(ctx, at(t, server.URL), http.Header{}, nil)
			if err == nil {
				_ = response.Body.Close()
			}
			if receipt.ID() != tt.want {
				t.Errorf("%s, status %d: %q, want %q", name, status, receipt.ID(), tt.want)
			}
			server.Close()
		}
	}
}

// A receipt is optional, and of several calls the first one's ID stays.
func TestReceipt(t *testing.T) {
	provider.ReceiptOf(t.Context()).SetID("lost")
	if id := provider.ReceiptOf(t.Context()).ID(); id != "" {
		t.Errorf("an id without a call: %q", id)
	}
	var receipt provider.Receipt
	for _, id := range []string{"", "first", "second"} {
		provider.ReceiptOf(provider.WithReceipt(t.Context(), &receipt)).SetID(id)
	}
	if receipt.ID() != "first" {
		t.Errorf("%q", receipt.ID())
	}
}
