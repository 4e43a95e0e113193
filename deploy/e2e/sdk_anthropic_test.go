//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
)

func (d sdkEndpoint) anthropicClient() anthropic.Client {
	options := []option.RequestOption{option.WithBaseURL(d.anthropic), option.WithAPIKey(d.key)}
	if d.organization != "" {
		options = append(options, option.WithHeader("X-Organization-Id", d.organization))
	}
	return anthropic.NewClient(options...)
}

// eachAnthropic runs a test at each endpoint with a model of each dialect.
func eachAnthropic(t *testing.T, test func(t *testing.T, h *harness, client anthropic.Client, model string)) {
	t.Helper()
	eachEndpoint(t, sdkEndpoint.anthropicClient, sdkModels, test)
}

func message(model, text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: model, MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

func TestAnthropicSDKMessage(t *testing.T) {
	eachAnthropic(t, func(t *testing.T, _ *harness, client anthropic.Client, model string) {
		t.Helper()
		var response *http.Response
		params := message(model, "hello")
		params.System = []anthropic.TextBlockParam{{Text: "be kind"}}
		got, err := client.Messages.New(t.Context(), params, option.WithResponseInto(&response))
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Content) != 1 || !strings.HasSuffix(got.Content[0].Text, "hello") {
			t.Errorf("content: %s", got.RawJSON())
		}
		if got.StopReason != anthropic.StopReasonEndTurn || got.Model != model {
			t.Errorf("%s stops with %s, want %s with end_turn", got.Model, got.StopReason, model)
		}
		if got.ID == "" || got.Usage.InputTokens < 1 || got.Usage.OutputTokens < 1 {
			t.Errorf("id or usage is missing: %s", got.RawJSON())
		}
		for _, name := range []string{"Request-Id", "X-Switchyard-Provider", "X-Switchyard-Cost-Cents"} {
			if response.Header.Get(name) == "" {
				t.Errorf("no %s", name)
			}
		}
	})
}

// accumulate reads a stream with the SDK's own accumulator.
func accumulate(t *testing.T, client anthropic.Client, params anthropic.MessageNewParams) anthropic.Message {
	t.Helper()
	stream := client.Messages.NewStreaming(t.Context(), params)
	var whole anthropic.Message
	for stream.Next() {
		if err := whole.Accumulate(stream.Current()); err != nil {
			t.Fatalf("accumulate: %v: %s", err, stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return whole
}

func TestAnthropicSDKStream(t *testing.T) {
	eachAnthropic(t, func(t *testing.T, _ *harness, client anthropic.Client, model string) {
		t.Helper()
		whole := accumulate(t, client, message(model, "one two three"))
		if len(whole.Content) != 1 || !strings.HasSuffix(whole.Content[0].Text, "one two three") {
			t.Errorf("content: %+v", whole.Content)
		}
		if whole.StopReason != anthropic.StopReasonEndTurn || whole.Model != model {
			t.Errorf("%s stops with %s, want %s with end_turn", whole.Model, whole.StopReason, model)
		}
		if whole.Usage.InputTokens < 1 || whole.Usage.OutputTokens < 1 {
			t.Errorf("usage %+v", whole.Usage)
		}
	})
}

// Parallel tool calls, whole and streamed, and the next turn with their results.
func TestAnthropicSDKTools(t *testing.T) {
	eachEndpoint(t, sdkEndpoint.anthropicClient, scriptable, func(t *testing.T, h *harness, client anthropic.Client, model string) {
		t.Helper()
		params := message(model, h.scripted(t, twoCalls))
		params.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
			Properties: weatherSchema["properties"], Required: []string{"city"},
		}, "weather")}
		whole, err := client.Messages.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]anthropic.Message{"whole": *whole, "streamed": accumulate(t, client, params)} {
			var inputs []string
			for _, block := range got.Content {
				if block.Type == "tool_use" {
					if block.ID == "" || block.Name != "weather" {
						t.Errorf("%s: tool call %+v", name, block)
					}
					inputs = append(inputs, string(block.Input))
				}
			}
			if diff := cmp.Diff([]string{`{"city":"Paris"}`, `{"city":"Rome"}`}, inputs); diff != "" || got.StopReason != anthropic.StopReasonToolUse || got.Content[0].Text != "I look." {
				t.Errorf("%s: %+v; inputs (-want +got):\n%s", name, got, diff)
			}
		}
		params.Messages = slices.Concat(message(model, "what now").Messages, []anthropic.MessageParam{whole.ToParam(), anthropic.NewUserMessage(
			anthropic.NewToolResultBlock(whole.Content[1].ID, "sunny", false), anthropic.NewToolResultBlock(whole.Content[2].ID, "rain", false))})
		second, err := client.Messages.New(t.Context(), params)
		if err != nil || !strings.Contains(second.Content[0].Text, "rain") {
			t.Errorf("the second turn: %v, %v", second, err)
		}
	})
}

