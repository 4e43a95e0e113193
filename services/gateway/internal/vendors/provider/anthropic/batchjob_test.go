package anthropic_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/testkit/growth"
)

func batches() providertest.Batches {
	return providertest.Batches{
		New: func(baseURL string, transport http.RoundTripper) (provider.BatchRunner, error) {
			return anthropic.New(provider.Settings{Name: "anthropic", BaseURL: baseURL, Batches: new(true), Transport: transport})
		},
		API: "/v1/messages", Body: "{\"model\":\"m\",\n \"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"a\\nb\"}]}",
		Vendor: batchVendor, Answered: resultAnswered, Failed: resultFailed, HidesMark: true,
		Usage: `{"input_tokens":7,"cache_read_input_tokens":2,"output_tokens":5}`, Want: provider.Usage{Input: 7, CacheRead: 2, Output: 5},
	}
}

func resultAnswered(customID, usage string) string {
	message := map[string]any{"id": "msg_1", "type": "message", "content": []any{}}
	if usage != "" {
		message["usage"] = json.RawMessage(usage)
	}
	return providertest.JSON(map[string]any{"custom_id": customID, "result": map[string]any{"type": "succeeded", "message": message}})
}

func resultFailed(customID string) string {
	return providertest.JSON(map[string]any{"custom_id": customID, "result": map[string]any{
		"type": "errored", "error": map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "message": "no"}},
	}})
}

