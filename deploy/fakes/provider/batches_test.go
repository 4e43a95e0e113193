package provider

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/fakes/fault"
)

// call sends a request and decodes the answer, whose status must be as wanted.
func call[T any](t *testing.T, srv *Server, status int, req request) (answer T) {
	t.Helper()
	resp := do(t, srv, req)
	if resp.Code != status {
		t.Fatalf("%s %s: %d %s, want %d", req.method, req.path, resp.Code, resp.Body, status)
	}
	if err := json.Unmarshal(resp.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %v: %s", req.method, req.path, err, resp.Body)
	}
	return answer
}

// uploaded returns the request that uploads a file.
func uploaded(t *testing.T, purpose, text string) request {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	_ = form.WriteField("purpose", purpose)
	part, err := form.CreateFormFile("file", "a.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte(text))
	_ = form.Close()
	header := map[string]string{"Content-Type": form.FormDataContentType(), "Authorization": bearer["Authorization"]}
	return request{"POST", "/v1/files", body.String(), header}
}

const (
	goodLine = `{"custom_id":"a-1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"one"}]}}`
	badLine  = `{"custom_id":"a-2","method":"POST","url":"/v1/chat/completions","body":{"model":""}}`
	lastLine = `{"custom_id":"a-3","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"three"}]}}`
)

// openAIJob makes a job of the lines.
func openAIJob(t *testing.T, srv *Server, lines ...string) openAIBatch {
	t.Helper()
	file := call[openAIFile](t, srv, http.StatusOK, uploaded(t, "batch", strings.Join(lines, "\n")))
	return call[openAIBatch](t, srv, http.StatusOK, request{
		"POST", "/v1/batches",
		`{"input_file_id":"` + file.ID + `","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"k":"v"}}`, bearer,
	})
}

func readJob(t *testing.T, srv *Server, id string) openAIBatch {
	t.Helper()
	return call[openAIBatch](t, srv, http.StatusOK, request{"GET", "/v1/batches/" + id, "", bearer})
}

// lines returns the results in a file, by their custom ids.
func lines(t *testing.T, srv *Server, file *string) (ids []string, results map[string]openAIBatchResult) {
	t.Helper()
	results = map[string]openAIBatchResult{}
	if file == nil {
		return nil, results
	}
	for line := range strings.Lines(do(t, srv, request{"GET", "/v1/files/" + *file + "/content", "", bearer}).Body.String()) {
		var result openAIBatchResult
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		ids = append(ids, result.CustomID)
		results[result.CustomID] = result
	}
	return ids, results
}

// A job is in progress when it is read first, and completed when it is read again. Its answers are those of the same
// requests on their own, the last first.
func TestOpenAIBatch(t *testing.T) {
	srv := New(fault.Script{})
	made := openAIJob(t, srv, goodLine, badLine, lastLine)
	if made.Status != "validating" || made.Metadata["k"] != "v" {
		t.Errorf("made %+v, want validating with its metadata", made)
	}
	if got := readJob(t, srv, made.ID); got.Status != "in_progress" || got.OutputFileID != nil || len(srv.Answered(9)) != 0 {
		t.Errorf("read first: %+v with %d answered, want in progress without an output or an answer", got, len(srv.Answered(9)))
	}
	got := readJob(t, srv, made.ID)
	if got.Status != "completed" || got.RequestCounts != (openAIRequestCounts{3, 2, 1}) || got.CompletedAt == nil {
		t.Fatalf("read again: %+v, want completed with 2 answered and 1 failed of 3", got)
	}
	ids, good := lines(t, srv, got.OutputFileID)
	if diff := cmp.Diff([]string{"a-3", "a-1"}, ids); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	online := do(t, srv, request{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"one"}]}`, bearer}).Body.String()
	if response := good["a-1"].Response; response == nil || response.StatusCode != http.StatusOK || string(response.Body) != online {
		t.Errorf("the answer in the job is %+v, want that of the call on its own: %s", response, online)
	}
	_, bad := lines(t, srv, got.ErrorFileID)
	if response := bad["a-2"].Response; response == nil || response.StatusCode != http.StatusBadRequest {
		t.Errorf("the request that is refused: %+v, want status 400", response)
	}
	if answered := srv.Answered(9); len(answered) != 3 || answered[0].Batch != made.ID || answered[2].Batch != "" {
		t.Errorf("answered: %+v, want two of the job and one on its own", answered)
	}
	list := call[openAIBatchList](t, srv, http.StatusOK, request{"GET", "/v1/batches?limit=1", "", bearer})
	if len(list.Data) != 1 || list.HasMore || list.LastID != made.ID {
		t.Errorf("list: %+v, want the job", list)
	}
	journal := call[struct {
		Batches []MadeBatch
		Total   int
	}](t, srv, http.StatusOK, request{"GET", "/_batches", "", nil})
	if journal.Total != 1 || journal.Batches[0].ID != made.ID || journal.Batches[0].Requests != 3 || journal.Batches[0].CustomIDs[0] != "a-1" {
		t.Errorf("journal: %+v, want the job once, with its requests", journal)
	}
}

func TestOpenAIBatchEnds(t *testing.T) {
	tests := map[string]struct {
		order  string // the control call's body
		cancel bool
		want   openAIRequestCounts
		status string
		code   string // of the last request
	}{
		"cancelled":         {cancel: true, want: openAIRequestCounts{2, 0, 2}, status: "cancelled", code: "batch_cancelled"},
		"expired":           {order: `{"status":"expired","answered":1}`, want: openAIRequestCounts{2, 1, 1}, status: "expired", code: "batch_expired"},
		"expired at once":   {order: `{"status":"expired"}`, want: openAIRequestCounts{2, 0, 2}, status: "expired", code: "batch_expired"},
		"completed":         {order: `{"status":"completed"}`, want: openAIRequestCounts{2, 2, 0}, status: "completed"},
		"failed":            {order: `{"status":"failed"}`, want: openAIRequestCounts{Total: 2}, status: "failed"},
		"kept in its state": {order: `{"status":"finalizing"}`, want: openAIRequestCounts{Total: 2}, status: "finalizing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := New(fault.Script{})
			made := openAIJob(t, srv, goodLine, lastLine)
			if tt.cancel {
				if got := call[openAIBatch](t, srv, http.StatusOK, request{"POST", "/v1/batches/" + made.ID + "/cancel", "", bearer}); got.Status != "cancelling" {
					t.Errorf("cancelled: %s, want cancelling", got.Status)
				}
			}
			if tt.order != "" {
				if resp := do(t, srv, request{"PUT", "/_batches/" + made.ID, tt.order, nil}); resp.Code != http.StatusNoContent {
					t.Fatalf("the order: %d %s", resp.Code, resp.Body)
				}
			}
			readJob(t, srv, made.ID)
			got := readJob(t, srv, made.ID)
			if got.Status != tt.status || got.RequestCounts != tt.want || (got.Errors != nil) != (tt.status == "failed") {
				t.Fatalf("%s with %+v and errors %v, want %s with %+v", got.Status, got.RequestCounts, got.Errors, tt.status, tt.want)
			}
			_, bad := lines(t, srv, got.ErrorFileID)
			if tt.code != "" && (bad["a-3"].Error == nil || bad["a-3"].Error.Code != tt.code) {
				t.Errorf("the last request: %+v, want %s", bad["a-3"], tt.code)
			}
			if tt.cancel {
				call[openAIError](t, srv, http.StatusConflict, request{"POST", "/v1/batches/" + made.ID + "/cancel", "", bearer})
			}
		})
	}
}

// Jobs whose lines are not valid fail when they are read.
func TestOpenAIBatchFails(t *testing.T) {
	for code, text := range map[string]string{
		"invalid_json_line": "{", "missing_required_parameter": "{}", "duplicate_custom_id": goodLine + "\n" + goodLine,
		"invalid_method": strings.Replace(goodLine, "POST", "GET", 1), "mismatched_endpoint": strings.Replace(goodLine, "/v1/chat/completions", "/v1/responses", 1),
	} {
		srv := New(fault.Script{})
		got := readJob(t, srv, openAIJob(t, srv, text).ID)
		if got.Status != "failed" || got.Errors == nil || got.Errors.Data[0].Code != code {
			t.Errorf("%s: %s with %+v, want failed with %s", text, got.Status, got.Errors, code)
		}
	}
}

// A job can be left to control calls, and the script of its creation answers its requests.
func TestBatchControl(t *testing.T) {
	srv := New(fault.Script{Rules: []fault.Rule{{
		Match: fault.Match{Path: "/v1/batches"}, Action: fault.Action{Answer: json.RawMessage(`{"text":"hm","usage":{"input":9,"output":4}}`)},
	}}})
	if resp := do(t, srv, request{"PUT", "/_batches", `{"polls":0}`, nil}); resp.Code != http.StatusNoContent {
		t.Fatalf("polls: %d %s", resp.Code, resp.Body)
	}
	made := openAIJob(t, srv, goodLine)
	for range 5 {
		if got := readJob(t, srv, made.ID); got.Status != "in_progress" {
			t.Fatalf("%s, want in progress until a control call", got.Status)
		}
	}
	do(t, srv, request{"PUT", "/_batches/" + made.ID, `{"status":"completed"}`, nil})
	_, good := lines(t, srv, readJob(t, srv, made.ID).OutputFileID)
	if body := string(good["a-1"].Response.Body); !strings.Contains(body, `"hm"`) || !strings.Contains(body, `"prompt_tokens":9`) {
		t.Errorf("the answer is %s, want the script's", body)
	}
	for _, req := range []request{
		{"PUT", "/_batches", `{"polls":-1}`, nil},
		{"PUT", "/_batches", `{"poll":1}`, nil},
		{"PUT", "/_batches/" + made.ID, `{"status":"expired"}`, nil},
		{"PUT", "/_batches/nope", `{"status":"expired"}`, nil},
		{"PUT", "/_batches/" + openAIJob(t, srv, goodLine).ID, `{"status":"ended"}`, nil},
	} {
		if resp := do(t, srv, req); resp.Code != http.StatusBadRequest {
			t.Errorf("%s %s: %d, want 400", req.path, req.body, resp.Code)
		}
	}
	srv.SetBatchPolls(1)
	if got := readJob(t, srv, openAIJob(t, srv, goodLine).ID); got.Status != "completed" {
		t.Errorf("%s, want completed when read first", got.Status)
	}
}

// A creation whose answer is cut off has made the job.
func TestBatchOfCutCreation(t *testing.T) {
	fake := New(fault.Script{Rules: []fault.Rule{{Match: fault.Match{Path: "/v1/messages/batches"}, Action: fault.Action{AfterBytes: new(0)}}}})
	srv := httptest.NewServer(fake)
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/messages/batches", strings.NewReader(anthropicJob))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range anthropic {
		r.Header.Set(name, value)
	}
	if resp, err := srv.Client().Do(r); err == nil {
		_ = resp.Body.Close()
	}
	if made := fake.Batches(); len(made) != 1 || made[0].Requests != 3 {
		t.Errorf("made %+v, want one job of three requests", made)
	}
}

const anthropicJob = `{"requests":[
	{"custom_id":"a-1","params":{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"one"}]}},
	{"custom_id":"a-2","params":{"model":"m","messages":[]}},
	{"custom_id":"a-3","params":{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"three"}]}}]}`

func TestAnthropicBatch(t *testing.T) {
	online := do(t, New(fault.Script{}), request{"POST", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"one"}]}`, anthropic}).Body.String()
	tests := map[string]struct {
		order  string
		cancel bool
		want   messageBatchCounts
		first  string // what became of a-1
	}{
		"ended":     {want: messageBatchCounts{Succeeded: 2, Errored: 1}, first: "succeeded"},
		"cancelled": {cancel: true, want: messageBatchCounts{Canceled: 3}, first: "canceled"},
		"expired":   {order: `{"status":"expired","answered":1}`, want: messageBatchCounts{Succeeded: 1, Expired: 2}, first: "succeeded"},
		"failed":    {order: `{"status":"failed"}`, want: messageBatchCounts{Errored: 3}, first: "errored"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := New(fault.Script{})
			made := call[messageBatch](t, srv, http.StatusOK, request{"POST", "/v1/messages/batches", anthropicJob, anthropic})
			at := "/v1/messages/batches/" + made.ID
			if made.ProcessingStatus != "in_progress" || made.RequestCounts != (messageBatchCounts{Processing: 3}) {
				t.Errorf("made %+v, want in progress with 3 requests", made)
			}
			call[anthropicError](t, srv, http.StatusNotFound, request{"GET", at + "/results", "", anthropic})
			call[anthropicError](t, srv, http.StatusBadRequest, request{"DELETE", at, "", anthropic})
			if tt.order != "" {
				do(t, srv, request{"PUT", "/_batches/" + made.ID, tt.order, nil})
			} else if got := call[messageBatch](t, srv, http.StatusOK, request{"GET", at, "", anthropic}); got.ProcessingStatus != "in_progress" {
				t.Errorf("read first: %s, want in progress", got.ProcessingStatus)
			}
			if tt.cancel {
				if got := call[messageBatch](t, srv, http.StatusOK, request{"POST", at + "/cancel", "", anthropic}); got.ProcessingStatus != "canceling" || got.CancelInitiatedAt == nil {
					t.Errorf("cancelled: %+v, want canceling", got)
				}
			}
			got := call[messageBatch](t, srv, http.StatusOK, request{"GET", at, "", anthropic})
			if got.ProcessingStatus != "ended" || got.RequestCounts != tt.want || got.ResultsURL == nil || !strings.HasSuffix(*got.ResultsURL, at+"/results") {
				t.Fatalf("%+v, want ended with %+v and the address of its results", got, tt.want)
			}
			results := do(t, srv, request{"GET", at + "/results", "", anthropic}).Body.String()
			all := strings.Split(strings.TrimSpace(results), "\n")
			var last messageBatchResult
			if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil || len(all) != 3 || last.CustomID != "a-1" || last.Result.Type != tt.first {
				t.Errorf("results: %s, want three, of which a-1 comes last and %s", results, tt.first)
			}
			if tt.first == "succeeded" && string(last.Result.Message) != online {
				t.Errorf("the answer in the job is %s, want that of the call on its own: %s", last.Result.Message, online)
			}
			call[anthropicError](t, srv, http.StatusBadRequest, request{"POST", at + "/cancel", "", anthropic})
			list := call[messageBatchList](t, srv, http.StatusOK, request{"GET", "/v1/messages/batches?limit=100", "", anthropic})
			if len(list.Data) != 1 || list.HasMore || *list.LastID != made.ID {
				t.Errorf("list: %+v, want the job", list)
			}
			call[struct{}](t, srv, http.StatusOK, request{"DELETE", at, "", anthropic})
			call[anthropicError](t, srv, http.StatusNotFound, request{"GET", at, "", anthropic})
			if n := len(srv.Batches()); n != 1 {
				t.Errorf("%d jobs were made, want one", n)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	srv := New(fault.Script{})
	first := call[openAIFile](t, srv, http.StatusOK, uploaded(t, "batch", "one"))
	second := call[openAIFile](t, srv, http.StatusOK, uploaded(t, "user_data", "second"))
	if got := call[openAIFile](t, srv, http.StatusOK, request{"GET", "/v1/files/" + second.ID, "", bearer}); got.Bytes != 6 || got.Filename != "a.jsonl" || got.Purpose != "user_data" {
		t.Errorf("file %+v, want 6 bytes named a.jsonl", got)
	}
	for query, want := range map[string][]string{
		"": {second.ID, first.ID}, "?purpose=batch": {first.ID}, "?after=" + second.ID: {first.ID}, "?limit=1": {second.ID},
	} {
		list := call[openAIFileList](t, srv, http.StatusOK, request{"GET", "/v1/files" + query, "", bearer})
		var got []string
		for _, file := range list.Data {
			got = append(got, file.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" || list.HasMore != (query == "?limit=1") {
			t.Errorf("files%s: more is %t (-want +got):\n%s", query, list.HasMore, diff)
		}
	}
	if got := do(t, srv, request{"GET", "/v1/files/" + first.ID + "/content", "", bearer}).Body.String(); got != "one" {
		t.Errorf("content %q, want one", got)
	}
	call[struct{}](t, srv, http.StatusOK, request{"DELETE", "/v1/files/" + first.ID, "", bearer})
	call[openAIError](t, srv, http.StatusNotFound, request{"GET", "/v1/files/" + first.ID + "/content", "", bearer})
}

func TestBatchRefusals(t *testing.T) {
	srv := New(fault.Script{})
	job := openAIJob(t, srv, goodLine)
	other := map[string]string{"Authorization": "Bearer another"}
	batchOf := func(file, endpoint, window string) string {
		return `{"input_file_id":"` + file + `","endpoint":"` + endpoint + `","completion_window":"` + window + `"}`
	}
	for name, tt := range map[string]struct {
		req    request
		status int
	}{
		"no key":                  {request{"GET", "/v1/batches", "", nil}, 401},
		"no key for a file":       {request{"GET", "/v1/files", "", nil}, 401},
		"another's job":           {request{"GET", "/v1/batches/" + job.ID, "", other}, 404},
		"another's cancellation":  {request{"POST", "/v1/batches/" + job.ID + "/cancel", "", other}, 404},
		"another's file":          {request{"GET", "/v1/files/" + job.InputFileID + "/content", "", other}, 404},
		"a job of another's file": {request{"POST", "/v1/batches", batchOf(job.InputFileID, "/v1/chat/completions", "24h"), other}, 400},
		"an unknown file":         {request{"POST", "/v1/batches", batchOf("file-0", "/v1/chat/completions", "24h"), bearer}, 400},
		"an unknown endpoint":     {request{"POST", "/v1/batches", batchOf(job.InputFileID, "/v1/batches", "24h"), bearer}, 400},
		"another window":          {request{"POST", "/v1/batches", batchOf(job.InputFileID, "/v1/chat/completions", "1h"), bearer}, 400},
		"a form that is none":     {request{"POST", "/v1/files", "{}", bearer}, 400},
		"a file without a use":    {uploaded(t, "", "x"), 400},
		"an empty file":           {uploaded(t, "batch", ""), 400},
		"a page too large":        {request{"GET", "/v1/batches?limit=101", "", bearer}, 400},
		"no version":              {request{"GET", "/v1/messages/batches", "", map[string]string{"X-Api-Key": "k"}}, 400},
		"no requests":             {request{"POST", "/v1/messages/batches", `{"requests":[]}`, anthropic}, 400},
		"a bad custom id":         {request{"POST", "/v1/messages/batches", `{"requests":[{"custom_id":"a b","params":{}}]}`, anthropic}, 400},
		"a custom id twice":       {request{"POST", "/v1/messages/batches", `{"requests":[{"custom_id":"a","params":{}},{"custom_id":"a","params":{}}]}`, anthropic}, 400},
		"no params":               {request{"POST", "/v1/messages/batches", `{"requests":[{"custom_id":"a"}]}`, anthropic}, 400},
	} {
		if resp := do(t, srv, tt.req); resp.Code != tt.status {
			t.Errorf("%s: %d %s, want %d", name, resp.Code, resp.Body, tt.status)
		}
	}
	if n := len(srv.Batches()); n != 1 {
		t.Errorf("%d jobs were made, want one", n)
	}
}