func TestAnthropicSDKStructuredOutput(t *testing.T) {
	eachAnthropic(t, func(t *testing.T, h *harness, client anthropic.Client, model string) {
		t.Helper()
		params := message(model, h.scripted(t, object{"text": `{"city":"Paris"}`}))
		params.OutputConfig = anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: weatherSchema}}
		got, err := client.Messages.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		var place struct{ City *string }
		if err := json.Unmarshal([]byte(got.Content[0].Text), &place); err != nil || place.City == nil {
			t.Errorf("content %q doesn't fit the schema: %v", got.Content[0].Text, err)
		}
	})
}

func TestAnthropicSDKModelsAndCounts(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			client := d.anthropicClient()
			page, err := client.Models.List(t.Context(), anthropic.ModelListParams{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(page.Data, func(m anthropic.ModelInfo) bool { return m.ID == sdkAnthropic.model }) {
				t.Errorf("the models lack one: %s", page.RawJSON())
			}
			if m, err := client.Models.Get(t.Context(), sdkAnthropic.model, anthropic.ModelGetParams{}); err != nil || m.ID != sdkAnthropic.model {
				t.Errorf("model %+v, error %v", m, err)
			}
			_, err = client.Models.Get(t.Context(), "no-such-model", anthropic.ModelGetParams{})
			wantAnthropicError(t, err, http.StatusNotFound, anthropic.ErrorTypeNotFoundError)
			count, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
				Model: sdkAnthropic.model, Messages: message("", "eight bytes and so on").Messages,
			})
			if err != nil || count.InputTokens != 6 || !strings.Contains(count.RawJSON(), `"estimated":true`) {
				t.Errorf("count %v, error %v", count, err)
			}
		})
	}
}

func wantAnthropicError(t *testing.T, err error, status int, kind anthropic.ErrorType) *anthropic.Error {
	t.Helper()
	e, ok := errors.AsType[*anthropic.Error](err)
	if !ok {
		t.Fatalf("%v is not an error of the SDK", err)
	}
	if e.StatusCode != status || e.Type() != kind || e.RequestID == "" {
		t.Errorf("status %d, type %q, id %q: %s, want %d %q", e.StatusCode, e.Type(), e.RequestID, e.RawJSON(), status, kind)
	}
	return e
}

