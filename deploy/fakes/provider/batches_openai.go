package provider

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	maxOpenAILines  = 50_000
	completionTime  = 24 * time.Hour
	maxMetadata     = 16
	maxOpenAIPage   = 100
	defaultPageSize = 20
)

// batchEndpoints are the APIs that OpenAI runs jobs of; the fake has only some of them.
var batchEndpoints = []string{"/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/completions", "/v1/moderations"}

// openAIBatch is a job as OpenAI shows it.
type openAIBatch struct {
	ID               string              `json:"id"`
	Object           string              `json:"object"`
	Endpoint         string              `json:"endpoint"`
	Errors           *openAIBatchErrors  `json:"errors"`
	InputFileID      string              `json:"input_file_id"`
	CompletionWindow string              `json:"completion_window"`
	Status           string              `json:"status"`
	OutputFileID     *string             `json:"output_file_id"`
	ErrorFileID      *string             `json:"error_file_id"`
	CreatedAt        int64               `json:"created_at"`
	ExpiresAt        int64               `json:"expires_at"`
	CompletedAt      *int64              `json:"completed_at"`
	FailedAt         *int64              `json:"failed_at"`
	ExpiredAt        *int64              `json:"expired_at"`
	CancellingAt     *int64              `json:"cancelling_at"`
	CancelledAt      *int64              `json:"cancelled_at"`
	RequestCounts    openAIRequestCounts `json:"request_counts"`
	Metadata         map[string]string   `json:"metadata"`
}

type openAIBatchErrors struct {
	Object string         `json:"object"`
	Data   []batchProblem `json:"data"`
}

type openAIRequestCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

type openAIBatchList struct {
	Object  string        `json:"object"`
	Data    []openAIBatch `json:"data"`
	FirstID string        `json:"first_id,omitempty"`
	LastID  string        `json:"last_id,omitempty"`
	HasMore bool          `json:"has_more"`
}

// openAIBatchResult is a line of an output file or an error file.
type openAIBatchResult struct {
	ID       string               `json:"id"`
	CustomID string               `json:"custom_id"`
	Response *openAIBatchResponse `json:"response"`
	Error    *openAILineError     `json:"error"`
}

type openAIBatchResponse struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"`
}

type openAILineError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *batchStore) serveOpenAI(api *http.ServeMux) {
	api.Handle("POST /v1/batches", openAI(s.createOpenAI))
	api.HandleFunc("GET /v1/batches", authorized(s.listOpenAI))
	api.HandleFunc("GET /v1/batches/{id}", authorized(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.showOpenAI(w, r, s.read(r))
	}))
	api.HandleFunc("POST /v1/batches/{id}/cancel", authorized(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		b, ok := s.cancel(r)
		if b != nil && !ok {
			fail(w, r, http.StatusConflict, "Cannot cancel a batch with status '"+b.state+"'.")
			return
		}
		s.showOpenAI(w, r, b)
	}))
}

// authorized passes only calls with a credential.
func authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && r.Header.Get("Api-Key") == "" {
			fail(w, r, http.StatusUnauthorized, "")
			return
		}
		next(w, r)
	}
}

func (s *batchStore) showOpenAI(w http.ResponseWriter, r *http.Request, b *batch) {
	if b == nil {
		fail(w, r, http.StatusNotFound, "No batch found with id '"+r.PathValue("id")+"'.")
		return
	}
	writeJSON(w, http.StatusOK, b.openAI())
}

