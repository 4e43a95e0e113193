package secret_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const hidden = "hunter2"

type holder struct {
	Name  string
	Token secret.Value
	inner secret.Value
	deep  *secret.Value
}

// No way to print a secret, or a value that contains one, may show it.
func TestValueIsNeverShown(t *testing.T) {
	v := secret.New(hidden)
	h := holder{Name: "gateway", Token: v, inner: v, deep: &v}
	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s"} {
		shown["value "+verb] = fmt.Sprintf(verb, v)
		shown["pointer "+verb] = fmt.Sprintf(verb, &v)
		shown["holder "+verb] = fmt.Sprintf(verb, h)
		shown["list "+verb] = fmt.Sprintf(verb, []secret.Value{v})
		shown["map "+verb] = fmt.Sprintf(verb, map[string]any{"v": v, "h": h})
	}
	shown["error"] = fmt.Errorf("connect with %v: %w", v, os.ErrClosed).Error()
	shown["json"] = string(must(json.Marshal(h)))
	shown["json map"] = string(must(json.Marshal(map[string]any{"v": &v})))
	shown["xml"] = string(must(xml.Marshal(v)))
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"slog json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"slog text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(handler(&b)).Info("start", "v", v, "h", h, "p", &v, "g", slog.GroupValue(slog.Any("v", v)))
		shown[name] = b.String()
	}
	for name, text := range shown {
		for _, leak := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden)} {
			if strings.Contains(text, leak) {
				t.Errorf("%s shows the secret: %s", name, text)
			}
		}
	}
}

func TestValueRendersAsRedacted(t *testing.T) {
	v := secret.New(hidden)
	got := []string{
		v.String(), v.GoString(), fmt.Sprintf("%x", v), v.LogValue().String(),
		string(must(v.MarshalText())), strings.Trim(string(must(v.MarshalJSON())), `"`),
	}
	for i, text := range got {
		if text != "[redacted]" {
			t.Errorf("rendering %d = %q, want [redacted]", i, text)
		}
	}
}

func TestValue(t *testing.T) {
	v := secret.New(hidden)
	if v.Reveal() != hidden || v.IsZero() {
		t.Errorf("Reveal = %q, IsZero = %v", v.Reveal(), v.IsZero())
	}
	if zero := secret.New(""); !zero.IsZero() || zero.Reveal() != "" || !zero.Equal(secret.Value{}) {
		t.Error(`New("") is not the zero Value`)
	}
	if !v.Equal(secret.New(hidden)) || v.Equal(secret.New("hunter3")) || v.Equal(secret.Value{}) {
		t.Error("Equal does not compare the text")
	}
}

func TestFile(t *testing.T) {
	tests := map[string]struct {
		content string
		read    string
		lines   []string
	}{
		"plain":             {"s3cret", "s3cret", []string{"s3cret"}},
		"trailing newline":  {"s3cret\n", "s3cret", []string{"s3cret"}},
		"windows newlines":  {"s3cret\r\n\r\n", "s3cret", []string{"s3cret"}},
		"inner spaces stay": {" a b \n", " a b ", []string{" a b "}},
		"two that overlap":  {"new\n\n  \nold\r\n", "new\n\n  \nold", []string{"new", "old"}},
		"at the bound":      {strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20), []string{strings.Repeat("x", 1<<20)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := secret.File(testkit.File(t, tt.content))
			v, err := f.Read()
			if err != nil {
				t.Fatal(err)
			}
			values, err := f.Lines()
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, v := range values {
				lines = append(lines, v.Reveal())
			}
			if diff := cmp.Diff(tt.read, v.Reveal()); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.lines, lines); diff != "" {
				t.Errorf("Lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFileErrors(t *testing.T) {
	tests := map[string]struct {
		file secret.File
		want string
	}{
		"missing":   {secret.File(filepath.Join(t.TempDir(), "absent")), "absent"},
		"empty":     {secret.File(testkit.File(t, "")), "is empty"},
		"blank":     {secret.File(testkit.File(t, " \r\n\n")), "is empty"},
		"too large": {secret.File(testkit.File(t, hidden+strings.Repeat("x", 1<<20))), "larger than 1048576 bytes"},
		"directory": {secret.File(t.TempDir()), "is a directory"},
		"no name":   {"", "no file is set"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := tt.file.Read()
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), string(tt.file)) {
				t.Errorf("Read error = %v, want it to name %q and say %q", err, tt.file, tt.want)
			}
			if !v.IsZero() || strings.Contains(fmt.Sprint(err), hidden) {
				t.Errorf("Read gave something away: %v", err)
			}
			if lines, err := tt.file.Lines(); err == nil || lines != nil {
				t.Errorf("Lines = %v, %v, want an error", lines, err)
			}
		})
	}
}

func TestFileUnmarshalText(t *testing.T) {
	var f secret.File
	if err := f.UnmarshalText([]byte("/run/secrets/database-url")); err != nil || f != "/run/secrets/database-url" {
		t.Errorf("path: %q, %v", f, err)
	}
	for _, text := range []string{"postgres://gateway:" + hidden + "@db/x", hidden + "\n"} {
		err := f.UnmarshalText([]byte(text))
		if err == nil || strings.Contains(err.Error(), hidden) {
			t.Errorf("%q: error = %v, want one that does not repeat it", text, err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
