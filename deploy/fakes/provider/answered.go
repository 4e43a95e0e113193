package provider

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/deploy/fakes/fault"
)

const (
	maxAnswered      = 100_000
	maxAnsweredBytes = 64 << 20
	maxAnsweredBody  = 2 << 10
)

// Answered is a call that the vendor began to answer with 2xx, and would bill.
type Answered struct {
	Time time.Time `json:"time"`
	Path string    `json:"path"`
	// Body is the request's, its first 2 KiB.
	Body string `json:"body"`
	// Credential is that of the call, hashed as in the list of calls; empty for one in another header than Authorization.
	Credential string `json:"credential,omitempty"`
	// Batch is the id of the job that the request was in; empty for a call of its own.
	Batch string `json:"batch,omitempty"`
}

// recordAnswered records the calls that next answers with 2xx.
func (s *Server) recordAnswered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || aboutBatches(r.URL.Path) || strings.HasSuffix(r.URL.Path, "/count-tokens") {
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		head := &head{ResponseWriter: w}
		sent := fault.RedactHeader(http.Header{"Authorization": r.Header["Authorization"]})
		entry := Answered{
			Time: time.Now().UTC(), Path: r.URL.Path, Body: string(body[:min(len(body), maxAnsweredBody)]), Credential: sent.Get("Authorization"),
		}
		// Deferred: a script may end the answer with a panic.
		defer func() {
			if head.status/100 == 2 {
				s.answered.Add(entry, len(entry.Body))
			}
		}()
		next.ServeHTTP(head, r)
	})
}

// aboutBatches reports whether a path is one of batch jobs and their files. Their calls are not billed: the requests in a job
// are recorded when it ends.
func aboutBatches(path string) bool {
	return strings.HasPrefix(path, "/v1/files") || strings.HasPrefix(path, "/v1/batches") || strings.HasPrefix(path, "/v1/messages/batches")
}

// Answered returns the newest answered calls, at most limit, oldest first.
func (s *Server) Answered(limit int) []Answered { return s.answered.Last(limit, nil) }

// head records the status of an answer.
type head struct {
	http.ResponseWriter

	status int
}

func (h *head) WriteHeader(status int) {
	h.status = status
	h.ResponseWriter.WriteHeader(status)
}

func (h *head) Write(p []byte) (int, error) {
	if h.status == 0 {
		h.WriteHeader(http.StatusOK)
	}
	return h.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the connection.
func (h *head) Unwrap() http.ResponseWriter { return h.ResponseWriter }
