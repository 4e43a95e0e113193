package provider

import (
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	maxFilePage     = 10_000
	defaultFilePage = 10_000
	// formMemory is how much of a form is read into memory; the rest would go to a file.
	formMemory = maxUpload
)

// storedFile is a file of OpenAI's.
type storedFile struct {
	id, owner, name, purpose string
	created                  time.Time
	text                     []byte
}

// openAIFile is a file as OpenAI shows it.
type openAIFile struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int    `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
}

type openAIFileList struct {
	Object  string       `json:"object"`
	Data    []openAIFile `json:"data"`
	HasMore bool         `json:"has_more"`
}

var filePurposes = []string{"assistants", "batch", "fine-tune", "vision", "user_data", "evals"}

func (f *storedFile) shown() openAIFile {
	return openAIFile{f.id, "file", len(f.text), f.created.Unix(), f.name, f.purpose, "processed"}
}

func (s *batchStore) serveFiles(api *http.ServeMux) {
	api.HandleFunc("POST /v1/files", authorized(s.upload))
	api.HandleFunc("GET /v1/files", authorized(s.listFiles))
	one := func(pattern string, answer func(w http.ResponseWriter, f *storedFile)) {
		api.HandleFunc(pattern, authorized(func(w http.ResponseWriter, r *http.Request) {
			if f := s.file(r, r.PathValue("id")); f != nil {
				answer(w, f)
				return
			}
			fail(w, r, http.StatusNotFound, "No such File object: "+r.PathValue("id"))
		}))
	}
	one("GET /v1/files/{id}", func(w http.ResponseWriter, f *storedFile) { writeJSON(w, http.StatusOK, f.shown()) })
	one("GET /v1/files/{id}/content", func(w http.ResponseWriter, f *storedFile) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(f.text)
	})
	one("DELETE /v1/files/{id}", func(w http.ResponseWriter, f *storedFile) {
		s.mu.Lock()
		s.files = slices.DeleteFunc(s.files, func(other *storedFile) bool { return other == f })
		s.mu.Unlock()
		writeJSON(w, http.StatusOK, struct {
			ID      string `json:"id"`
			Object  string `json:"object"`
			Deleted bool   `json:"deleted"`
		}{f.id, "file", true})
	})
}

// upload answers POST /v1/files.
func (s *batchStore) upload(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxUpload)
	if err := r.ParseMultipartForm(formMemory); err != nil {
		fail(w, r, http.StatusBadRequest, "We could not parse the form of your request: "+err.Error())
		return
	}
	file, head, err := r.FormFile("file")
	switch purpose := r.FormValue("purpose"); {
	case err != nil:
		fail(w, r, http.StatusBadRequest, "'file' is a required property")
	case !slices.Contains(filePurposes, purpose):
		fail(w, r, http.StatusBadRequest, "'purpose' is invalid")
	default:
		text, err := io.ReadAll(file)
		if err != nil {
			fail(w, r, http.StatusBadRequest, "The file could not be read")
			return
		}
		s.mu.Lock()
		id := s.store(ownerOf(r), head.Filename, purpose, text)
		s.mu.Unlock()
		if id == "" {
			fail(w, r, http.StatusBadRequest, "The file is empty.")
			return
		}
		writeJSON(w, http.StatusOK, s.file(r, id).shown())
	}
}

// store keeps a file and returns its id, or "" for an empty one. The store is locked.
func (s *batchStore) store(owner, name, purpose string, text []byte) string {
	if len(text) == 0 {
		return ""
	}
	f := &storedFile{id: newID("file-"), owner: owner, name: name, purpose: purpose, created: time.Now().UTC(), text: text}
	s.files = append(s.files, f)
	s.files = s.files[max(0, len(s.files)-maxFiles):]
	return f.id
}

// file returns a caller's file, or nil.
func (s *batchStore) file(r *http.Request, id string) *storedFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := ownerOf(r)
	for _, f := range s.files {
		if f.id == id && f.owner == owner {
			return f
		}
	}
	return nil
}

// listFiles answers GET /v1/files, the newest first.
func (s *batchStore) listFiles(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, ok := defaultFilePage, true
	if query.Has("limit") {
		limit, ok = pageSize(r, maxFilePage)
	}
	if !ok {
		fail(w, r, http.StatusBadRequest, "Invalid 'limit'.")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, after, purpose := ownerOf(r), query.Get("after"), query.Get("purpose")
	list := openAIFileList{Object: "list", Data: []openAIFile{}}
	skipped := after == ""
	for _, f := range slices.Backward(s.files) {
		switch {
		case f.owner != owner, purpose != "" && f.purpose != purpose:
		case !skipped:
			skipped = f.id == after
		case len(list.Data) == limit:
			list.HasMore = true
		default:
			list.Data = append(list.Data, f.shown())
		}
	}
	writeJSON(w, http.StatusOK, list)
}
