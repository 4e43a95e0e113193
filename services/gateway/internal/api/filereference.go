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
	if s.files == nil {
		return body, nil
	}
	parts := partsWithFile(body)
	known, err := s.loadFiles(ctx, scope, parts)
	if err != nil {
		return nil, err
	}
	return embedFiles(body, parts, known)
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

// filePart is a part of a request that names a file: an input_file or input_image of the Responses API, or a file of a chat.
type filePart struct {
	value    gjson.Result
	kind, id string
}

// partsWithFile returns the parts of a body whose file has the id of one that may be stored, in their order.
func partsWithFile(body []byte) []filePart {
	if !bytes.Contains(body, fileID) {
		return nil
	}
	conversation := gjson.GetBytes(body, "input")
	if !conversation.IsArray() {
		conversation = gjson.GetBytes(body, "messages")
	}
	if !conversation.IsArray() {
		return nil
	}
	return fileParts(nil, conversation, referenceDepth)
}

// fileParts appends the parts of a value within so many arrays and objects.
func fileParts(parts []filePart, value gjson.Result, depth int) []filePart {
	if depth == 0 || !value.IsArray() && !value.IsObject() || !strings.Contains(value.Raw, string(fileID)) {
		return parts
	}
	if part, ok := asFilePart(value); ok {
		return append(parts, part)
	}
	value.ForEach(func(_, member gjson.Result) bool {
		parts = fileParts(parts, member, depth-1)
		return true
	})
	return parts
}

func asFilePart(value gjson.Result) (filePart, bool) {
	if !value.IsObject() {
		return filePart{}, false
	}
	kind, at := value.Get("type").Str, "file_id"
	switch kind {
	case "input_file", "input_image":
	case "file":
		at = "file.file_id"
	default:
		return filePart{}, false
	}
	id := value.Get(at)
	return filePart{value, kind, id.Str}, id.Type == gjson.String && file.IsID(id.Str)
}

// embed returns the part with the content of its file.
func (p *filePart) embed(c content) (json.RawMessage, error) {
	part := map[string]any{"type": p.kind}
	switch p.kind {
	case "input_image":
		part["image_url"] = c.uri
	case "input_file":
		part["file_data"], part["filename"] = c.uri, c.name
	case "file":
		part["file"] = map[string]any{"file_data": c.uri, "filename": c.name}
	}
	if detail := p.value.Get("detail"); detail.Exists() && p.kind != "file" {
		part["detail"] = json.RawMessage(detail.Raw)
	}
	return json.Marshal(part)
}

// embedFiles returns a body in which those of its parts whose file is known hold its content.
func embedFiles(body []byte, parts []filePart, known map[string]content) ([]byte, error) {
	if len(known) == 0 {
		return body, nil
	}
	out, rest := make([]byte, 0, len(body)), 0
	for _, part := range parts {
		found, ok := known[part.id]
		if !ok {
			continue
		}
		embedded, err := part.embed(found)
		if err != nil {
			return nil, apierr.Internal(err)
		}
		out = append(append(out, body[rest:part.value.Index]...), embedded...)
		rest = part.value.Index + len(part.value.Raw)
	}
	return append(out, body[rest:]...), nil
}

// content is a stored file as a part of a request: its name, and a data: URI.
type content struct {
	name string
	uri  json.RawMessage
}

// loadFiles returns the stored files that parts name, by id. Their sizes are added up before any is read.
func (s *inferenceServer) loadFiles(ctx context.Context, scope file.Scope, parts []filePart) (map[string]content, error) {
	stored, err := s.findFiles(ctx, scope, parts)
	if err != nil {
		return nil, err
	}
	known := make(map[string]content, len(stored))
	for id, f := range stored {
		if known[id], err = s.loadFile(ctx, scope, f); err != nil {
			return nil, fileError("file_id", err)
		}
	}
	return known, nil
}

// findFiles returns those files that parts name and that are stored, by id, within the bounds of a request.
func (s *inferenceServer) findFiles(ctx context.Context, scope file.Scope, parts []filePart) (map[string]file.File, error) {
	stored, looked, size := make(map[string]file.File), make(map[string]bool), int64(0)
	for _, part := range parts {
		if !looked[part.id] {
			if len(looked) == maxFileReferences {
				return nil, apierr.Invalid("file_id", fmt.Sprintf("a request may name at most %d files", maxFileReferences))
			}
			looked[part.id] = true
			switch f, err := s.files.Get(ctx, scope, part.id); {
			case err == nil:
				stored[part.id] = f
			case !errors.Is(err, file.ErrNotFound):
				return nil, fileError("file_id", err)
			}
		}
		if f, ok := stored[part.id]; ok {
			size += int64(base64.StdEncoding.EncodedLen(int(f.Size)))
		}
		if size > maxReferencedSize {
			return nil, apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge,
				fmt.Sprintf("file_id: the files that a request names may have %d MiB in base64", maxReferencedSize>>20))
		}
	}
	return stored, nil
}

// loadFile reads a stored file.
func (s *inferenceServer) loadFile(ctx context.Context, scope file.Scope, stored file.File) (content, error) {
	var data []byte
	for piece, err := range s.files.Read(ctx, scope, stored) {
		if err != nil {
			return content{}, err
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
	return content{stored.Name, append(uri, '"')}, nil
}
