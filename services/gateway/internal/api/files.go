package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// Files keeps the files of callers; see file.Manager.
type Files interface {
	Create(ctx context.Context, s file.Scope, f file.File, content []byte) (file.File, error)
	Get(ctx context.Context, s file.Scope, id string) (file.File, error)
	List(ctx context.Context, s file.Scope, p file.Page) (files []file.File, more bool, err error)
	Read(ctx context.Context, s file.Scope, f file.File) iter.Seq2[[]byte, error]
	Delete(ctx context.Context, s file.Scope, id string) error
}

// fileServer serves OpenAI's files.
type fileServer struct{ files Files }

// mountFiles registers the paths of files on the server.
func mountFiles(server *rpc.Server, files Files) {
	s := &fileServer{files}
	const method = gatewayv1.InferenceService_Chat_FullMethodName
	for _, root := range []string{"/v1/", azureRoot} {
		server.HandleForm("POST", root+"files", method, s.upload)
		server.Handle("GET", root+"files", method, s.list)
		server.Handle("GET", root+"files/{file_id}", method, s.get)
		server.Handle("GET", root+"files/{file_id}/content", method, s.content)
		server.Handle("DELETE", root+"files/{file_id}", method, s.delete)
	}
}

// errNoFiles refuses what needs files where none are kept.
var errNoFiles = apierr.New(apierr.KindInvalid, routing.ReasonCapabilityUnsupported,
	"files and batches are not kept here: the gateway has no keys to seal them with (GATEWAY_TRACE_KEYS_FILE)")

// fileError returns an error of the store as the caller's, if it is one.
func fileError(field string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, file.ErrNotFound):
		return apierr.New(apierr.KindNotFound, "file_not_found", field+": no such file is stored")
	case errors.Is(err, file.ErrFull):
		return apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge,
			fmt.Sprintf("file: the organization has %d files or %d GiB, which is the most; delete some", file.MaxFiles, file.MaxBytes>>30))
	}
	return apierr.Unavailable("files can't be read or stored at the moment", err)
}

// scope returns whose files a request is about. extension is what its body says to the gateway; nil for nothing.
func (s *fileServer) scope(r *http.Request, extension []byte) (file.Scope, error) {
	if s.files == nil {
		return file.Scope{}, errNoFiles
	}
	e, err := readExtension(extension, r.Header)
	if err != nil {
		return file.Scope{}, err
	}
	return scopeOf(r.Context(), e.OrganizationID)
}

func (s *fileServer) upload(w http.ResponseWriter, r *http.Request) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	u, err := openai.ReadUpload(dialect.Source{ContentType: r.Header.Get("Content-Type"), Body: body}, time.Now())
	if err != nil {
		return err
	}
	scope, err := s.scope(r, u.Extension)
	if err != nil {
		return err
	}
	stored, err := s.files.Create(r.Context(), scope, u.File, u.Content)
	if err != nil {
		return fileError("file", err)
	}
	return writeJSON(w, openai.NewFile(stored))
}

func (s *fileServer) list(w http.ResponseWriter, r *http.Request) error {
	scope, err := s.scope(r, nil)
	if err != nil {
		return err
	}
	page, err := openai.ReadFilePage(r.URL.Query())
	if err != nil {
		return err
	}
	files, more, err := s.files.List(r.Context(), scope, page)
	if err != nil {
		return fileError("after", err)
	}
	shown := make([]openai.FileObject, len(files))
	for i, f := range files {
		shown[i] = openai.NewFile(f)
	}
	return writeJSON(w, openai.NewList(shown, more, func(f openai.FileObject) string { return f.ID }))
}

// one returns the file that the path names, unless callers don't see it.
func (s *fileServer) one(r *http.Request) (file.Scope, file.File, error) {
	scope, err := s.scope(r, nil)
	if err != nil {
		return scope, file.File{}, err
	}
	f, err := s.files.Get(r.Context(), scope, r.PathValue("file_id"))
	if err == nil && (f.Purpose == file.PurposeMessageBatch || f.Purpose == file.PurposeMessageBatchOutput) {
		err = file.ErrNotFound
	}
	return scope, f, fileError("file_id", err)
}

func (s *fileServer) get(w http.ResponseWriter, r *http.Request) error {
	_, f, err := s.one(r)
	if err != nil {
		return err
	}
	return writeJSON(w, openai.NewFile(f))
}

func (s *fileServer) content(w http.ResponseWriter, r *http.Request) error {
	scope, f, err := s.one(r)
	if err != nil {
		return err
	}
	return sendFile(w, "application/octet-stream", f, s.files.Read(r.Context(), scope, f))
}

// sendFile sends the content of a file. One that breaks off ends the connection: its caller could not tell otherwise.
func sendFile(w http.ResponseWriter, kind string, f file.File, pieces iter.Seq2[[]byte, error]) error {
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	begun := false
	for piece, err := range pieces {
		if err != nil {
			return fileError("file_id", err)
		}
		if !begun {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", strconv.FormatInt(f.Size, 10))
			begun = true
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := w.Write(piece); err != nil {
			return nil // The caller left.
		}
	}
	if !begun {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", "0")
	}
	return nil
}

func (s *fileServer) delete(w http.ResponseWriter, r *http.Request) error {
	scope, f, err := s.one(r)
	if err != nil {
		return err
	}
	if err := s.files.Delete(r.Context(), scope, f.ID); err != nil {
		return fileError("file_id", err)
	}
	return writeJSON(w, openai.FileDeletion{ID: f.ID, Object: "file", Deleted: true})
}
