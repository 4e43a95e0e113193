package providertest

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

var update = flag.Bool("update", false, "write the golden requests anew")

// sent is a request in the form of a golden file.
type sent struct {
	Method string         `json:"method"`
	URL    string         `json:"url"`
	Header map[string]any `json:"header"`
	Body   any            `json:"body"`
}

// Requests compares the requests sent for each of Chats, whole, and for the first of them streamed, with the golden
// files requests/<name>.json.
func Requests(t *testing.T, d Dialect) {
	t.Helper()
	for name, chat := range Chats() {
		t.Run(name, func(t *testing.T) { d.Request(t, name, chat, false) })
	}
	t.Run("stream", func(t *testing.T) { d.Request(t, "stream", Chats()["text"], true) })
}

// Request compares one request, adapted to the model's terms, with its golden file.
func (d Dialect) Request(t *testing.T, name string, chat *provider.Chat, stream bool) {
	t.Helper()
	var got sent
	answer := d.either(t, "text")
	p := d.serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = record(t, r)
		answer(w, r)
	})
	terms := provider.Dialect{Terms: d.Terms}.TermsOf(chat.Model)
	fitted, err := terms.Fit(chat)
	if err != nil {
		t.Fatal(err)
	}
	if stream {
		var s provider.Stream
		if s, err = p.StreamChat(t.Context(), Credential(), fitted.Chat); err == nil {
			_, err = Collect(s)
		}
	} else {
		_, err = p.Chat(t.Context(), Credential(), fitted.Chat)
	}
	if err != nil {
		t.Fatal(err)
	}
	CompareGolden(t, filepath.Join(d.testdata(), "requests", name+".json"), got)
}

func record(t *testing.T, r *http.Request) sent {
	t.Helper()
	got := sent{Method: r.Method, URL: r.URL.String(), Header: make(map[string]any)}
	for name, values := range r.Header {
		got.Header[name] = strings.ReplaceAll(strings.Join(values, ", "), Key, "{{key}}")
	}
	maps.DeleteFunc(got.Header, func(name string, _ any) bool { return name == "User-Agent" || name == "Content-Length" })
	body, err := io.ReadAll(r.Body)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		err = decoder.Decode(&got.Body)
	}
	if err != nil {
		t.Errorf("the request's body: %v: %s", err, body)
	}
	r.Body = http.NoBody
	return got
}

// CompareGolden compares a value's canonical JSON with a file, or writes the file with -update.
func CompareGolden(t *testing.T, path string, value any) {
	t.Helper()
	var got bytes.Buffer
	encoder := json.NewEncoder(&got)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
