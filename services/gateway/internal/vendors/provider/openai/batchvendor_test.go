package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

// batchVendor is OpenAI's API of files and jobs.
func batchVendor(store *providertest.BatchStore) http.Handler {
	api := http.NewServeMux()
	gone := func(w http.ResponseWriter, what string) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"message":"No such `+what+`","type":"invalid_request_error","param":null,"code":null}}`)
	}
	api.HandleFunc("POST /v1/files", func(w http.ResponseWriter, r *http.Request) {
		file, head, err := r.FormFile("file")
		if err != nil || r.FormValue("purpose") != "batch" || !strings.HasSuffix(head.Filename, ".jsonl") {
			http.Error(w, "not a form of a batch's file", http.StatusTeapot)
			return
		}
		text, _ := io.ReadAll(file)
		writeJSON(w, map[string]any{"id": store.Put("", string(text)), "object": "file", "bytes": len(text), "purpose": "batch"})
	})
	api.HandleFunc("DELETE /v1/files/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !store.Drop(r.PathValue("id")) {
			gone(w, "File object")
			return
		}
		writeJSON(w, map[string]any{"id": r.PathValue("id"), "object": "file", "deleted": true})
	})
	api.HandleFunc("GET /v1/files/{id}/content", func(w http.ResponseWriter, r *http.Request) {
		text, ok := store.File(r.PathValue("id"))
		if !ok {
			gone(w, "File object")
			return
		}
		_, _ = io.WriteString(w, text)
	})
	api.HandleFunc("POST /v1/batches", func(w http.ResponseWriter, r *http.Request) {
		var made struct {
			Input    string `json:"input_file_id"`
			Endpoint string `json:"endpoint"`
			Window   string `json:"completion_window"`
			Metadata map[string]string
		}
		_ = json.NewDecoder(r.Body).Decode(&made)
		text, ok := store.File(made.Input)
		if !ok || made.Window != "24h" || made.Endpoint != "/v1/chat/completions" {
			http.Error(w, "not a job", http.StatusTeapot)
			return
		}
		job := providertest.StoredBatch{Mark: made.Metadata["switchyard"], Input: made.Input}
		for line := range strings.Lines(text) {
			var request struct {
				CustomID    string `json:"custom_id"`
				Method, URL string
				Body        json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &request); err != nil || request.Method != http.MethodPost || request.URL != made.Endpoint {
				http.Error(w, "not a request", http.StatusTeapot)
				return
			}
			job.Lines = append(job.Lines, provider.BatchLine{CustomID: request.CustomID, Body: request.Body})
		}
		writeJSON(w, batchDocument(store, store.Add(job)))
	})
	api.HandleFunc("GET /v1/batches", func(w http.ResponseWriter, r *http.Request) {
		all := store.Jobs()
		if after := r.URL.Query().Get("after"); after != "" {
			all = all[1+slices.IndexFunc(all, func(job providertest.StoredBatch) bool { return job.ID == after }):]
		}
		page := all[:min(len(all), 100)]
		data := []any{}
		for _, job := range page {
			data = append(data, batchDocument(store, job))
		}
		writeJSON(w, map[string]any{"object": "list", "data": data, "has_more": len(page) < len(all)})
	})
	api.HandleFunc("GET /v1/batches/{id}", func(w http.ResponseWriter, r *http.Request) {
		job, ok := store.Job(r.PathValue("id"))
		if !ok {
			gone(w, "batch")
			return
		}
		writeJSON(w, batchDocument(store, job))
	})
	api.HandleFunc("POST /v1/batches/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		job, ok := store.Job(r.PathValue("id"))
		switch {
		case !ok:
			gone(w, "batch")
		case job.Status.Ended():
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"error":{"message":"Cannot cancel a batch with status 'completed'.","type":"invalid_request_error"}}`)
		default:
			store.Update(job.ID, func(job *providertest.StoredBatch) { job.Status = provider.BatchCancelling })
			job.Status = provider.BatchCancelling
			writeJSON(w, batchDocument(store, job))
		}
	})
	return api
}

func writeJSON(w io.Writer, document any) { _, _ = io.WriteString(w, providertest.JSON(document)) }

// batchDocument returns a job as the vendor shows it. The files of its results exist from its end on.
func batchDocument(store *providertest.BatchStore, job providertest.StoredBatch) map[string]any {
	shown := map[string]any{
		"id": job.ID, "object": "batch", "status": job.Status, "created_at": job.Made.Unix(), "input_file_id": job.Input,
		"output_file_id": nil, "error_file_id": nil, "errors": nil, "metadata": map[string]string{"switchyard": job.Mark},
		"request_counts": map[string]int{"total": job.Count, "completed": len(job.Answered), "failed": len(job.Failed)},
	}
	if job.Status.Ended() {
		for name, lines := range map[string][]string{"output_file_id": job.Answered, "error_file_id": job.Failed} {
			if len(lines) > 0 {
				shown[name] = store.Put(name+"-of-"+job.ID, providertest.Results(lines))
			}
		}
	}
	return shown
}
