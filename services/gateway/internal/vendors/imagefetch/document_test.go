package imagefetch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A PDF is one by its bytes, whatever its server says. Other documents are what their server says, without parameters.
func TestFetchDocument(t *testing.T) {
	for _, c := range []struct{ data, declared, want string }{
		{"%PDF-1.7 and so on", "text/html", "application/pdf"},
		{"\xef\xbb\xbf\n%PDF-1.4", "", "application/pdf"},
		{"a,b", "Text/CSV; charset=utf-8", "text/csv"},
		{`{"a":1}`, "application/json", "application/json"},
		{"PK and so on", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	} {
		url, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.declared)
			_, _ = w.Write([]byte(c.data))
		})
		got, err := f.FetchDocument(t.Context(), url+"/a?token=1")
		if err != nil || got.Type != c.want || string(got.Data) != c.data {
			t.Errorf("%q as %q: %+v, %v, want %s", c.data, c.declared, got, err, c.want)
		}
		if uri := got.DataURI(); !strings.HasPrefix(uri, "data:"+c.want+";base64,") {
			t.Errorf("its data: URI is %q", uri)
		}
	}
}

func TestFetchDocumentRefuses(t *testing.T) {
	say := func(declared, data string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", declared)
			_, _ = w.Write([]byte(data))
		}
	}
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		text   string
	}{
		"a PDF that is none": {say("application/pdf", "<html>sign in"), "is no PDF"},
		"a program":          {say("application/octet-stream", "\x7fELF"), "is no PDF"},
		"an image":           {say("image/png", string(png)), "is no PDF"},
		"no type":            {say("nonsense;;", "hi"), "is no PDF"},
		"nothing":            {say("text/plain", ""), "is no PDF"},
		"a mark too late":    {say("", strings.Repeat(" ", markBytes)+"%PDF-1.7"), "is no PDF"},
		"not there":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "the document's server answered with status 404"},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(MaxBytes+1))
			_, _ = w.Write([]byte("%PDF-"))
		}, "the document is larger than 20971520 bytes"},
		"round and round": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, "the document's server redirects too often"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, f := serve(t, c.handle)
			_, err := f.FetchDocument(t.Context(), url+"/X-Amz-Signature-1a2b3c")
			refusedWith(t, err, ReasonDocumentInvalid, c.text)
			if strings.Contains(fmt.Sprintf("%+v", err), "1a2b3c") {
				t.Errorf("the signed URL is in %+v", err)
			}
		})
	}
	f := fetcher(t, Options{})
	_, err := f.FetchDocument(t.Context(), "https://169.254.169.254/latest/meta-data/")
	refusedWith(t, err, ReasonTargetNotAllowed, "is not allowed")
}
