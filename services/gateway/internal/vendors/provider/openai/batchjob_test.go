package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/testkit/growth"
)

func batches() providertest.Batches {
	return providertest.Batches{
		New: func(baseURL string, transport http.RoundTripper) (provider.BatchRunner, error) {
			return openai.New(provider.Settings{Name: "openai", BaseURL: baseURL, Batches: new(true), Transport: transport})
		},
		API: "/v1/chat/completions", Body: "{\"model\":\"m\",\r\n \"messages\":[{\"role\":\"user\",\"content\":\"a\\nb\"}]}",
		Vendor: batchVendor, Answered: resultAnswered, Failed: resultFailed,
		Usage: `{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":2}}`, Want: provider.Usage{Input: 7, CacheRead: 2, Output: 5},
	}
}

func resultAnswered(customID, usage string) string {
	body := map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "choices": []any{}}
	if usage != "" {
		body["usage"] = json.RawMessage(usage)
	}
	return providertest.JSON(map[string]any{
		"id": "batch_req_1", "custom_id": customID, "response": map[string]any{"status_code": 200, "request_id": "r", "body": body}, "error": nil,
	})
}

func resultFailed(customID string) string {
	return providertest.JSON(map[string]any{
		"id": "batch_req_1", "custom_id": customID, "error": nil,
		"response": map[string]any{"status_code": 400, "request_id": "r", "body": map[string]any{"error": map[string]any{"message": "no"}, "usage": map[string]any{"prompt_tokens": 1}}},
	})
}

func TestBatches(t *testing.T) { providertest.RunBatches(t, batches()) }

func FuzzBatchResults(f *testing.F) { providertest.FuzzResults(f, batches()) }

func TestBatchResultsGrowsLinearly(t *testing.T) {
	providertest.BatchGrowth(t, batches(), growth.Around(`{"custom_id":"x","response":{"status_code":200,"body":{"usage":`, growth.ValidJSON, "}}}\n")...)
}

