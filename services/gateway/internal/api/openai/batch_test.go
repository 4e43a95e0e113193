package openai

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

const (
	lineStart = `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"`
	chatAPI   = "/v1/chat/completions"
)

// blames fails where an error is not one of the caller.
func blames(t *testing.T, err error) {
	t.Helper()
	if err != nil && apierr.From(err).Kind != apierr.KindInvalid {
		t.Errorf("%v is not an error of the caller", err)
	}
}

// A line that is read has an id, and a body that is a JSON object in UTF-8.
func FuzzReadBatchLine(f *testing.F) {
	for _, seed := range []string{lineStart + "}}", `{"custom_id":"a","body":[]}`, "\ufeff{}", `{"custom_id":"a","custom_id":"b"}`, "{\"custom_id\":\"\xff\"}"} {
		f.Add([]byte(seed), chatAPI)
	}
	f.Fuzz(func(t *testing.T, line []byte, api string) {
		id, body, err := ReadBatchLine(line, api)
		if blames(t, err); err != nil {
			return
		}
		if n := utf8.RuneCountInString(id); n < 1 || n > maxCustomID || !utf8.Valid(body) || !gjson.ValidBytes(body) || body[0] != '{' {
			t.Errorf("%q is read as %q with %q", line, id, body)
		}
	})
}

func TestReadBatchLineGrowsLinearly(t *testing.T) {
	inputs := append([]growth.Input{
		growth.Repeat("a long id", `{"method":"POST","custom_id":"`, "a", `"}`), growth.Number("members", lineStart, `,"a#":1`, "}}"),
		growth.Number("members of the line", lineStart+"}", `,"a#":1`, "}"), growth.Repeat("a member many times", lineStart+"}", `,"a":1`, "}"),
	}, growth.JSON...)
	inputs = append(inputs, growth.Around(lineStart+`,"x":`, growth.JSON, "}}")...)
	growth.Linear(t, growth.Each(inputs, func(line []byte) { _, _, _ = ReadBatchLine(line, chatAPI) })...)
}

func FuzzReadBatch(f *testing.F) {
	f.Add([]byte(`{"input_file_id":"a","endpoint":"/v1/responses","completion_window":"24h","metadata":{"a":"b"},"output_expires_after":{"anchor":"created_at","seconds":3600}}`))
	f.Add([]byte(`{"input_file_id":"a","endpoint":"/","completion_window":"24h"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := ReadBatch(body)
		if blames(t, err); err == nil && (b.InputFile == "" || b.API == "" || b.OutputLife < 0 || b.OutputLife > mostLife*time.Second) {
			t.Errorf("%q is read as %+v", body, b)
		}
	})
}

func TestReadBatchGrowsLinearly(t *testing.T) {
	const start = `{"input_file_id":"a","endpoint":"/v1/responses","completion_window":"24h"`
	inputs := append([]growth.Input{
		growth.Number("labels", start+`,"metadata":{"a":"b"`, `,"a#":"b"`, "}}"), growth.Repeat("a long label", start+`,"metadata":{"a":"`, "b", `"}}`),
		growth.Number("members", start, `,"a#":1`, "}"),
	}, growth.JSON...)
	for _, field := range []string{"metadata", "output_expires_after", "switchyard"} {
		inputs = append(inputs, growth.Around(start+`,"`+field+`":`, growth.JSON, "}")...)
	}
	growth.Linear(t, growth.Each(inputs, func(body []byte) { _, _ = ReadBatch(body) })...)
}

// formKind is the type of the tests' forms.
const formKind = "multipart/form-data; boundary=x"

const uploadStart = "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"

func FuzzReadUpload(f *testing.F) {
	const part = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nb\r\n--x--\r\n"
	f.Add(formKind, []byte(uploadStart+part))
	f.Add(formKind, []byte(uploadStart+"--x\r\nContent-Disposition: form-data; name=\"expires_after[seconds]\"\r\n\r\n3600\r\n"+part))
	now := time.Unix(1e9, 0)
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		u, err := ReadUpload(dialect.Source{ContentType: kind, Body: body}, now)
		if blames(t, err); err != nil {
			return
		}
		if len(u.Content) == 0 || len(u.Name) > maxFileName || !utf8.ValidString(u.Name) || !u.ExpiresAt.IsZero() && u.ExpiresAt.Before(now) {
			t.Errorf("%q is read as %+v", body, u)
		}
	})
}

func TestReadUploadGrowsLinearly(t *testing.T) {
	const file = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	inputs := []growth.Input{
		growth.Repeat("a large file", uploadStart+file, "a", "\r\n--x--\r\n"), growth.Repeat("lines", uploadStart+file, "a\r\n", "--x--\r\n"),
		growth.Repeat("purposes", "", uploadStart, file+"b\r\n--x--\r\n"),
		growth.Repeat("a long name", uploadStart+"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"", "a", "\"\r\n\r\nb\r\n--x--\r\n"),
		growth.Repeat("a long life", uploadStart+"--x\r\nContent-Disposition: form-data; name=\"expires_after[seconds]\"\r\n\r\n", "9", "\r\n"+file+"b\r\n--x--\r\n"),
		growth.Repeat("almost boundaries", uploadStart+file, "\r\n--", "\r\n--x--\r\n"),
	}
	growth.Linear(t, growth.Each(inputs, func(body []byte) {
		_, _ = ReadUpload(dialect.Source{ContentType: formKind, Body: body}, time.Time{})
	})...)
}
