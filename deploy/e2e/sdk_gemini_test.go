//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
)

// sdkGemini is a model whose requests in Google's form are relayed.
var sdkGemini = addVendor(vendor{name: "sdk-gemini", dialect: "gemini", model: "sdk-gemini", upstream: "gemini-3-sdk"})

var geminiModels = append(slices.Clone(sdkModels), sdkGemini.model)

// geminiClient returns Google's own client.
func (d sdkEndpoint) geminiClient() *genai.Client {
	header := http.Header{}
	if d.organization != "" {
		header.Set("X-Organization-Id", d.organization)
	}
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: d.key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: d.gemini, Headers: header},
	})
	if err != nil {
		panic(err) // Only settings that contradict each other.
	}
	return client
}

// eachGemini runs a test at each endpoint with a model of each dialect.
func eachGemini(t *testing.T, models []string, test func(t *testing.T, h *harness, client *genai.Client, model string)) {
	t.Helper()
	eachEndpoint(t, sdkEndpoint.geminiClient, models, test)
}

func TestGeminiSDKContent(t *testing.T) {
	eachGemini(t, geminiModels, func(t *testing.T, _ *harness, client *genai.Client, model string) {
		t.Helper()
		got, err := client.Models.GenerateContent(t.Context(), model, genai.Text("hello"), &genai.GenerateContentConfig{
			SystemInstruction: genai.NewContentFromText("be kind", genai.RoleUser), MaxOutputTokens: 100, Temperature: genai.Ptr[float32](0.5),
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(got.Text(), "hello") || got.Candidates[0].FinishReason != genai.FinishReasonStop || got.ModelVersion != model {
			t.Errorf("%q from %s, %s", got.Text(), got.ModelVersion, got.Candidates[0].FinishReason)
		}
		if u := got.UsageMetadata; got.ResponseID == "" || u == nil || u.PromptTokenCount < 1 || u.CandidatesTokenCount < 1 {
			t.Errorf("id %q, usage %+v", got.ResponseID, u)
		}
		for _, name := range []string{"X-Request-Id", "X-Switchyard-Provider", "X-Switchyard-Cost-Cents"} {
			if got.SDKHTTPResponse.Headers.Get(name) == "" {
				t.Errorf("no %s", name)
			}
		}
	})
}

// streamContent reads a stream to its end: its text, its calls, and its last chunk.
func streamContent(t *testing.T, client *genai.Client, model, text string, config *genai.GenerateContentConfig) (string, []*genai.FunctionCall, *genai.GenerateContentResponse) {
	t.Helper()
	var written strings.Builder
	var calls []*genai.FunctionCall
	var last *genai.GenerateContentResponse
	for chunk, err := range client.Models.GenerateContentStream(t.Context(), model, genai.Text(text), config) {
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range chunk.Candidates[0].Content.Parts {
			written.WriteString(part.Text)
		}
		calls, last = append(calls, chunk.FunctionCalls()...), chunk
	}
	return written.String(), calls, last
}

func TestGeminiSDKStream(t *testing.T) {
	eachGemini(t, geminiModels, func(t *testing.T, _ *harness, client *genai.Client, model string) {
		t.Helper()
		text, _, last := streamContent(t, client, model, "one two three", nil)
		if !strings.HasSuffix(text, "one two three") || last.Candidates[0].FinishReason != genai.FinishReasonStop || last.ModelVersion != model {
			t.Errorf("%q from %s, %s", text, last.ModelVersion, last.Candidates[0].FinishReason)
		}
		if u := last.UsageMetadata; u == nil || u.PromptTokenCount < 1 || u.CandidatesTokenCount < 1 || u.TotalTokenCount < 2 {
			t.Errorf("usage %+v", u)
		}
	})
}

// Parallel calls, whole and streamed, and the next turn with their results.
func TestGeminiSDKTools(t *testing.T) {
	eachGemini(t, append(slices.Clone(scriptable), sdkGemini.model), func(t *testing.T, h *harness, client *genai.Client, model string) {
		t.Helper()
		question := h.scripted(t, twoCalls)
		config := &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{
			Name: "weather", Parameters: &genai.Schema{
				Type: genai.TypeObject, Properties: map[string]*genai.Schema{"city": {Type: genai.TypeString}}, Required: []string{"city"},
			},
		}}}}}
		whole, err := client.Models.GenerateContent(t.Context(), model, genai.Text(question), config)
		if err != nil {
			t.Fatal(err)
		}
		text, streamed, last := streamContent(t, client, model, question, config)
		for name, calls := range map[string][]*genai.FunctionCall{"whole": whole.FunctionCalls(), "streamed": streamed} {
			var cities []string
			for _, call := range calls {
				if call.ID == "" || call.Name != "weather" {
					t.Errorf("%s: %+v", name, call)
				}
				city, _ := call.Args["city"].(string)
				cities = append(cities, city)
			}
			if diff := cmp.Diff([]string{"Paris", "Rome"}, cities); diff != "" {
				t.Errorf("%s: cities (-want +got):\n%s", name, diff)
			}
		}
		if text != "I look." || last.Candidates[0].FinishReason != genai.FinishReasonStop {
			t.Errorf("%q, %s", text, last.Candidates[0].FinishReason)
		}
		results := &genai.Content{Role: genai.RoleUser}
		for _, call := range whole.FunctionCalls() {
			part := genai.NewPartFromFunctionResponse(call.Name, map[string]any{"output": "rain in " + call.Args["city"].(string)})
			part.FunctionResponse.ID = call.ID
			results.Parts = append(results.Parts, part)
		}
		second, err := client.Models.GenerateContent(t.Context(), model, []*genai.Content{
			genai.NewContentFromText("what now", genai.RoleUser), whole.Candidates[0].Content, results,
		}, config)
		if err != nil || !strings.Contains(second.Text(), "rain") {
			t.Errorf("the second turn: %+v, %v", second, err)
		}
	})
}

