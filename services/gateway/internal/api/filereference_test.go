package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// storedFiles are files by their ids, of any scope.
type storedFiles map[string]file.File

func (s storedFiles) Create(context.Context, file.Scope, file.File, []byte) (file.File, error) {
	return file.File{}, errors.ErrUnsupported
}

func (s storedFiles) Get(_ context.Context, _ file.Scope, id string) (file.File, error) {
	f, ok := s[id]
	if !ok {
		return f, file.ErrNotFound
	}
	return f, nil
}

func (s storedFiles) List(context.Context, file.Scope, file.Page) ([]file.File, bool, error) {
	return nil, false, errors.ErrUnsupported
}

func (s storedFiles) Read(context.Context, file.Scope, file.File) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { _ = yield([]byte("h"), nil) && yield([]byte("i"), nil) }
}

func (s storedFiles) Delete(context.Context, file.Scope, string) error { return errors.ErrUnsupported }

var files = storedFiles{
	"file-AAAAAAAAAAAAAAAAAAAAAAAAAA": {ID: "file-AAAAAAAAAAAAAAAAAAAAAAAAAA", Name: "a.PDF", Size: 2},
	"file-BBBBBBBBBBBBBBBBBBBBBBBBBB": {ID: "file-BBBBBBBBBBBBBBBBBBBBBBBBBB", Name: "b", Size: 2},
	"file-GGGGGGGGGGGGGGGGGGGGGGGGGG": {ID: "file-GGGGGGGGGGGGGGGGGGGGGGGGGG", Name: "big.png", Size: 16 << 20},
}

// Stored files that a request names by their ids become a part of it; all else stays byte for byte as it was.
func TestWithFiles(t *testing.T) {
	s := &inferenceServer{files: files}
	const pdf, text = `"data:application/pdf;base64,aGk="`, `"data:text/plain;base64,aGk="`
	for name, c := range map[string]struct{ body, want string }{
		"a document": {
			`{ "input":[{"role":"user", "content":[{"type":"input_file","file_id":"file-AAAAAAAAAAAAAAAAAAAAAAAAAA","detail":"low"}, {"type":"input_text"}]}],"x":1 }`,
			`{ "input":[{"role":"user", "content":[{"detail":"low","file_data":` + pdf + `,"filename":"a.PDF","type":"input_file"}, {"type":"input_text"}]}],"x":1 }`,
		},
		"an image": {
			`{"input":[{"content":[{"file_id":"file-BBBBBBBBBBBBBBBBBBBBBBBBBB","type":"input_image"}]}]}`, `{"input":[{"content":[{"image_url":` + text + `,"type":"input_image"}]}]}`,
		},
		"in a result": {
			`{"input":[{"type":"function_call_output","output":[{"type":"input_file","file_id":"file-BBBBBBBBBBBBBBBBBBBBBBBBBB"}]}]}`,
			`{"input":[{"type":"function_call_output","output":[{"file_data":` + text + `,"filename":"b","type":"input_file"}]}]}`,
		},
		"in a chat": {
			`{"messages":[{"content":[{"type":"file","file":{"file_id":"file-AAAAAAAAAAAAAAAAAAAAAAAAAA"}}]}]}`,
			`{"messages":[{"content":[{"file":{"file_data":` + pdf + `,"filename":"a.PDF"},"type":"file"}]}]}`,
		},
		"a vendor's":      {`{"input":[ {"content": [{"type":"input_file","file_id":"file-x"}] }]}`, ""},
		"none of that id": {`{"input":[ {"content": [{"type":"input_file","file_id":"file-ZZZZZZZZZZZZZZZZZZZZZZZZZZ"}] }]}`, ""},
		"elsewhere":       {`{"input":[{"content":[{"type":"input_text","file_id":"file-AAAAAAAAAAAAAAAAAAAAAAAAAA"}]}],"tools":[{"type":"input_file","file_id":"file-AAAAAAAAAAAAAAAAAAAAAAAAAA"}]}`, ""},
		"a number":        {`{"input":[{"content":[{"type":"input_file","file_id":7}]}]}`, ""},
		"no list":         {`{"input":"\"file_id\"","messages":"file_id"}`, ""},
		"none":            {`{"input":[{"content":"file"}]}`, ""},
		"far below":       {`{"input":` + strings.Repeat("[", 20) + `{"type":"input_file","file_id":"file-AAAAAAAAAAAAAAAAAAAAAAAAAA"}` + strings.Repeat("]", 20) + `}`, ""},
		"the text of it":  {`{"input":[{"content":"{\"type\":\"input_file\",\"file_id\":\"file-AAAAAAAAAAAAAAAAAAAAAAAAAA\"}"}]}`, ""},
	} {
		got, err := s.withFiles(t.Context(), file.Scope{}, []byte(c.body))
		want := c.want
		if want == "" {
			want = c.body
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: %v,\n%s, want\n%s", name, err, got, want)
		}
	}
}

func TestWithFilesRefuses(t *testing.T) {
	part := func(id string) string { return `{"type":"input_file","file_id":"` + id + `"}` }
	many := make([]string, maxFileReferences+1)
	for i := range many {
		many[i] = part(fmt.Sprintf("file-%s%c%c", strings.Repeat("A", 24), 'A'+i/26, 'A'+i%26))
	}
	for name, c := range map[string]struct{ parts, want string }{
		"too large":       {part("file-GGGGGGGGGGGGGGGGGGGGGGGGGG"), "file_id: the files that a request names may have 20 MiB in base64"},
		"too many":        {strings.Join(many, ","), "file_id: a request may name at most 64 files"},
		"the same, often": {strings.Repeat(part("file-HHHHHHHHHHHHHHHHHHHHHHHHHH")+",", 3) + part("file-AAAAAAAAAAAAAAAAAAAAAAAAAA"), "file_id: the files that a request names may have 20 MiB in base64"},
	} {
		known := storedFiles{"file-GGGGGGGGGGGGGGGGGGGGGGGGGG": files["file-GGGGGGGGGGGGGGGGGGGGGGGGGG"], "file-HHHHHHHHHHHHHHHHHHHHHHHHHH": {Name: "half", Size: 8 << 20}}
		s := &inferenceServer{files: largeFiles{known}}
		_, err := s.withFiles(t.Context(), file.Scope{}, []byte(`{"input":[{"content":[`+c.parts+`]}]}`))
		if e := apierr.From(err); err == nil || e.Text != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// largeFiles have as many bytes as they say.
type largeFiles struct{ storedFiles }

func (l largeFiles) Read(_ context.Context, _ file.Scope, f file.File) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield(make([]byte, f.Size), nil) }
}

func TestWithFilesGrowsLinearly(t *testing.T) {
	s := &inferenceServer{files: files}
	inputs := []growth.Input{
		growth.Repeat("parts", `{"input":[{"content":[{}`, `,{"type":"input_file","file_id":"file-ZZZZZZZZZZZZZZZZZZZZZZZZZZ"}`, `]}]}`),
		growth.Repeat("files", `{"input":[{"content":[{}`, `,{"type":"input_text","file_id":"x"}`, `]}]}`),
		growth.Repeat("a long text", `{"input":[{"content":"`, `file_id`, `","file_id":"x"}]}`),
		growth.Nest("arrays", "[", `{"file_id":"x"}`, "]"),
	}
	growth.Linear(t, growth.Each(inputs, func(body []byte) { _, _ = s.withFiles(t.Context(), file.Scope{}, body) })...)
}
