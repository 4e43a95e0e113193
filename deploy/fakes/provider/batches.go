package provider

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

const (
	// maxUpload is the maximum size of a request that makes a batch job, or uploads its file.
	maxUpload = 80 << 20
	// defaultPolls is how often a job is read until it has ended.
	defaultPolls = 2
	// maxBatches and maxFiles are how many jobs and files are kept; the oldest are dropped first.
	maxBatches, maxFiles = 1000, 3000
	maxMade, maxMadeIDs  = 10_000, 10
)

// The states of a job, in OpenAI's words; Anthropic calls all ends "ended".
const (
	stateValidating = "validating"
	stateInProgress = "in_progress"
	stateCancelling = "cancelling"
	stateCompleted  = "completed"
	stateFailed     = "failed"
	stateExpired    = "expired"
	stateCancelled  = "cancelled"
)

var endStates = []string{stateCompleted, stateFailed, stateExpired, stateCancelled}

// MadeBatch is a batch job that the vendor made. By it a test asserts that a job was made exactly once.
type MadeBatch struct {
	Time time.Time `json:"time"`
	ID   string    `json:"id"`
	// Path is that of the call that made it, and Endpoint that of its requests.
	Path     string `json:"path"`
	Endpoint string `json:"endpoint"`
	Requests int    `json:"requests"`
	// CustomIDs are those of its first ten requests.
	CustomIDs []string          `json:"custom_ids"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// batch is a job. Its requests are answered when it is made, and the answers are shown from its end on.
type batch struct {
	id, owner, endpoint string
	metadata            map[string]string
	created             time.Time
	lines               []batchLine
	problems            []batchProblem

	state string
	// polls is how often the job was read. held reports that only a control call changes its state.
	polls int
	held  bool
	// cancelled and ended are zero until then.
	cancelled, ended time.Time
	// input, output and failures are OpenAI's files.
	input, output, failures string
}

func (b *batch) hasEnded() bool { return slices.Contains(endStates, b.state) }

// batchLine is a request of a job with the fake's answer to it. late reports that the job ended before it was answered.
type batchLine struct {
	customID string
	status   int
	answer   json.RawMessage
	request  string // its first 2 KiB, for the journal
	late     bool
}

func (l *batchLine) answered() bool { return !l.late && l.status == http.StatusOK }

// batchProblem is why OpenAI fails a whole job.
type batchProblem struct {
	Code    string  `json:"code"`
	Line    int     `json:"line"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

// batchStore holds the batch jobs of the fake and their files. It is safe for concurrent use.
type batchStore struct {
	api      http.Handler // answers the requests of jobs
	made     *journal.Journal[MadeBatch]
	answered *journal.Journal[Answered]

	mu    sync.Mutex
	polls int
	jobs  []*batch      // oldest first
	files []*storedFile // oldest first
}

func newBatchStore(api http.Handler, answered *journal.Journal[Answered]) *batchStore {
	return &batchStore{api: api, made: journal.New[MadeBatch](maxMade, maxAnsweredBytes), answered: answered, polls: defaultPolls}
}

// serve adds the vendors' calls to api and the control calls to control.
func (s *batchStore) serve(api, control *http.ServeMux) {
	s.serveFiles(api)
	s.serveOpenAI(api)
	s.serveAnthropic(api)
	control.HandleFunc("GET /_batches", func(w http.ResponseWriter, _ *http.Request) {
		fault.WriteJSON(w, http.StatusOK, map[string]any{"batches": s.made.Last(maxMade, nil), "total": s.made.Total()})
	})
	control.HandleFunc("DELETE /_batches", func(w http.ResponseWriter, _ *http.Request) {
		s.made.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	control.HandleFunc("PUT /_batches", controlCall(func(_ *http.Request, order batchOrder) error { return s.order(order) }))
	control.HandleFunc("PUT /_batches/{id}", controlCall(func(r *http.Request, order batchOrder) error {
		return s.direct(r.PathValue("id"), order)
	}))
}

// batchOrder is the body of a control call.
type batchOrder struct {
	// Polls is how often each job is read until it has ended; 0 is for jobs that only a control call ends.
	Polls *int `json:"polls"`
	// Status is the state that a job gets and keeps. Answered is how many of its first requests were answered then: by
	// default all of a job that is completed, and none of another.
	Status   string `json:"status"`
	Answered *int   `json:"answered"`
}

func controlCall(obey func(r *http.Request, order batchOrder) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var order batchOrder
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&order)
		if err == nil {
			err = obey(r, order)
		}
		if err != nil {
			fault.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *batchStore) order(order batchOrder) error {
	if order.Polls == nil || *order.Polls < 0 || order.Status != "" || order.Answered != nil {
		return errors.New("polls: want a number of reads, or 0 for jobs that only PUT /_batches/{id} ends")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls = *order.Polls
	return nil
}

// direct gives a job a state.
func (s *batchStore) direct(id string, order batchOrder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.jobs, func(b *batch) bool { return b.id == id })
	switch {
	case i < 0:
		return fmt.Errorf("there is no batch job %q", id)
	case order.Polls != nil:
		return errors.New("polls: is set by PUT /_batches for all jobs")
	case s.jobs[i].hasEnded():
		return errors.New("status: the batch job has ended")
	}
	b := s.jobs[i]
	switch {
	case slices.Contains(endStates, order.Status):
		answered := 0
		if order.Status == stateCompleted {
			answered = len(b.lines)
		}
		if order.Answered != nil {
			answered = min(max(*order.Answered, 0), len(b.lines))
		}
		if order.Status == stateFailed && len(b.problems) == 0 {
			b.problems = []batchProblem{{Code: "invalid_json_line", Line: 1, Message: "This line is not parseable as valid JSON."}}
		}
		s.end(b, order.Status, answered)
	case order.Status == stateValidating, order.Status == stateInProgress, order.Status == "finalizing", order.Status == stateCancelling:
		b.state = order.Status
	default:
		return fmt.Errorf("status: %q is not a state of OpenAI's", order.Status)
	}
	b.held = true
	return nil
}

// Batches returns the jobs that the vendor made, oldest first.
func (s *Server) Batches() []MadeBatch { return s.batches.made.Last(maxMade, nil) }

// SetBatchPolls sets how often a job is read until it has ended; 0 leaves the end of jobs to PUT /_batches/{id}. The default
// is 2: the first reading finds a job in progress, and the second one finds it completed.
func (s *Server) SetBatchPolls(n int) {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	s.batches.polls = n
}

// ownerOf returns whose files and jobs a caller sees.
func ownerOf(r *http.Request) string {
	return r.Header.Get("Authorization") + "\x00" + r.Header.Get("Api-Key") + "\x00" + r.Header.Get("X-Api-Key")
}

// newID returns an id that no other run of the fake has given, since a gateway keeps ids for longer than the fake.
func newID(prefix string) string { return prefix + rand.Text() }

// run answers a request of a job as if it came alone: with the credentials, the version and the script of the call r that
// makes the job.
func (s *batchStore) run(r *http.Request, customID, endpoint string, body json.RawMessage) batchLine {
	line := batchLine{customID: customID, request: string(body[:min(len(body), maxAnsweredBody)])}
	var stream struct {
		Stream bool `json:"stream"`
	}
	_ = json.Unmarshal(body, &stream) // The API refuses what is no object.
	answer := &captured{header: http.Header{}, status: http.StatusOK}
	call := r.Clone(r.Context())
	call.Method, call.URL.Path, call.URL.RawQuery = http.MethodPost, endpoint, ""
	call.Body, call.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if stream.Stream {
		fail(answer, call, http.StatusBadRequest, "stream: is not supported in a batch")
	} else {
		s.api.ServeHTTP(answer, call)
	}
	line.status, line.answer = answer.status, answer.body.Bytes()
	return line
}

// captured is an answer that stays here.
type captured struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *captured) Header() http.Header { return c.header }

func (c *captured) WriteHeader(status int) { c.status = status }

func (c *captured) Write(p []byte) (int, error) { return c.body.Write(p) }

// add makes a job. path is that of the call.
func (s *batchStore) add(b *batch, path string) {
	b.created = time.Now().UTC()
	made := MadeBatch{Time: b.created, ID: b.id, Path: path, Endpoint: b.endpoint, Requests: len(b.lines), Metadata: b.metadata, CustomIDs: []string{}}
	for _, line := range b.lines[:min(len(b.lines), maxMadeIDs)] {
		made.CustomIDs = append(made.CustomIDs, line.customID)
	}
	s.mu.Lock()
	s.jobs = append(s.jobs, b)
	s.jobs = s.jobs[max(0, len(s.jobs)-maxBatches):]
	s.mu.Unlock()
	s.made.Add(made, 0)
}

// read finds a caller's job and counts the reading, which may end it.
func (s *batchStore) read(r *http.Request) *batch {
	b := s.find(r)
	if b == nil || b.hasEnded() || b.held {
		return b
	}
	b.polls++
	switch {
	case b.state == stateCancelling:
		s.end(b, stateCancelled, 0)
	case len(b.problems) > 0:
		s.end(b, stateFailed, 0)
	case s.polls > 0 && b.polls >= s.polls:
		s.end(b, stateCompleted, len(b.lines))
	default:
		b.state = stateInProgress
	}
	return b
}

// find returns a caller's job, or nil. The store is locked.
func (s *batchStore) find(r *http.Request) *batch {
	id, owner := r.PathValue("id"), ownerOf(r)
	for _, b := range s.jobs {
		if b.id == id && b.owner == owner {
			return b
		}
	}
	return nil
}

// end ends a job of which the first requests were answered. What was answered is billed from now on.
func (s *batchStore) end(b *batch, state string, answered int) {
	b.state, b.ended = state, time.Now().UTC()
	if state == stateCancelled && b.cancelled.IsZero() {
		b.cancelled = b.ended
	}
	for i := range b.lines {
		line := &b.lines[i]
		line.late = i >= answered
		if line.answered() {
			s.answered.Add(Answered{Time: b.ended, Path: b.endpoint, Body: line.request, Batch: b.id}, len(line.request))
		}
	}
	if b.input != "" && state != stateFailed {
		b.output, b.failures = s.outputs(b)
		for i := range b.lines {
			b.lines[i].answer = nil // It is in a file now.
		}
	}
}

// cancel cancels a caller's job. It returns nil for no job, and false for one that has ended.
func (s *batchStore) cancel(r *http.Request) (b *batch, ok bool) {
	if b = s.find(r); b == nil || b.hasEnded() {
		return b, false
	}
	if b.cancelled.IsZero() {
		b.cancelled = time.Now().UTC()
	}
	b.state = stateCancelling
	return b, true
}

// page returns the caller's jobs behind the one of an id, the newest first.
func (s *batchStore) page(r *http.Request, after string, limit int) (jobs []*batch, more bool) {
	owner, skipped := ownerOf(r), after == ""
	for _, b := range slices.Backward(s.jobs) {
		switch {
		case b.owner != owner:
		case !skipped:
			skipped = b.id == after
		case len(jobs) == limit:
			return jobs, true
		default:
			jobs = append(jobs, b)
		}
	}
	return jobs, false
}
