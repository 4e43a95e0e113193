//go:build e2e

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	openairesponses "github.com/openai/openai-go/v3/responses"

	"switchyard.dev/deploy/dev/stack"
)

// inputText is an input of one message.
func inputText(text string) openairesponses.ResponseNewParamsInputUnion {
	return openairesponses.ResponseNewParamsInputUnion{OfString: openai.String(text)}
}

func TestResponsesSDK(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, _ *harness, client openai.Client, model string) {
		t.Helper()
		got, err := client.Responses.New(t.Context(), openairesponses.ResponseNewParams{
			Model: model, Input: inputText("hello"), Instructions: openai.String("be brief"), MaxOutputTokens: openai.Int(50),
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(got.OutputText(), "hello") || got.Status != "completed" || got.Model != model || !strings.HasPrefix(got.ID, "resp_") {
			t.Errorf("answer %s", got.RawJSON())
		}
		if u := got.Usage; u.TotalTokens < 2 || u.TotalTokens != u.InputTokens+u.OutputTokens {
			t.Errorf("%d tokens in all, %d and %d", u.TotalTokens, u.InputTokens, u.OutputTokens)
		}
	})
}

// A stream has each kind of event that the SDK knows in its order, and ends with all that was said.
func TestResponsesSDKStream(t *testing.T) {
	eachOpenAI(t, func(t *testing.T, _ *harness, client openai.Client, model string) {
		t.Helper()
		stream := client.Responses.NewStreaming(t.Context(), openairesponses.ResponseNewParams{Model: model, Input: inputText("one two three")})
		var text strings.Builder
		var kinds []string
		var last openairesponses.Response
		for number := int64(0); stream.Next(); number++ {
			event := stream.Current()
			if event.SequenceNumber != number {
				t.Errorf("event %d has the number %d: %s", number, event.SequenceNumber, event.RawJSON())
			}
			kinds = append(kinds, event.Type)
			text.WriteString(event.Delta)
			last = event.Response
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(text.String(), "one two three") || last.OutputText() != text.String() {
			t.Errorf("deltas %q, at the end %q", text.String(), last.OutputText())
		}
		if len(kinds) < 6 || kinds[0] != "response.created" || kinds[1] != "response.in_progress" || kinds[len(kinds)-1] != "response.completed" {
			t.Errorf("events %v", kinds)
		}
	})
}

// A conversation goes on with the results of two calls, the model's own items sent back as they came.
func TestResponsesSDKTools(t *testing.T) {
	eachEndpoint(t, sdkEndpoint.openAIClient, scriptable, func(t *testing.T, h *harness, client openai.Client, model string) {
		t.Helper()
		question := h.scripted(t, twoCalls)
		params := openairesponses.ResponseNewParams{
			Model: model, Store: openai.Bool(false),
			Tools: []openairesponses.ToolUnionParam{{OfFunction: &openairesponses.FunctionToolParam{Name: "weather", Parameters: weatherSchema, Strict: openai.Bool(false)}}},
			Input: openairesponses.ResponseNewParamsInputUnion{OfInputItemList: openairesponses.ResponseInputParam{
				openairesponses.ResponseInputItemParamOfMessage(question, openairesponses.EasyInputMessageRoleUser),
			}},
		}
		got, err := client.Responses.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		var calls []string
		for _, item := range got.Output {
			if call := item.AsFunctionCall(); item.Type == "function_call" {
				calls = append(calls, call.Name+" "+call.Arguments)
				params.Input.OfInputItemList = append(params.Input.OfInputItemList,
					openairesponses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name),
					openairesponses.ResponseInputItemUnionParam{OfFunctionCallOutput: &openairesponses.ResponseInputItemFunctionCallOutputParam{
						CallID: openai.String(call.CallID),
						Output: openairesponses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("sunny in " + call.Arguments)},
					}})
			}
		}
		if strings.Join(calls, "; ") != `weather {"city":"Paris"}; weather {"city":"Rome"}` {
			t.Fatalf("calls %q in %s", calls, got.RawJSON())
		}
		params.Input.OfInputItemList[0] = openairesponses.ResponseInputItemParamOfMessage("how is it?", openairesponses.EasyInputMessageRoleUser) // The script answers the question.
		if got, err = client.Responses.New(t.Context(), params); err != nil || !strings.HasSuffix(got.OutputText(), `sunny in {"city":"Rome"}`) && !strings.HasSuffix(got.OutputText(), "how is it?") {
			t.Errorf("%v, %s", err, got.RawJSON())
		}
	})
}

