package dialect_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

const boundary = "multipart/form-data; boundary=x"

// formOf returns a form of parts, each "name=text" or "name@file=text".
func formOf(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		name, text, _ := strings.Cut(part, "=")
		name, file, isFile := strings.Cut(name, "@")
		fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=%q", name)
		if isFile {
			fmt.Fprintf(&b, "; filename=%q", file)
		}
		fmt.Fprintf(&b, "\r\n\r\n%s\r\n", text)
	}
	return b.String() + "--x--\r\n"
}

// readForm reads a form as the faces do, and returns the first error.
func readForm(s dialect.Source) error {
	f, err := dialect.ParseForm(s)
	if err != nil {
		return err
	}
	if _, err := f.Files("file", "image[]"); err != nil {
		return err
	}
	if _, err := f.Whole("n", 10, 1); err != nil {
		return err
	}
	return new(dialect.Call).FinishForm(f)
}

func TestForm(t *testing.T) {
	f, err := dialect.ParseForm(dialect.Source{ContentType: boundary, Body: []byte(formOf("model=m", "n=3", "file@a.wav=\xff", "stream=true", "switchyard={}"))})
	if err != nil {
		t.Fatal(err)
	}
	files, err := f.Files("file")
	if err != nil || len(files) != 1 || string(files[0]) != "\xff" {
		t.Errorf("files %q, err %v; want one of a byte", files, err)
	}
	if n, err := f.Whole("n", 10, 1); n != 3 || err != nil {
		t.Errorf("n = %d, err %v; want 3", n, err)
	}
	if n, err := f.Whole("m", 10, 7); n != 7 || err != nil {
		t.Errorf("an absent number is %d, err %v; want 7", n, err)
	}
	var call dialect.Call
	if err := call.FinishForm(f); err != nil {
		t.Fatal(err)
	}
	if call.Model != "m" || !call.Relay.Stream || string(call.Extension) != "{}" || len(call.Relay.Parts) != 4 {
		t.Errorf("model %q, stream %t, extension %s, %d parts; want m, true, {} and the 4 other parts", call.Model, call.Relay.Stream, call.Extension, len(call.Relay.Parts))
	}
}

func TestFormRefuses(t *testing.T) {
	for name, c := range map[string]struct{ kind, body, want string }{
		"another type":       {"application/json", "{}", "Content-Type"},
		"no boundary":        {"multipart/form-data", formOf("a=b"), "body"},
		"no end":             {boundary, "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb", "body"},
		"no name":            {boundary, formOf("=b"), "body"},
		"too many parts":     {boundary, formOf(strings.Split(strings.Repeat("a=b ", 256)+"a=b", " ")...), "256 parts"},
		"a long field":       {boundary, formOf("prompt=" + strings.Repeat("a", 257<<10)), "prompt"},
		"no text":            {boundary, formOf("prompt=\xff"), "prompt"},
		"a model twice":      {boundary, formOf("model=a", "model=b"), "model"},
		"a model as a file":  {boundary, formOf("model@a=b"), "model"},
		"a file as a field":  {boundary, formOf("file=b"), "file"},
		"an empty file":      {boundary, formOf("file@a="), "file"},
		"no number":          {boundary, formOf("n=+3x"), "n: "},
		"too large a number": {boundary, formOf("n=11"), "n: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := readForm(dialect.Source{ContentType: c.kind, Body: []byte(c.body)})
			if err == nil || apierr.From(err).Kind != apierr.KindInvalid || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want one of the caller with %q", err, c.want)
			}
		})
	}
}

func TestFormGrowsLinearly(t *testing.T) {
	const part = "--x\r\nContent-Disposition: form-data; name=\"image[]\"; filename=\"a\"\r\n\r\nb\r\n"
	inputs := append([]growth.Input{
		growth.Repeat("parts", "", part, "--x--\r\n"), growth.Repeat("boundaries", "", "--x\r\n", "--x--\r\n"),
		growth.Repeat("headers", "--x\r\n", "A: b\r\n", "\r\n\r\n--x--\r\n"), growth.Repeat("a header", "--x\r\nA: ", "b", "\r\n\r\n\r\n--x--\r\n"),
		growth.Repeat("parameters", "--x\r\nContent-Disposition: form-data", "; a=b", "\r\n\r\n\r\n--x--\r\n"),
		growth.Repeat("line breaks", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n", "\r\n", "--x--\r\n"),
		growth.Repeat("almost boundaries", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n", "\r\n--", "\r\n--x--\r\n"),
	}, growth.Text...)
	growth.Linear(t, growth.Each(inputs, func(body []byte) {
		_ = readForm(dialect.Source{ContentType: boundary, Body: bytes.Clone(body)})
	})...)
}

func FuzzForm(f *testing.F) {
	f.Add(boundary, []byte(formOf("model=m", "file@a.wav=x")))
	f.Add("multipart/form-data; boundary=\"\"", []byte("--\r\n"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		if err := readForm(dialect.Source{ContentType: kind, Body: body}); err != nil && apierr.From(err).Kind != apierr.KindInvalid {
			t.Errorf("%v is not an error of the caller", err)
		}
	})
}
