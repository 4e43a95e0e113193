package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/api/anthropic"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// mountMessageBatches registers the paths of batches in Anthropic's form.
func (s *batchServer) mountMessageBatches(server *rpc.Server, method string) {
	const root = "/v1/messages/batches"
	server.Handle("POST", root, method, s.createMessages)
	server.Handle("GET", root, method, s.listMessages)
	server.Handle("GET", root+"/{batch_id}", method, s.getMessages)
	server.Handle("DELETE", root+"/{batch_id}", method, s.deleteMessages)
	server.Handle("POST", root+"/{batch_id}/cancel", method, s.cancelMessages)
	server.Handle("GET", root+"/{batch_id}/results", method, s.messageResults)
}

func (s *batchServer) createMessages(w http.ResponseWriter, r *http.Request) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	wanted, err := anthropic.ReadBatch(body, batchjob.MaxRequests)
	if err != nil {
		return err
	}
	scope, err := s.scope(r, wanted.Extension)
	if err != nil {
		return err
	}
	j := batchjob.NewJob(scope, batchjob.FormAnthropic, time.Now())
	input := file.File{ID: file.NewID(), Name: j.ID + ".jsonl", Purpose: file.PurposeMessageBatch, CreatedAt: j.CreatedAt}
	j.API, j.Input = anthropic.BatchAPI, input.ID
	var content bytes.Buffer
	content.Grow(len(body))
	stored := false
	err = s.submit(r, j, wanted.Extension, messageLines(wanted.Requests, &content), func() error {
		_, err := s.files.Create(r.Context(), scope, input, content.Bytes())
		stored = err == nil
		return fileError("requests", err)
	})
	if err != nil {
		if stored {
			_ = s.files.Delete(r.Context(), scope, input.ID) // Otherwise it expires.
		}
		return err
	}
	return writeJSON(w, anthropic.NewBatch(j))
}

// messageLines returns the requests of a batch, and writes them as the lines of a file.
func messageLines(requests []json.RawMessage, content *bytes.Buffer) iter.Seq2[batchLine, error] {
	return func(yield func(batchLine, error) bool) {
		for i, raw := range requests {
			line := batchLine{at: dialect.At("requests", i)}
			var err error
			if line.id, line.body, err = anthropic.ReadBatchRequest(raw); err == nil {
				content.WriteString(`{"body":`)
				err = json.Compact(content, line.body)
				content.WriteString("}\n")
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// messageBatch returns the batch that the path names.
func (s *batchServer) messageBatch(r *http.Request) (batchjob.Scope, *batchjob.Job, error) {
	scope, err := s.scope(r, nil)
	if err != nil {
		return scope, nil, err
	}
	j, err := s.jobs.Get(r.Context(), scope, batchjob.FormAnthropic, r.PathValue("batch_id"))
	return scope, j, batchError(err)
}

func (s *batchServer) getMessages(w http.ResponseWriter, r *http.Request) error {
	_, j, err := s.messageBatch(r)
	if err != nil {
		return err
	}
	costHeaders(w.Header(), j)
	return writeJSON(w, anthropic.NewBatch(j))
}

func (s *batchServer) listMessages(w http.ResponseWriter, r *http.Request) error {
	scope, err := s.scope(r, nil)
	if err != nil {
		return err
	}
	page, err := anthropic.ReadBatchPage(r.URL.Query())
	if err != nil {
		return err
	}
	jobs, more, err := s.jobs.List(r.Context(), scope, batchjob.FormAnthropic, page)
	if err != nil {
		return batchError(err)
	}
	return writeJSON(w, anthropic.NewBatchList(jobs, more))
}

func (s *batchServer) cancelMessages(w http.ResponseWriter, r *http.Request) error {
	scope, err := s.scope(r, nil)
	if err != nil {
		return err
	}
	j, err := s.jobs.Cancel(r.Context(), scope, batchjob.FormAnthropic, r.PathValue("batch_id"))
	if err != nil {
		return batchError(err)
	}
	return writeJSON(w, anthropic.NewBatch(j))
}

// deleteMessages deletes a batch that has ended, with its requests and results.
func (s *batchServer) deleteMessages(w http.ResponseWriter, r *http.Request) error {
	scope, j, err := s.messageBatch(r)
	if err != nil {
		return err
	}
	if err := s.jobs.Delete(r.Context(), scope, batchjob.FormAnthropic, j.ID); err != nil {
		return batchError(err)
	}
	for _, id := range []string{j.Input, j.Output} {
		if err := s.files.Delete(r.Context(), scope, id); err != nil && !errors.Is(err, file.ErrNotFound) {
			return fileError("batch_id", err)
		}
	}
	return writeJSON(w, anthropic.NewBatchDeletion(j.ID))
}

// messageResults sends the results of a batch as lines of JSON.
func (s *batchServer) messageResults(w http.ResponseWriter, r *http.Request) error {
	scope, j, err := s.messageBatch(r)
	if err != nil {
		return err
	}
	if !j.Ended() {
		return apierr.Invalid("batch_id", "the batch has not ended; its results are there when processing_status is ended")
	}
	var results file.File
	if j.Output != "" {
		if results, err = s.files.Get(r.Context(), scope, j.Output); err != nil {
			return fileError("batch_id", err)
		}
	}
	return sendFile(w, "application/x-jsonl", results, s.files.Read(r.Context(), scope, results))
}