// Jobs are run at known hosts and where the setting says so; those of responses only where the server has that API.
func TestRunsBatches(t *testing.T) {
	chat, response := "/v1/chat/completions", "/v1/responses"
	for name, tt := range map[string]struct {
		config         provider.Settings
		chat, response bool
	}{
		"OpenAI":                    {provider.Settings{BaseURL: "https://api.openai.com/v1"}, true, true},
		"OpenAI without jobs":       {provider.Settings{BaseURL: "https://api.openai.com/v1", Batches: new(false)}, false, false},
		"OpenAI without responses":  {provider.Settings{BaseURL: "https://api.openai.com/v1", Responses: new(false)}, true, false},
		"another":                   {provider.Settings{BaseURL: "https://vendor.example/v1"}, false, false},
		"another that says so":      {provider.Settings{BaseURL: "https://vendor.example/v1", Batches: new(true)}, true, false},
		"Azure":                     {provider.Settings{BaseURL: "https://x.openai.azure.com", APIVersion: "2024-10-21"}, false, false},
		"Azure's v1 that says so":   {provider.Settings{BaseURL: "https://x.openai.azure.com/openai/v1", Batches: new(true)}, true, true},
		"Azure with both":           {provider.Settings{BaseURL: "https://x.openai.azure.com", APIVersion: "2024-10-21", Batches: new(true), Responses: new(true)}, true, true},
		"one whose name looks like": {provider.Settings{BaseURL: "https://api.openai.com.example/v1"}, false, false},
	} {
		p, err := openai.New(tt.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.RunsBatches(chat); got != tt.chat {
			t.Errorf("%s: runs jobs of chats is %t, want %t", name, got, tt.chat)
		}
		if got := p.RunsBatches(response); got != tt.response {
			t.Errorf("%s: runs jobs of responses is %t, want %t", name, got, tt.response)
		}
	}
}

// Jobs and files are a resource's, and not a deployment's; their requests have paths without a version.
func TestBatchURLs(t *testing.T) {
	for name, tt := range map[string]struct {
		config provider.Settings
		want   []string
	}{
		"OpenAI": {provider.Settings{BaseURL: "https://api.openai.com"}, []string{
			"POST https://api.openai.com/v1/files /v1/embeddings", "POST https://api.openai.com/v1/batches /v1/embeddings",
			"GET https://api.openai.com/v1/batches/b1", "POST https://api.openai.com/v1/batches/b1/cancel", "GET https://api.openai.com/v1/batches?limit=100",
			"GET https://api.openai.com/v1/files/f2/content", "DELETE https://api.openai.com/v1/files/f1", "DELETE https://api.openai.com/v1/files/f2",
		}},
		"Azure": {provider.Settings{BaseURL: "https://x.openai.azure.com", APIVersion: "2024-10-21", Batches: new(true)}, []string{
			"POST https://x.openai.azure.com/openai/files?api-version=2024-10-21 /embeddings", "POST https://x.openai.azure.com/openai/batches?api-version=2024-10-21 /embeddings",
			"GET https://x.openai.azure.com/openai/batches/b1?api-version=2024-10-21", "POST https://x.openai.azure.com/openai/batches/b1/cancel?api-version=2024-10-21",
			"GET https://x.openai.azure.com/openai/batches?api-version=2024-10-21&limit=100", "GET https://x.openai.azure.com/openai/files/f2/content?api-version=2024-10-21",
			"DELETE https://x.openai.azure.com/openai/files/f1?api-version=2024-10-21", "DELETE https://x.openai.azure.com/openai/files/f2?api-version=2024-10-21",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			tt.config.Transport = providertest.Transport(func(r *http.Request) (*http.Response, error) {
				call := r.Method + " " + r.URL.String()
				body, _ := io.ReadAll(r.Body)
				for _, api := range []string{`"/v1/embeddings"`, `"/embeddings"`} {
					if strings.Contains(string(body), api) {
						call += " " + strings.Trim(api, `"`)
					}
				}
				got = append(got, call)
				answer := `{"id":"b1","status":"in_progress","data":[]}`
				if strings.HasSuffix(r.URL.Path, "/content") {
					answer = ""
				}
				return providertest.Canned(http.StatusOK, http.Header{}, answer)(r)
			})
			p, err := openai.New(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, credential := t.Context(), providertest.Credential()
			lines := func(yield func(provider.BatchLine, error) bool) {
				yield(provider.BatchLine{CustomID: "m1", Body: json.RawMessage("{}")}, nil)
			}
			_, err = p.CreateBatch(ctx, credential, &provider.BatchJob{Mark: "m", API: "/v1/embeddings", Count: 1, Lines: lines})
			_, read := p.ReadBatch(ctx, credential, "b1")
			cancelled := p.CancelBatch(ctx, credential, "b1")
			_, found := p.FindBatch(ctx, credential, provider.BatchSearch{Mark: "m"})
			if !errors.Is(found, provider.ErrNoBatch) {
				t.Errorf("found: %v, want none", found)
			}
			report := &provider.BatchReport{ID: "b1", Input: "f1", Output: "f2"}
			read2 := p.BatchResults(ctx, credential, nil, report, func(provider.BatchResult) error { return nil })
			if err := errors.Join(err, read, cancelled, read2, p.DeleteBatch(ctx, credential, report)); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// Requests of a job are sent without what the server would refuse of other vendors' turns, and with an effort that the
// model takes, as live calls are.
func TestBatchLines(t *testing.T) {
	const chat, response = "/v1/chat/completions", "/v1/responses"
	call := func(members string) string {
		return `{"role":"assistant",` + members + `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}`
	}
	for name, c := range map[string]struct{ api, body, want string }{
		"nothing":        {chat, `{"n":1.0,"messages":[{"role":"user","content":"a"}]}`, `{"model":"m","n":1.0,"messages":[{"role":"user","content":"a"}]}`},
		"state":          {chat, `{"messages":[` + call("") + `,"extra_content":{"google":{}}}]}]}`, `{"model":"m","messages":[` + call("") + `}]}]}`},
		"reasoning":      {chat, `{"messages":[` + call(`"reasoning_content":"so",`) + `}]}]}`, `{"model":"m","messages":[` + call("") + `}]}]}`},
		"a response":     {response, `{"input":"a"}`, `{"model":"m","store":false,"input":"a"}`},
		"another's":      {response, `{"input":[{"type":"reasoning","encrypted_content":"` + sealedAt("azure") + `"},{"id":"msg_sw1","role":"user","content":"a"}]}`, `{"model":"m","store":false,"input":[{"role":"user","content":"a"}]}`},
		"its own":        {response, `{"input":[{"type":"reasoning","encrypted_content":"` + sealedAt("openai") + `"}]}`, `{"model":"m","store":false,"input":[{"type":"reasoning","encrypted_content":"gAAA"}]}`},
		"a compaction":   {response, `{"input":[{"type":"compaction","encrypted_content":"` + sealedAt("azure") + `"}]}`, ""},
		"of another API": {"/v1/embeddings", `{"input":"a","messages":1}`, `{"model":"m","input":"a","messages":1}`},
		"an effort":      {chat, `{"reasoning_effort":"minimal"}`, `{"model":"m","reasoning_effort":"minimal"}`},
		"o3":             {chat, `{"reasoning_effort":"minimal"}`, `{"model":"o3","reasoning_effort":"low"}`},
		"gpt-5.1":        {response, `{"reasoning":{"effort":"xhigh"}}`, `{"model":"gpt-5.1","store":false,"reasoning":{"effort":"high"}}`},
	} {
		model := gjson.Get(c.want, "model").Str
		if model == "" {
			model = "m"
		}
		var sent string
		p, err := openai.New(provider.Settings{Name: "openai", BaseURL: "https://api.openai.com", Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			sent += string(body)
			return providertest.Canned(http.StatusOK, http.Header{}, `{"id":"b1","status":"in_progress"}`)(r)
		})})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.CreateBatch(t.Context(), providertest.Credential(), &provider.BatchJob{Mark: "m", API: c.api, Model: model, Count: 1, Lines: func(yield func(provider.BatchLine, error) bool) {
			yield(provider.BatchLine{CustomID: "m1", Body: json.RawMessage(c.body)}, nil)
		}})
		refused := err != nil && sent == ""
		if refused != (c.want == "") || !refused && !strings.Contains(sent, `"body":`+c.want+"}\n") {
			t.Errorf("%s: sent %s, %v, want %s", name, sent, err, c.want)
		}
	}
}

// What the vendor says of a job that it failed is bounded, and doesn't repeat the key.
func TestBatchProblems(t *testing.T) {
	problem := `{"code":"invalid_json","line":7,"param":"body.model","message":"` + providertest.Key + ` \r\n` + strings.Repeat("ü", 1000) + `"}`
	text := `{"id":"b1","status":"failed","errors":{"object":"list","data":[` + strings.Repeat(problem+",", 50) + `{"line":null,"message":{"a":1}}]}}`
	p, err := openai.New(provider.Settings{BaseURL: "https://api.openai.com", Transport: providertest.Canned(http.StatusOK, http.Header{}, text)})
	if err != nil {
		t.Fatal(err)
	}
	report, err := p.ReadBatch(t.Context(), providertest.Credential(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	if report.Status != provider.BatchFailed || len(report.Problems) != 20 {
		t.Fatalf("%s with %d problems, want failed with 20", report.Status, len(report.Problems))
	}
	got := report.Problems[0]
	if got.Code != "invalid_json" || got.Line != 7 || got.Param != "body.model" {
		t.Errorf("problem %+v, want invalid_json of body.model in line 7", got)
	}
	if len(got.Message) > 510 || strings.Contains(got.Message, providertest.Key) || strings.ContainsAny(got.Message, "\r\n") {
		t.Errorf("a message of %d bytes: %q", len(got.Message), got.Message)
	}
}

// States that are not known are no ends.
func TestBatchStates(t *testing.T) {
	for state, want := range map[string]provider.BatchStatus{
		"validating": provider.BatchValidating, "in_progress": provider.BatchInProgress, "finalizing": provider.BatchFinalizing, "cancelling": provider.BatchCancelling,
		"completed": provider.BatchCompleted, "failed": provider.BatchFailed, "expired": provider.BatchExpired, "cancelled": provider.BatchCancelled,
		"queued": provider.BatchInProgress,
	} {
		p, err := openai.New(provider.Settings{BaseURL: "https://api.openai.com", Transport: providertest.Canned(http.StatusOK, http.Header{}, `{"id":"b1","status":"`+state+`"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if report, err := p.ReadBatch(t.Context(), providertest.Credential(), "b1"); err != nil || report.Status != want {
			t.Errorf("%s: %+v, error %v, want %s", state, report, err, want)
		}
	}
}

// The usage of each API's answers is read, and only of answers.
func TestBatchUsage(t *testing.T) {
	answer := func(body string) string {
		return `{"custom_id":"m1","response":{"status_code":200,"body":` + body + `},"error":null}`
	}
	for name, tt := range map[string]struct {
		line     string
		answered bool
		want     *provider.Usage
	}{
		"a chat":                     {answer(`{"object":"chat.completion","usage":{"prompt_tokens":3,"completion_tokens":4}}`), true, &provider.Usage{Input: 3, Output: 4}},
		"a completion":               {answer(`{"object":"text_completion","usage":{"prompt_tokens":3,"completion_tokens":4}}`), true, &provider.Usage{Input: 3, Output: 4}},
		"a response":                 {answer(`{"object":"response","usage":{"input_tokens":3,"output_tokens":4,"input_tokens_details":{"cached_tokens":1}}}`), true, &provider.Usage{Input: 2, CacheRead: 1, Output: 4}},
		"a response of no kind":      {answer(`{"usage":{"input_tokens":3,"output_tokens":4}}`), true, &provider.Usage{Input: 3, Output: 4}},
		"embeddings":                 {answer(`{"object":"list","usage":{"prompt_tokens":3,"total_tokens":9}}`), true, &provider.Usage{Input: 3}},
		"embeddings with a total":    {answer(`{"object":"list","usage":{"total_tokens":9}}`), true, &provider.Usage{Input: 9}},
		"a moderation":               {answer(`{"id":"modr-1","results":[]}`), true, nil},
		"a body that is a text":      {answer(`"x"`), true, nil},
		"an error beside the answer": {`{"custom_id":"m1","response":{"status_code":200,"body":{"usage":{"prompt_tokens":1}}},"error":{"code":"x"}}`, false, nil},
		"no response":                {`{"custom_id":"m1","response":null,"error":{"code":"batch_expired","message":"m"}}`, false, nil},
		"another status":             {`{"custom_id":"m1","response":{"status_code":201,"body":{"usage":{"prompt_tokens":1}}},"error":null}`, false, nil},
		"a status that is a text":    {`{"custom_id":"m1","response":{"status_code":"200","body":{}},"error":null}`, false, nil},
	} {
		p, err := openai.New(provider.Settings{BaseURL: "https://api.openai.com", Transport: providertest.Canned(http.StatusOK, http.Header{}, tt.line)})
		if err != nil {
			t.Fatal(err)
		}
		err = p.BatchResults(t.Context(), providertest.Credential(), nil, &provider.BatchReport{ID: "b1", Output: "f1"}, func(r provider.BatchResult) error {
			if diff := cmp.Diff(tt.want, r.Usage); diff != "" || (r.Outcome == provider.BatchAnswered) != tt.answered {
				t.Errorf("%s: answered is %t, want %t; usage (-want +got):\n%s", name, r.Outcome == provider.BatchAnswered, tt.answered, diff)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the model wrote into each API's answers is counted.
func TestBatchWritten(t *testing.T) {
	for body, want := range map[string]int{
		`{"choices":[{"message":{"content":"hello"}},{"message":{"content":"you","reasoning_content":"12"}}]}`:                                  10,
		`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]}}]}`:                        3,
		`{"choices":[{"message":{"content":"","reasoning_details":[{"text":"hello"}]}}]}`:                                                       5,
		`{"object":"text_completion","choices":[{"text":"hello"},{"text":"you"}]}`:                                                              8,
		`{"object":"response","output":[{"type":"message","content":[{"text":"hello"}]},{"type":"function_call","name":"f","arguments":"{}"}]}`: 8,
		`{"object":"list","data":[{"embedding":[1]}]}`:                                                                                          0, `{"results":[]}`: 0, `"x"`: 0,
	} {
		line := `{"custom_id":"m1","response":{"status_code":200,"body":` + body + `},"error":null}`
		p, err := openai.New(provider.Settings{BaseURL: "https://api.openai.com", Transport: providertest.Canned(http.StatusOK, http.Header{}, line)})
		if err != nil {
			t.Fatal(err)
		}
		err = p.BatchResults(t.Context(), providertest.Credential(), nil, &provider.BatchReport{ID: "b1", Output: "f1"}, func(r provider.BatchResult) error {
			if r.Written != want {
				t.Errorf("%s: %d bytes, want %d", body, r.Written, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The file of a refused job is deleted though its caller has left.
func TestFileOfRefusedJobIsDeletedAllTheSame(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	deleted := false
	p, err := openai.New(provider.Settings{BaseURL: "https://api.openai.com", Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case r.Method == http.MethodDelete:
			_, bounded := r.Context().Deadline()
			deleted = r.URL.Path == "/v1/files/f1" && r.Context().Err() == nil && bounded
			return providertest.Canned(http.StatusOK, http.Header{}, "{}")(r)
		case r.URL.Path == "/v1/batches":
			leave()
			return providertest.Canned(http.StatusBadRequest, http.Header{}, "{}")(r)
		}
		return providertest.Canned(http.StatusOK, http.Header{}, `{"id":"f1"}`)(r)
	})})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.CreateBatch(ctx, providertest.Credential(), &provider.BatchJob{
		Mark: "m", API: "/v1/moderations", Count: 1, Lines: func(yield func(provider.BatchLine, error) bool) {
			yield(provider.BatchLine{CustomID: "m1", Body: json.RawMessage("{}")}, nil)
		},
	})
	if e := providertest.ErrorOf(t, err); e.Status != http.StatusBadRequest || !deleted {
		t.Errorf("error %v, deleted is %t, want a refusal and true", err, deleted)
	}
}
