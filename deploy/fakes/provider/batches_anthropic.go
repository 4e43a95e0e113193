package provider

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

const (
	maxAnthropicLines = 100_000
	maxAnthropicPage  = 1000
)

// messageBatch is a job as Anthropic shows it.
type messageBatch struct {
	ID                string             `json:"id"`
	Type              string             `json:"type"`
	ProcessingStatus  string             `json:"processing_status"`
	RequestCounts     messageBatchCounts `json:"request_counts"`
	EndedAt           *time.Time         `json:"ended_at"`
	CreatedAt         time.Time          `json:"created_at"`
	ExpiresAt         time.Time          `json:"expires_at"`
	ArchivedAt        *time.Time         `json:"archived_at"`
	CancelInitiatedAt *time.Time         `json:"cancel_initiated_at"`
	ResultsURL        *string            `json:"results_url"`
}

type messageBatchCounts struct {
	Processing int `json:"processing"`
	Succeeded  int `json:"succeeded"`
	Errored    int `json:"errored"`
	Canceled   int `json:"canceled"`
	Expired    int `json:"expired"`
}

type messageBatchList struct {
	Data    []messageBatch `json:"data"`
	HasMore bool           `json:"has_more"`
	FirstID *string        `json:"first_id"`
	LastID  *string        `json:"last_id"`
}

// messageBatchResult is a line of the results.
type messageBatchResult struct {
	CustomID string         `json:"custom_id"`
	Result   messageOutcome `json:"result"`
}

type messageOutcome struct {
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

func (s *batchStore) serveAnthropic(api *http.ServeMux) {
	api.HandleFunc("POST /v1/messages/batches", keyed(s.createAnthropic))
	api.HandleFunc("GET /v1/messages/batches", keyed(s.listAnthropic))
	one := func(pattern string, find func(r *http.Request) *batch, answer func(w http.ResponseWriter, r *http.Request, b *batch)) {
		api.HandleFunc(pattern, keyed(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if b := find(r); b != nil {
				answer(w, r, b)
				return
			}
			fail(w, r, http.StatusNotFound, "")
		}))
	}
	show := func(w http.ResponseWriter, r *http.Request, b *batch) { writeJSON(w, http.StatusOK, b.anthropic(r)) }
	one("GET /v1/messages/batches/{id}", s.read, show)
	one("POST /v1/messages/batches/{id}/cancel", s.find, func(w http.ResponseWriter, r *http.Request, b *batch) {
		if _, ok := s.cancel(r); !ok {
			fail(w, r, http.StatusBadRequest, "Batch "+b.id+" cannot be canceled because it has already ended processing.")
			return
		}
		show(w, r, b)
	})
	one("GET /v1/messages/batches/{id}/results", s.find, func(w http.ResponseWriter, r *http.Request, b *batch) {
		if !b.hasEnded() {
			fail(w, r, http.StatusNotFound, "Batch "+b.id+" has no available results.")
			return
		}
		w.Header().Set("Content-Type", "application/x-jsonl")
		_, _ = w.Write(b.anthropicResults())
	})
	one("DELETE /v1/messages/batches/{id}", s.find, func(w http.ResponseWriter, r *http.Request, b *batch) {
		if !b.hasEnded() {
			fail(w, r, http.StatusBadRequest, "Batch "+b.id+" cannot be deleted while it is still processing.")
			return
		}
		s.jobs = slices.DeleteFunc(s.jobs, func(other *batch) bool { return other == b })
		writeJSON(w, http.StatusOK, struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		}{b.id, "message_batch_deleted"})
	})
}

// keyed passes only calls with a credential and a version.
func keyed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Api-Key") == "" && r.Header.Get("Authorization") == "":
			fail(w, r, http.StatusUnauthorized, "x-api-key header is required")
		case r.Header.Get("Anthropic-Version") == "":
			fail(w, r, http.StatusBadRequest, "anthropic-version: header is required")
		default:
			w.Header().Set("Request-Id", newID("req_"))
			next(w, r)
		}
	}
}

