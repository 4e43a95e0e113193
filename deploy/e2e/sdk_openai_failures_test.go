//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"switchyard.dev/deploy/dev/stack"
)

func wantOpenAIError(t *testing.T, err error, status int, code string) *openai.Error {
	t.Helper()
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		t.Fatalf("%v is not an error of the SDK", err)
	}
	if e.StatusCode != status || e.Code != code {
		t.Errorf("status %d, code %q: %s, want %d %q", e.StatusCode, e.Code, e.RawJSON(), status, code)
	}
	if e.Message == "" || e.Type == "" {
		t.Errorf("message %q, type %q, want both", e.Message, e.Type)
	}
	if e.Response.Header.Get("X-Request-Id") == "" {
		t.Error("the error has no X-Request-Id")
	}
	return e
}

// Failures are the SDK's typed error, and the SDK doesn't retry calls that would fail again.
func TestOpenAISDKErrors(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			ask := func(client openai.Client, model, text string, options ...option.RequestOption) error {
				_, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: model, Messages: userSays(text)}, options...)
				return err
			}
			client := d.openAIClient()
			unknownKey := d
			unknownKey.key = "swy_test_nobody"
			wantOpenAIError(t, ask(unknownKey.openAIClient(), "sandbox", "x"), http.StatusUnauthorized, "invalid_api_key")
			wantOpenAIError(t, ask(client, "no-such-model", "x"), http.StatusNotFound, "model_not_found")
			_, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "sandbox"})
			if e := wantOpenAIError(t, err, http.StatusBadRequest, "invalid_request"); e.Param != "messages" {
				t.Errorf("param %q", e.Param)
			}
			overflow := h.broken(t, object{"status": 400, "body": `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`})
			wantOpenAIError(t, ask(client, sdkOpenAI.model, overflow), http.StatusBadRequest, "context_length_exceeded")

			alone := option.WithHeader("X-Switchyard-Allow-Substitution", "false")
			failing := h.broken(t, object{"status": 401})
			wantOpenAIError(t, ask(client, sdkRefusing["openai "+d.name].model, failing, alone), http.StatusBadGateway, "provider_failed")
			if n := h.callsWith(t, failing); n != 1 {
				t.Errorf("%d calls for a failure that no retry can mend, want 1", n)
			}
		})
	}
}

// callsWith returns how many calls to the fake provider hold a text.
func (h *harness) callsWith(t *testing.T, text string) (n int) {
	t.Helper()
	var report struct {
		Last []vendorCall `json:"last"`
	}
	h.fake(stack.FakeProvider).get(t, "/_calls").into(t, http.StatusOK, &report)
	for _, call := range report.Last {
		if strings.Contains(call.Body, text) {
			n++
		}
	}
	return n
}

// A stream that breaks off ends in an error, never in a whole answer.
func TestOpenAISDKBrokenStream(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		for model, after := range breaking("openai") {
			t.Run(d.name+" "+model, func(t *testing.T) {
				question, client := h.broken(t, object{"error_after_chunks": after}), d.openAIClient()
				stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: model, Messages: userSays(question + " a b c d e f")})
				var text strings.Builder
				for stream.Next() {
					for _, choice := range stream.Current().Choices {
						text.WriteString(choice.Delta.Content)
					}
				}
				if err := stream.Err(); err == nil || text.Len() == 0 || !strings.Contains(err.Error(), "stream_interrupted") {
					t.Errorf("text %q, error %v", text.String(), err)
				}
			})
		}
	}
}

// A client that cancels a stream ends the call to the vendor.
func TestOpenAISDKCancels(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			text := unique("leave")
			call := hangingServer.expect(text)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client := d.openAIClient()
			stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: hangingProvider.model, Messages: userSays(text)})
			if !stream.Next() {
				t.Fatalf("no chunk: %v", stream.Err())
			}
			cancel()
			select {
			case <-call.gone:
			case <-t.Context().Done():
				t.Error("the call to the vendor goes on")
			}
			_ = stream.Close()
		})
	}
}

// Fields that only the vendor knows reach it unchanged. A provider of another dialect doesn't get them, and the answer
// names them as ignored.
func TestOpenAISDKUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			question := unique("question")
			client := d.openAIClient()
			extra := option.WithJSONSet("brand_new_field", map[string]any{"x": "1e400"})
			ours := option.WithJSONSet("switchyard", map[string]any{"optimization_goal": "cost", "metadata": map[string]string{"team": "a"}})
			_, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: sdkOpenAI.model, Messages: userSays(question)}, extra, ours)
			if err != nil {
				t.Fatal(err)
			}
			calls := h.vendorCalls(t, vendor{model: sdkOpenAI.upstream, dialect: "openai"})
			i := slices.IndexFunc(calls, func(c vendorCall) bool { return strings.Contains(c.Body, question) })
			if i < 0 || !strings.Contains(calls[i].Body, `"brand_new_field":{"x":"1e400"}`) || strings.Contains(calls[i].Body, "switchyard") {
				t.Errorf("what reached the vendor: %+v", calls)
			}
			var response *http.Response
			_, err = client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "sandbox", Messages: userSays(question)}, extra, option.WithResponseInto(&response))
			if err != nil || response.Header.Get("X-Switchyard-Ignored") != "brand_new_field" {
				t.Errorf("across dialects: %v, ignored %q", err, response.Header.Get("X-Switchyard-Ignored"))
			}
		})
	}
}