func TestGeminiSDKStructuredOutput(t *testing.T) {
	eachGemini(t, geminiModels, func(t *testing.T, h *harness, client *genai.Client, model string) {
		t.Helper()
		got, err := client.Models.GenerateContent(t.Context(), model, genai.Text(h.scripted(t, object{"text": `{"city":"Paris"}`})), &genai.GenerateContentConfig{
			ResponseMIMEType: "application/json", ResponseSchema: &genai.Schema{Type: genai.TypeObject, Properties: map[string]*genai.Schema{"city": {Type: genai.TypeString}}, Required: []string{"city"}},
		})
		if err != nil || !strings.HasPrefix(got.Text(), `{"city":`) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestGeminiSDKModelsCountsAndEmbeddings(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			client := d.geminiClient()
			page, err := client.Models.List(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(page.Items, func(m *genai.Model) bool { return m.Name == "models/"+sdkGemini.model }) {
				t.Errorf("the models lack one: %+v", page.Items)
			}
			if m, err := client.Models.Get(t.Context(), sdkGemini.model, nil); err != nil || m.Name != "models/"+sdkGemini.model {
				t.Errorf("model %+v, error %v", m, err)
			}
			_, err = client.Models.Get(t.Context(), "no-such-model", nil)
			wantGeminiError(t, err, http.StatusNotFound, "NOT_FOUND")
			count, err := client.Models.CountTokens(t.Context(), sdkGemini.model, genai.Text("eight bytes and so on"), nil)
			if err != nil || count.TotalTokens != 6 {
				t.Errorf("count %+v, error %v", count, err)
			}
			for _, model := range []string{"sandbox", sdkGemini.model} {
				made, err := client.Models.EmbedContent(t.Context(), model, []*genai.Content{
					genai.NewContentFromText("one", genai.RoleUser), genai.NewContentFromText("two", genai.RoleUser),
				}, nil)
				if err != nil || len(made.Embeddings) != 2 || len(made.Embeddings[0].Values) == 0 {
					t.Errorf("%s: embeddings %+v, error %v", model, made, err)
				}
			}
		})
	}
}

func wantGeminiError(t *testing.T, err error, status int, name string) genai.APIError {
	t.Helper()
	e, ok := errors.AsType[genai.APIError](err)
	if !ok {
		t.Fatalf("%v is not an error of the SDK", err)
	}
	if e.Code != status || e.Status != name || e.Message == "" || len(e.Details) == 0 {
		t.Errorf("%+v, want %d %s", e, status, name)
	}
	return e
}

// Failures are the SDK's typed error.
func TestGeminiSDKErrors(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			ask := func(client *genai.Client, model string, config *genai.GenerateContentConfig) error {
				_, err := client.Models.GenerateContent(t.Context(), model, genai.Text("x"), config)
				return err
			}
			client := d.geminiClient()
			unknownKey := d
			unknownKey.key = "swy_test_nobody"
			wantGeminiError(t, ask(unknownKey.geminiClient(), "sandbox", nil), http.StatusUnauthorized, "UNAUTHENTICATED")
			wantGeminiError(t, ask(client, "no-such-model", nil), http.StatusNotFound, "NOT_FOUND")
			e := wantGeminiError(t, ask(client, "sandbox", &genai.GenerateContentConfig{CandidateCount: 500}), http.StatusBadRequest, "INVALID_ARGUMENT")
			if !strings.Contains(e.Message, "generationConfig.candidateCount") {
				t.Errorf("%+v names no field", e)
			}
			for err := range errorsOf(client.Models.GenerateContentStream(t.Context(), "no-such-model", genai.Text("x"), nil)) {
				wantGeminiError(t, err, http.StatusNotFound, "NOT_FOUND")
			}
		})
	}
}