// createOpenAI answers POST /v1/batches.
func (s *batchStore) createOpenAI(w http.ResponseWriter, r *http.Request, body []byte) {
	var req struct {
		InputFileID      string            `json:"input_file_id"`
		Endpoint         string            `json:"endpoint"`
		CompletionWindow string            `json:"completion_window"`
		Metadata         map[string]string `json:"metadata"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		fail(w, r, http.StatusBadRequest, "We could not parse the JSON body of your request: "+err.Error())
		return
	}
	input := s.file(r, req.InputFileID)
	switch {
	case req.CompletionWindow != "24h":
		fail(w, r, http.StatusBadRequest, "Invalid value for 'completion_window': must be '24h'.")
	case !slices.Contains(batchEndpoints, req.Endpoint):
		fail(w, r, http.StatusBadRequest, "Invalid value for 'endpoint'.")
	case input == nil || input.purpose != "batch":
		fail(w, r, http.StatusBadRequest, "Invalid value for 'input_file_id': no such file of the purpose 'batch'.")
	case len(req.Metadata) > maxMetadata:
		fail(w, r, http.StatusBadRequest, "Invalid 'metadata': too many properties.")
	default:
		b := &batch{
			id: newID("batch_"), owner: ownerOf(r), endpoint: req.Endpoint, metadata: req.Metadata, state: stateValidating, input: input.id,
		}
		s.runFile(r, b, input.text)
		s.add(b, r.URL.Path)
		s.mu.Lock()
		shown := b.openAI()
		s.mu.Unlock()
		writeJSON(w, http.StatusOK, shown) // A script may make it slow.
	}
}

// runFile answers the requests of a file, or notes why the job will fail.
func (s *batchStore) runFile(r *http.Request, b *batch, text []byte) {
	type request struct {
		CustomID string          `json:"custom_id"`
		Method   string          `json:"method"`
		URL      string          `json:"url"`
		Body     json.RawMessage `json:"body"`
	}
	var requests []request
	seen := make(map[string]bool)
	number := 0
	for line := range bytes.Lines(text) {
		number++
		problem := func(code, message string) {
			b.problems = append(b.problems, batchProblem{Code: code, Line: number, Message: message})
		}
		var req request
		switch err := json.Unmarshal(line, &req); {
		case err != nil:
			problem("invalid_json_line", "This line is not parseable as valid JSON.")
		case req.CustomID == "":
			problem("missing_required_parameter", "The custom_id is missing.")
		case seen[req.CustomID]:
			problem("duplicate_custom_id", "The custom_id for this request is a duplicate of another request.")
		case req.Method != http.MethodPost:
			problem("invalid_method", "The method of this request must be POST.")
		case req.URL != b.endpoint:
			problem("mismatched_endpoint", "The url of this request does not match the endpoint of the batch.")
		}
		seen[req.CustomID] = true
		requests = append(requests, req)
	}
	switch {
	case len(b.problems) > 0:
		return
	case number == 0:
		b.problems = []batchProblem{{Code: "empty_file", Message: "The input file is empty."}}
		return
	case number > maxOpenAILines:
		b.problems = []batchProblem{{Code: "too_many_tasks", Message: "The batch input file contains too many requests."}}
		return
	}
	for _, req := range requests {
		b.lines = append(b.lines, s.run(r, req.CustomID, b.endpoint, req.Body))
	}
}

// listOpenAI answers GET /v1/batches.
func (s *batchStore) listOpenAI(w http.ResponseWriter, r *http.Request) {
	limit, ok := pageSize(r, maxOpenAIPage)
	if !ok {
		fail(w, r, http.StatusBadRequest, "Invalid 'limit'.")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs, more := s.page(r, r.URL.Query().Get("after"), limit)
	list := openAIBatchList{Object: "list", Data: []openAIBatch{}, HasMore: more}
	for _, b := range jobs {
		list.Data = append(list.Data, b.openAI())
	}
	if len(jobs) > 0 {
		list.FirstID, list.LastID = jobs[0].id, jobs[len(jobs)-1].id
	}
	writeJSON(w, http.StatusOK, list)
}

// pageSize returns the query's limit.
func pageSize(r *http.Request, most int) (int, bool) {
	raw := r.URL.Query().Get("limit")
	if raw == "" {
		return defaultPageSize, true
	}
	n, err := strconv.Atoi(raw)
	return n, err == nil && n >= 1 && n <= most
}

func (b *batch) openAI() openAIBatch {
	shown := openAIBatch{
		ID: b.id, Object: "batch", Endpoint: b.endpoint, InputFileID: b.input, CompletionWindow: "24h", Status: b.state,
		OutputFileID: given(b.output), ErrorFileID: given(b.failures), CreatedAt: b.created.Unix(), ExpiresAt: b.created.Add(completionTime).Unix(),
		CancellingAt: moment(b.cancelled), RequestCounts: openAIRequestCounts{Total: len(b.lines)}, Metadata: b.metadata,
	}
	switch b.state {
	case stateCompleted:
		shown.CompletedAt = moment(b.ended)
	case stateFailed:
		shown.FailedAt, shown.Errors = moment(b.ended), &openAIBatchErrors{"list", b.problems}
	case stateExpired:
		shown.ExpiredAt = moment(b.ended)
	case stateCancelled:
		shown.CancelledAt = moment(b.ended)
	}
	if b.hasEnded() && b.state != stateFailed {
		for i := range b.lines {
			if b.lines[i].answered() {
				shown.RequestCounts.Completed++
			} else {
				shown.RequestCounts.Failed++
			}
		}
	}
	return shown
}

func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func moment(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	return new(at.Unix())
}

// outputs stores the results of a job, in the reverse order of its requests. A file without a line is not made.
func (s *batchStore) outputs(b *batch) (output, failures string) {
	var good, bad bytes.Buffer
	for _, line := range slices.Backward(b.lines) {
		result := openAIBatchResult{ID: id("batch_req_", 32, []byte(b.id+line.customID), "result"), CustomID: line.customID}
		to := &bad
		if line.late {
			result.Error = lateErrors[b.state]
		} else {
			result.Response = &openAIBatchResponse{line.status, requestID([]byte(b.id + line.customID)), line.answer}
		}
		if line.answered() {
			to = &good
		}
		to.Write(append(encode(result), '\n'))
	}
	return s.store(b.owner, b.id+"_output.jsonl", "batch_output", good.Bytes()), s.store(b.owner, b.id+"_error.jsonl", "batch_output", bad.Bytes())
}

// lateErrors are the errors of requests that a job ended before.
var lateErrors = map[string]*openAILineError{
	stateExpired:   {"batch_expired", "This request could not be executed before the completion window expired."},
	stateCancelled: {"batch_cancelled", "This request was not executed, since the batch was cancelled."},
	stateCompleted: {"server_error", "This request could not be executed."},
}