// Failures are the SDK's typed error, and the SDK doesn't retry calls that would fail again.
func TestAnthropicSDKErrors(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			ask := func(client anthropic.Client, model, text string, options ...option.RequestOption) error {
				_, err := client.Messages.New(t.Context(), message(model, text), options...)
				return err
			}
			client := d.anthropicClient()
			unknownKey := d
			unknownKey.key = "swy_test_nobody"
			wantAnthropicError(t, ask(unknownKey.anthropicClient(), "sandbox", "x"), http.StatusUnauthorized, anthropic.ErrorTypeAuthenticationError)
			wantAnthropicError(t, ask(client, "no-such-model", "x"), http.StatusNotFound, anthropic.ErrorTypeNotFoundError)
			_, err := client.Messages.New(t.Context(), anthropic.MessageNewParams{Model: "sandbox", MaxTokens: 5})
			wantAnthropicError(t, err, http.StatusBadRequest, anthropic.ErrorTypeInvalidRequestError)
			overflow := h.broken(t, object{"status": 400, "body": `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`})
			if e := wantAnthropicError(t, ask(client, sdkOpenAI.model, overflow), http.StatusBadRequest, anthropic.ErrorTypeInvalidRequestError); !strings.Contains(e.RawJSON(), "prompt is too long") {
				t.Errorf("the error doesn't say that the prompt is too long: %s", e.RawJSON())
			}
			alone := option.WithHeader("X-Switchyard-Allow-Substitution", "false")
			failing := h.broken(t, object{"status": 401})
			wantAnthropicError(t, ask(client, sdkRefusing["anthropic "+d.name].model, failing, alone), http.StatusBadGateway, anthropic.ErrorTypeAPIError)
			if n := h.callsWith(t, failing); n != 1 {
				t.Errorf("%d calls for a failure that no retry can mend, want 1", n)
			}
		})
	}
}

// A stream that breaks off ends in the SDK's typed error.
func TestAnthropicSDKBrokenStream(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		for model, after := range breaking("anthropic") {
			t.Run(d.name+" "+model, func(t *testing.T) {
				question, client := h.broken(t, object{"error_after_chunks": after}), d.anthropicClient()
				stream := client.Messages.NewStreaming(t.Context(), message(model, question+" a b c d e f"))
				text := ""
				for stream.Next() {
					text += stream.Current().Delta.Text
				}
				if e := wantAnthropicError(t, stream.Err(), http.StatusOK, anthropic.ErrorTypeAPIError); text == "" || !strings.Contains(e.RawJSON(), "stream_interrupted") {
					t.Errorf("text %q: %s", text, e.RawJSON())
				}
			})
		}
	}
}

// A client that cancels a stream ends the call to the vendor.
func TestAnthropicSDKCancels(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			text := unique("leave")
			call := hangingServer.expect(text)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client := d.anthropicClient()
			stream := client.Messages.NewStreaming(ctx, message(hangingProvider.model, text))
			if !stream.Next() {
				t.Fatalf("no event: %v", stream.Err())
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

// The vendor's own fields and headers reach it unchanged. A provider of another dialect serves without the hints among
// them, and the answer names those.
func TestAnthropicSDKUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			question := unique("question")
			client := d.anthropicClient()
			cached := message(sdkAnthropic.model, question)
			cached.System = []anthropic.TextBlockParam{{Text: "be kind", CacheControl: anthropic.NewCacheControlEphemeralParam()}}
			_, err := client.Messages.New(t.Context(), cached, option.WithHeader("anthropic-beta", "brand-new-2027"), option.WithJSONSet("brand_new_field", 1))
			if err != nil {
				t.Fatal(err)
			}
			calls := h.vendorCalls(t, vendor{model: sdkAnthropic.upstream, dialect: "anthropic"})
			i := slices.IndexFunc(calls, func(c vendorCall) bool { return strings.Contains(c.Body, question) })
			if i < 0 {
				t.Fatalf("no call with %q reached the vendor", question)
			}
			for _, field := range []string{`"brand_new_field":1`, `"cache_control"`} {
				if !strings.Contains(calls[i].Body, field) {
					t.Errorf("the vendor was sent %s, without %s", calls[i].Body, field)
				}
			}
			if got := calls[i].Headers.Get("Anthropic-Beta"); got != "brand-new-2027" {
				t.Errorf("the vendor was sent Anthropic-Beta: %q", got)
			}
			cached.Model = sdkOpenAI.model
			var response *http.Response
			_, err = client.Messages.New(t.Context(), cached, option.WithHeader("X-Switchyard-Allow-Substitution", "false"), option.WithResponseInto(&response))
			if err != nil || response.Header.Get("X-Switchyard-Ignored") != "cache_control" {
				t.Errorf("%v, ignored %q, want cache_control", err, response.Header.Get("X-Switchyard-Ignored"))
			}
		})
	}
}