// Errors are the SDK's own, and a failure in the middle of a stream is its error event.
func TestResponsesSDKErrors(t *testing.T) {
	eachEndpoint(t, sdkEndpoint.openAIClient, scriptable, func(t *testing.T, h *harness, client openai.Client, model string) {
		t.Helper()
		_, err := client.Responses.New(t.Context(), openairesponses.ResponseNewParams{Model: "no-such-model", Input: inputText("hello")})
		if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != http.StatusNotFound || e.Code != "model_not_found" {
			t.Errorf("%v, want 404 model_not_found", err)
		}
		_, err = client.Responses.New(t.Context(), openairesponses.ResponseNewParams{Model: model, Input: inputText("hello"), Include: []openairesponses.ResponseIncludable{"x"}})
		if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != http.StatusBadRequest || e.Param != "include[0]" {
			t.Errorf("%v, want 400 at include[0]", err)
		}
	})
}

// A conversation goes on from a stored response at another vendor, is read again, and is gone after a purge.
func TestResponsesSDKState(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			client := d.openAIClient()
			var last *openairesponses.Response
			for i, model := range sdkModels {
				params := openairesponses.ResponseNewParams{Model: model, Input: inputText(fmt.Sprint("question ", i))}
				if last != nil {
					params.PreviousResponseID = openai.String(last.ID)
				}
				got, err := client.Responses.New(t.Context(), params)
				if err != nil {
					t.Fatal(err)
				}
				last = got
			}
			again, err := client.Responses.Get(t.Context(), last.ID, openairesponses.ResponseGetParams{})
			if err != nil || again.OutputText() != last.OutputText() || again.PreviousResponseID == "" {
				t.Errorf("%v, %s, want %s", err, again.RawJSON(), last.RawJSON())
			}
			items := client.Responses.InputItems.ListAutoPaging(t.Context(), last.ID, openairesponses.InputItemListParams{Order: "asc", Limit: openai.Int(2)})
			var texts []string
			for items.Next() {
				for _, part := range items.Current().AsMessage().Content {
					texts = append(texts, part.Text)
				}
			}
			newest, question := 2*len(sdkModels)-2, fmt.Sprint("question ", len(sdkModels)-1) // Questions and answers, but the last answer.
			if err := items.Err(); err != nil || len(texts) != newest+1 || texts[0] != "question 0" || texts[newest] != question {
				t.Errorf("%v, items %q, want question 0 to %s, and the answers between", err, texts, question)
			}
			organization := d.organization
			if organization == "" {
				return // The purge is the gateway's.
			}
			h.operator(stack.Gateway).post(t, "/v1/prompt-cache/purge", object{"organization_id": organization}).want(t, http.StatusOK)
			_, err = client.Responses.Get(t.Context(), last.ID, openairesponses.ResponseGetParams{})
			if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != http.StatusNotFound {
				t.Errorf("after the purge: %v, want 404", err)
			}
		})
	}
}

// A conversation that its vendor has shortened goes on at that vendor, and at others with what it stands for. The tokens of
// a request are counted before it is sent.
func TestResponsesSDKCompact(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			client := d.openAIClient()
			first, err := client.Responses.New(t.Context(), openairesponses.ResponseNewParams{Model: sdkResponses.model, Input: inputText("the code is 4711")})
			if err != nil {
				t.Fatal(err)
			}
			count, err := client.Responses.InputTokens.Count(t.Context(), openairesponses.InputTokenCountParams{
				Model: openai.String(sdkResponses.model), PreviousResponseID: openai.String(first.ID),
			})
			if err != nil || count.InputTokens < 6 {
				t.Errorf("%+v, %v, want the tokens of the question and the answer", count, err)
			}
			short, err := client.Responses.Compact(t.Context(), openairesponses.ResponseCompactParams{
				Model: openairesponses.ResponseCompactParamsModel(sdkResponses.model), PreviousResponseID: openai.String(first.ID),
			})
			if err != nil || short.Object != "response.compaction" || len(short.Output) != 1 || short.Usage.OutputTokens != 8 {
				t.Fatalf("%+v, %v, want the vendor's compaction", short, err)
			}
			for _, model := range []string{sdkResponses.model, sdkAnthropic.model, "sandbox"} {
				var got openairesponses.Response
				err := client.Post(t.Context(), "responses", object{"model": model, "store": false, "input": []any{
					json.RawMessage(short.Output[0].RawJSON()), object{"role": "user", "content": "and now?"},
				}}, &got)
				if err != nil || !strings.Contains(got.OutputText(), "and now?") {
					t.Errorf("%s: %s, %v", model, got.RawJSON(), err)
				}
			}
		})
	}
}