var anthropicCustomID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// createAnthropic answers POST /v1/messages/batches.
func (s *batchStore) createAnthropic(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Requests []struct {
			CustomID string          `json:"custom_id"`
			Params   json.RawMessage `json:"params"`
		} `json:"requests"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &req) != nil {
		fail(w, r, http.StatusBadRequest, "The request body is not valid JSON")
		return
	}
	if len(req.Requests) == 0 || len(req.Requests) > maxAnthropicLines {
		fail(w, r, http.StatusBadRequest, "requests: List should have 1 to "+strconv.Itoa(maxAnthropicLines)+" items")
		return
	}
	seen := make(map[string]bool)
	for i, request := range req.Requests {
		at := "requests." + strconv.Itoa(i)
		switch {
		case !anthropicCustomID.MatchString(request.CustomID):
			fail(w, r, http.StatusBadRequest, at+".custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
			return
		case seen[request.CustomID]:
			fail(w, r, http.StatusBadRequest, at+".custom_id: is not unique")
			return
		case len(request.Params) == 0:
			fail(w, r, http.StatusBadRequest, at+".params: Field required")
			return
		}
		seen[request.CustomID] = true
	}
	b := &batch{id: newID("msgbatch_"), owner: ownerOf(r), endpoint: "/v1/messages", state: stateInProgress}
	for _, request := range req.Requests {
		b.lines = append(b.lines, s.run(r, request.CustomID, b.endpoint, request.Params))
	}
	s.add(b, r.URL.Path)
	s.mu.Lock()
	shown := b.anthropic(r)
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, shown) // A script may make it slow.
}

// listAnthropic answers GET /v1/messages/batches.
func (s *batchStore) listAnthropic(w http.ResponseWriter, r *http.Request) {
	limit, ok := pageSize(r, maxAnthropicPage)
	if !ok {
		fail(w, r, http.StatusBadRequest, "limit: Input should be 1 to 1000")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs, more := s.page(r, r.URL.Query().Get("after_id"), limit)
	list := messageBatchList{Data: []messageBatch{}, HasMore: more}
	for _, b := range jobs {
		list.Data = append(list.Data, b.anthropic(r))
	}
	if len(jobs) > 0 {
		list.FirstID, list.LastID = &jobs[0].id, &jobs[len(jobs)-1].id
	}
	writeJSON(w, http.StatusOK, list)
}

// anthropic returns the job as Anthropic shows it to a call.
func (b *batch) anthropic(r *http.Request) messageBatch {
	shown := messageBatch{
		ID: b.id, Type: "message_batch", ProcessingStatus: "in_progress", CreatedAt: b.created, ExpiresAt: b.created.Add(completionTime),
		RequestCounts: messageBatchCounts{Processing: len(b.lines)},
	}
	if !b.cancelled.IsZero() {
		shown.ProcessingStatus, shown.CancelInitiatedAt = "canceling", &b.cancelled
	}
	if !b.hasEnded() {
		return shown
	}
	shown.ProcessingStatus, shown.EndedAt = "ended", &b.ended
	shown.ResultsURL = new("http://" + r.Host + "/v1/messages/batches/" + b.id + "/results")
	shown.RequestCounts = messageBatchCounts{}
	for i := range b.lines {
		switch b.outcome(&b.lines[i]) {
		case "succeeded":
			shown.RequestCounts.Succeeded++
		case "canceled":
			shown.RequestCounts.Canceled++
		case "expired":
			shown.RequestCounts.Expired++
		default:
			shown.RequestCounts.Errored++
		}
	}
	return shown
}

// outcome returns the vendor's word for what became of a request.
func (b *batch) outcome(line *batchLine) string {
	switch {
	case line.answered():
		return "succeeded"
	case line.late && b.state == stateCancelled:
		return "canceled"
	case line.late && b.state == stateExpired:
		return "expired"
	}
	return "errored"
}

// anthropicResults returns the results of a job, in the reverse order of its requests.
func (b *batch) anthropicResults() []byte {
	var text []byte
	for _, line := range slices.Backward(b.lines) {
		result := messageBatchResult{CustomID: line.customID, Result: messageOutcome{Type: b.outcome(&line)}}
		switch {
		case result.Result.Type == "succeeded":
			result.Result.Message = line.answer
		case result.Result.Type == "errored" && line.late:
			result.Result.Error = json.RawMessage(`{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`)
		case result.Result.Type == "errored":
			result.Result.Error = line.answer
		}
		text = append(append(text, encode(result)...), '\n')
	}
	return text
}