// batchVendor is Anthropic's API of jobs.
func batchVendor(store *providertest.BatchStore) http.Handler {
	api := http.NewServeMux()
	refuse := func(w http.ResponseWriter, status int, kind string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"`+kind+`","message":"no"}}`)
	}
	api.HandleFunc("POST /v1/messages/batches", func(w http.ResponseWriter, r *http.Request) {
		var made struct {
			Requests []struct {
				CustomID string `json:"custom_id"`
				Params   json.RawMessage
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&made); err != nil || r.Header.Get("Anthropic-Version") == "" {
			http.Error(w, "not a job", http.StatusTeapot)
			return
		}
		var job providertest.StoredBatch
		for _, request := range made.Requests {
			job.Lines = append(job.Lines, provider.BatchLine{CustomID: request.CustomID, Body: request.Params})
		}
		writeJSON(w, batchDocument(store.Add(job)))
	})
	api.HandleFunc("GET /v1/messages/batches", func(w http.ResponseWriter, r *http.Request) {
		all := store.Jobs()
		if after := r.URL.Query().Get("after_id"); after != "" {
			all = all[1+slices.IndexFunc(all, func(job providertest.StoredBatch) bool { return job.ID == after }):]
		}
		page := all[:min(len(all), 100)]
		data := []any{}
		for _, job := range page {
			data = append(data, batchDocument(job))
		}
		writeJSON(w, map[string]any{"data": data, "has_more": len(page) < len(all)})
	})
	one := func(handle func(w http.ResponseWriter, job providertest.StoredBatch)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			job, ok := store.Job(r.PathValue("id"))
			if !ok {
				refuse(w, http.StatusNotFound, "not_found_error")
				return
			}
			handle(w, job)
		}
	}
	api.HandleFunc("GET /v1/messages/batches/{id}", one(func(w http.ResponseWriter, job providertest.StoredBatch) { writeJSON(w, batchDocument(job)) }))
	api.HandleFunc("GET /v1/messages/batches/{id}/results", one(func(w http.ResponseWriter, job providertest.StoredBatch) {
		_, _ = io.WriteString(w, providertest.Results(slices.Concat(job.Failed, job.Answered)))
	}))
	api.HandleFunc("POST /v1/messages/batches/{id}/cancel", one(func(w http.ResponseWriter, job providertest.StoredBatch) {
		if job.Status.Ended() {
			refuse(w, http.StatusBadRequest, "invalid_request_error")
			return
		}
		store.Update(job.ID, func(job *providertest.StoredBatch) { job.Status = provider.BatchCancelling })
		job.Status = provider.BatchCancelling
		writeJSON(w, batchDocument(job))
	}))
	api.HandleFunc("DELETE /v1/messages/batches/{id}", one(func(w http.ResponseWriter, job providertest.StoredBatch) {
		store.Remove(job.ID)
		writeJSON(w, map[string]any{"id": job.ID, "type": "message_batch_deleted"})
	}))
	return api
}

func writeJSON(w io.Writer, document any) { _, _ = io.WriteString(w, providertest.JSON(document)) }

// batchDocument returns a job as the vendor shows it. The address of the results leads elsewhere.
func batchDocument(job providertest.StoredBatch) map[string]any {
	shown := map[string]any{
		"id": job.ID, "type": "message_batch", "processing_status": "in_progress", "created_at": job.Made.UTC().Format(time.RFC3339Nano),
		"cancel_initiated_at": nil, "ended_at": nil, "results_url": nil,
		"request_counts": map[string]int{"processing": job.Count, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
	}
	if job.Status == provider.BatchCancelling || job.Status == provider.BatchCancelled {
		shown["processing_status"], shown["cancel_initiated_at"] = "canceling", "2026-01-01T00:00:00Z"
	}
	if job.Status.Ended() {
		shown["processing_status"], shown["results_url"] = "ended", "http://169.254.169.254/results"
		shown["request_counts"] = map[string]int{"processing": 0, "succeeded": len(job.Answered), "errored": len(job.Failed), "canceled": job.Count - len(job.Answered) - len(job.Failed)}
	}
	return shown
}

func TestBatches(t *testing.T) { providertest.RunBatches(t, batches()) }

func FuzzBatchResults(f *testing.F) { providertest.FuzzResults(f, batches()) }

func TestBatchResultsGrowsLinearly(t *testing.T) {
	providertest.BatchGrowth(t, batches(), growth.Around(`{"custom_id":"x","result":{"type":"succeeded","message":{"usage":`, growth.ValidJSON, "}}}\n")...)
}

func TestRunsBatches(t *testing.T) {
	for name, tt := range map[string]struct {
		config provider.Settings
		want   bool
	}{
		"Anthropic":              {provider.Settings{BaseURL: "https://api.anthropic.com"}, true},
		"Anthropic without jobs": {provider.Settings{BaseURL: "https://api.anthropic.com", Batches: new(false)}, false},
		"another":                {provider.Settings{BaseURL: "https://vendor.example"}, false},
		"another that says so":   {provider.Settings{BaseURL: "https://vendor.example", Batches: new(true)}, true},
	} {
		p, err := anthropic.New(tt.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.RunsBatches("/v1/messages"); got != tt.want {
			t.Errorf("%s: runs jobs is %t, want %t", name, got, tt.want)
		}
	}
}

// A request of a job is the caller's own body, but for what a job doesn't take.
func TestBatchParams(t *testing.T) {
	own := `{"type":"thinking","thinking":"x","signature":"` + anthropic.OwnSignature + `"}`
	const (
		signed  = `{"type":"thinking","thinking":"x","signature":"s"}`
		budget  = `"thinking":{"type":"enabled","budget_tokens":1024},`
		off     = `"thinking":{"type":"disabled"},`
		call    = `{"type":"tool_use","id":"functions.f:0","name":"f","input":{},"extra_content":{"google":{}}}`
		result  = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"functions.f:0","content":"x"},{"type":"text","text":"go on"}]}`
		called  = `{"type":"tool_use","id":"functions_f_0","name":"f","input":{}}`
		results = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"functions_f_0","content":"x"},{"type":"text","text":"go on"}]}`
	)
	turned := func(blocks, results string) string {
		return `"messages":[{"role":"assistant","content":[` + blocks + `]},` + results + `]`
	}
	turn := func(blocks, results string) string { return turned(blocks, results) + "}" }
	for body, want := range map[string]string{
		`{"model":"m","max_tokens":1.50e3}`:                                                                     `{"model":"m","max_tokens":1.50e3}`,
		`{"stream":true,"model":"m","Stream":1,"\u0073tream":0}`:                                                `{"model":"m"}`,
		`{"messages":[{"role":"assistant","content":[` + own + `,{"type":"text","text":"a"}]}],"stream":false}`: `{"messages":[{"content":[{"type":"text","text":"a"}],"role":"assistant"}],"model":"m"}`,
		`{` + budget + turn(call, result):                                                                       `{` + off + turned(called, results) + `,"model":"m"}`,
		`{` + budget + turn(signed+`,`+called, results):                                                         `{"model":"m",` + budget + turn(signed+`,`+called, results),
		`{` + turn(call, result):                                                                                `{` + turned(called, results) + `,"model":"m"}`,
	} {
		var got string
		p, err := anthropic.New(provider.Settings{BaseURL: "https://api.anthropic.com", Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
			text, _ := io.ReadAll(r.Body)
			got = string(text)
			return providertest.Canned(http.StatusOK, http.Header{}, `{"id":"b1","processing_status":"in_progress"}`)(r)
		})})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.CreateBatch(t.Context(), providertest.Credential(), &provider.BatchJob{
			Mark: "m", API: "/v1/messages", Model: "m", Count: 2, Lines: func(yield func(provider.BatchLine, error) bool) {
				_ = yield(provider.BatchLine{CustomID: "m-1", Body: json.RawMessage(body)}, nil) && yield(provider.BatchLine{CustomID: "m-2", Body: json.RawMessage("{}")}, nil)
			},
		})
		whole := `{"requests":[{"custom_id":"m-1","params":` + want + `},{"custom_id":"m-2","params":{"model":"m"}}]}`
		if diff := cmp.Diff(whole, got); err != nil || diff != "" {
			t.Errorf("%s: error %v; sent (-want +got):\n%s", body, err, diff)
		}
	}
}

// How a job has ended shows only in its counts and its cancellation.
func TestBatchStates(t *testing.T) {
	for document, want := range map[string]*provider.BatchReport{
		`"processing_status":"in_progress","request_counts":{"processing":3}`:                                                            {Status: provider.BatchInProgress},
		`"processing_status":"canceling","cancel_initiated_at":"2026-01-01T00:00:00Z"`:                                                   {Status: provider.BatchCancelling},
		`"processing_status":"paused"`:                                                                                                   {Status: provider.BatchInProgress},
		`"processing_status":"ended","results_url":"x","request_counts":{"succeeded":2,"errored":1}`:                                     {Status: provider.BatchCompleted, Output: "b1", Answered: 2, Failed: 1},
		`"processing_status":"ended","results_url":"x","request_counts":{"errored":3}`:                                                   {Status: provider.BatchCompleted, Output: "b1", Failed: 3},
		`"processing_status":"ended","results_url":"x","request_counts":{"succeeded":1,"errored":1,"expired":1}`:                         {Status: provider.BatchExpired, Output: "b1", Answered: 1, Failed: 2},
		`"processing_status":"ended","results_url":"x","request_counts":{"expired":3}`:                                                   {Status: provider.BatchExpired, Output: "b1", Failed: 3},
		`"processing_status":"ended","results_url":"x","cancel_initiated_at":"x","request_counts":{"succeeded":3}`:                       {Status: provider.BatchCancelled, Output: "b1", Answered: 3},
		`"processing_status":"ended","results_url":"x","cancel_initiated_at":"x","request_counts":{"canceled":1,"expired":1}`:            {Status: provider.BatchCancelled, Output: "b1", Failed: 2},
		`"processing_status":"ended","results_url":null,"archived_at":"x","cancel_initiated_at":null,"request_counts":{"succeeded":"3"}`: {Status: provider.BatchCompleted},
	} {
		p, err := anthropic.New(provider.Settings{BaseURL: "https://api.anthropic.com", Transport: providertest.Canned(http.StatusOK, http.Header{}, `{"id":"b1",`+document+`}`)})
		if err != nil {
			t.Fatal(err)
		}
		want.ID = "b1"
		got, err := p.ReadBatch(t.Context(), providertest.Credential(), "b1")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v; report (-want +got):\n%s", document, err, diff)
		}
	}
}

// A job whose results are gone is not taken for the one that is searched for.
func TestFindBatchWithoutResults(t *testing.T) {
	list := `{"data":[{"id":"b1","processing_status":"ended","results_url":"x","created_at":"2026-01-01T00:00:00Z","request_counts":{"succeeded":1}}],"has_more":false}`
	p, err := anthropic.New(provider.Settings{BaseURL: "https://api.anthropic.com", Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/results") {
			return providertest.Canned(http.StatusNotFound, http.Header{}, `{"type":"error","error":{"type":"not_found_error","message":"no"}}`)(r)
		}
		return providertest.Canned(http.StatusOK, http.Header{}, list)(r)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.FindBatch(t.Context(), providertest.Credential(), provider.BatchSearch{Mark: "m", Count: 1}); !errors.Is(err, provider.ErrNoBatch) {
		t.Errorf("error %v, want that there is none", err)
	}
}