// errorsOf returns the errors of a stream.
func errorsOf(stream func(func(*genai.GenerateContentResponse, error) bool)) func(func(error) bool) {
	return func(yield func(error) bool) {
		for _, err := range stream {
			if err != nil && !yield(err) {
				return
			}
		}
	}
}

var geminiBroken = addPair("sdk-broken-gemini")

// A stream that breaks off ends in the SDK's typed error.
func TestGeminiSDKBrokenStream(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		for model, after := range map[string]int{geminiBroken.first.named(): 3, geminiBroken.second.named(): 5} {
			t.Run(d.name+" "+model, func(t *testing.T) {
				question, client := h.broken(t, object{"error_after_chunks": after}), d.geminiClient()
				text, failed := "", 0
				for chunk, err := range client.Models.GenerateContentStream(t.Context(), model, genai.Text(question+" a b c d e f"), nil) {
					if err == nil {
						text += chunk.Text()
						continue
					}
					failed++
					if e, ok := errors.AsType[genai.APIError](err); !ok || e.Code < 500 {
						t.Errorf("%v", err)
					}
				}
				if text == "" || failed != 1 {
					t.Errorf("text %q, %d errors", text, failed)
				}
			})
		}
	}
}

// The vendor's own fields reach it unchanged. A provider of another dialect serves without the hints among them, and the
// answer names those.
func TestGeminiSDKUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			question, client := unique("question"), d.geminiClient()
			config := &genai.GenerateContentConfig{
				TopK:           genai.Ptr[float32](7),
				SafetySettings: []*genai.SafetySetting{{Category: genai.HarmCategoryHarassment, Threshold: genai.HarmBlockThresholdOff}},
				HTTPOptions:    &genai.HTTPOptions{ExtraBody: map[string]any{"brandNewField": 1}},
			}
			if _, err := client.Models.GenerateContent(t.Context(), sdkGemini.model, genai.Text(question), config); err != nil {
				t.Fatal(err)
			}
			calls := h.vendorCalls(t, vendor{model: sdkGemini.upstream, dialect: "gemini"})
			i := slices.IndexFunc(calls, func(c vendorCall) bool { return strings.Contains(c.Body, question) })
			if i < 0 {
				t.Fatalf("no call with %q reached the vendor", question)
			}
			for _, field := range []string{`"brandNewField":1`, `"safetySettings"`, `"topK":7`} {
				if !strings.Contains(calls[i].Body, field) {
					t.Errorf("the vendor was sent %s, without %s", calls[i].Body, field)
				}
			}
			got, err := client.Models.GenerateContent(t.Context(), sdkOpenAI.named(), genai.Text(question), config)
			if err != nil {
				t.Fatal(err)
			}
			if ignored := got.SDKHTTPResponse.Headers.Get("X-Switchyard-Ignored"); !strings.Contains(ignored, "generationConfig.topK") || !strings.Contains(ignored, "safetySettings") {
				t.Errorf("ignored %q", ignored)
			}
		})
	}
}
