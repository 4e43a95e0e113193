package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/platform/apierr"
)

// Bounds of the files that one request may name by their ids.
const (
	maxFileReferences = 64
	maxReferencedSize = 20 << 20
	// referenceDepth is the number of arrays and objects around the part that names a file, from the conversation on.
	referenceDepth = 6
)

var fileID = []byte(`"file_id"`)

// withFiles returns a body of OpenAI's APIs in which the parts that name a stored file by its id hold its content, so that
// every vendor can read it. Other ids are left as they are: a vendor may know them.
func (s *inferenceServer) withFiles(ctx context.Context, scope file.Scope, body []byte) ([]byte, error) {
	if s.files == nil || !bytes.Contains(body, fileID) {
		return body, nil
	}
	conversation := gjson.GetBytes(body, "input")
	if !conversation.IsArray() {
		conversation = gjson.GetBytes(body, "messages")
	}
	if !conversation.IsArray() {
		return body, nil
	}
	e := &fileExpander{ctx: ctx, files: s.files, scope: scope, known: make(map[string]*content)}
	out := append(make([]byte, 0, len(body)), body[:conversation.Index]...)
	out = e.append(out, conversation, referenceDepth)
	switch {
	case e.err != nil:
		return nil, e.err
	case !e.replaced:
		return body, nil
	}
	return append(out, body[conversation.Index+len(conversation.Raw):]...), nil
}

// withOwnFiles is withFiles for the scope that a request names itself.
func (s *inferenceServer) withOwnFiles(r *http.Request, body []byte) ([]byte, error) {
	if s.files == nil || !bytes.Contains(body, fileID) {
		return body, nil
	}
	scope, err := scopeOf(r.Context(), gjson.GetBytes(body, dialect.Extension+".organization_id").Str)
	if err != nil {
		return nil, err
	}
	return s.withFiles(r.Context(), scope, body)
}

// content is a stored file as a part of a request: its name, and a data: URI.
type content struct {
	name string
	uri  json.RawMessage
}

// fileExpander replaces the ids of stored files in one request.
type fileExpander struct {
	ctx   context.Context //nolint:containedctx // The request's own: the value lives as long.
	files Files
	scope file.Scope
	// known are the files that were looked up; nil for an id that is not one of a stored file.
	known map[string]*content
	size  int64
	// replaced reports whether a part was replaced.
	replaced bool
	err      error
}

// append appends a value with the content of the files that it names within so many arrays and objects.
func (e *fileExpander) append(out []byte, value gjson.Result, depth int) []byte {
	if e.err != nil || depth == 0 || !value.IsArray() && !value.IsObject() || !strings.Contains(value.Raw, string(fileID)) {
		return append(out, value.Raw...)
	}
	if replaced, ok := e.part(value); ok {
		return append(out, replaced...)
	}
	start := len(out) + 1
	out = append(out, value.Raw[0])
	value.ForEach(func(key, member gjson.Result) bool {
		if len(out) > start {
			out = append(out, ',')
		}
		if key.Exists() && value.IsObject() {
			out = append(append(out, key.Raw...), ':')
		}
		out = e.append(out, member, depth-1)
		return true
	})
	return append(out, value.Raw[len(value.Raw)-1])
}

// part returns a part with the content of the file that it names: an input_file or input_image of the Responses API, or a
// file of a chat. It returns false for any other value.
func (e *fileExpander) part(value gjson.Result) (json.RawMessage, bool) {
	switch kind := value.Get("type").Str; {
	case !value.IsObject():
	case kind == "input_file", kind == "input_image":
		found := e.find(value.Get("file_id"))
		if found == nil {
			return nil, false
		}
		part := map[string]any{"type": kind, "file_data": found.uri, "filename": found.name}
		if kind == "input_image" {
			part = map[string]any{"type": kind, "image_url": found.uri}
		}
		if detail := value.Get("detail"); detail.Exists() {
			part["detail"] = json.RawMessage(detail.Raw)
		}
		return e.encode(part)
	case kind == "file":
		if found := e.find(value.Get("file.file_id")); found != nil {
			return e.encode(map[string]any{"type": kind, "file": map[string]any{"file_data": found.uri, "filename": found.name}})
		}
	}
	return nil, false
}

func (e *fileExpander) encode(part map[string]any) (json.RawMessage, bool) {
	text, err := json.Marshal(part)
	e.err, e.replaced = errors.Join(e.err, err), true
	return text, err == nil
}

// find returns the stored file of an id; nil where there is none, or after an error.
func (e *fileExpander) find(id gjson.Result) *content {
	if id.Type != gjson.String || e.err != nil {
		return nil
	}
	if found, looked := e.known[id.Str]; looked {
		if found != nil {
			e.charge(int64(len(found.uri)))
		}
		return found
	}
	if len(e.known) == maxFileReferences {
		e.err = apierr.Invalid("file_id", fmt.Sprintf("a request may name at most %d files", maxFileReferences))
		return nil
	}
	found, err := e.load(id.Str)
	if err != nil {
		e.err = fileError("file_id", err)
	}
	e.known[id.Str] = found
	return found
}

func (e *fileExpander) charge(n int64) {
	if e.size += n; e.size > maxReferencedSize {
		e.err = apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge,
			fmt.Sprintf("file_id: the files that a request names may have %d MiB in base64", maxReferencedSize>>20))
	}
}

// load returns a stored file; nil where there is none.
func (e *fileExpander) load(id string) (*content, error) {
	stored, err := e.files.Get(e.ctx, e.scope, id)
	switch {
	case errors.Is(err, file.ErrNotFound):
		return nil, nil //nolint:nilnil // The id is another's.
	case err != nil:
		return nil, err
	}
	if e.charge(int64(base64.StdEncoding.EncodedLen(int(stored.Size)))); e.err != nil {
		return nil, nil //nolint:nilnil // The error is kept.
	}
	var data []byte
	for piece, err := range e.files.Read(e.ctx, e.scope, stored) {
		if err != nil {
			return nil, err
		}
		data = append(data, piece...)
	}
	kind := mime.TypeByExtension(strings.ToLower(path.Ext(stored.Name)))
	if kind == "" {
		kind = http.DetectContentType(data)
	}
	kind, _, _ = strings.Cut(kind, ";")
	uri := append([]byte(`"data:`), kind...)
	uri = append(uri, ";base64,"...)
	uri = base64.StdEncoding.AppendEncode(uri, data)
	return &content{stored.Name, append(uri, '"')}, nil
}
