//go:build sigv4suite

package sigv4

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuite verifies the signatures of AWS's signing test suite, which is in tests/aws-signing-test-suite/v4 of
// github.com/awslabs/aws-c-auth. SIGV4_SUITE names that folder; go test -tags sigv4suite.
func TestSuite(t *testing.T) {
	folder := os.Getenv("SIGV4_SUITE")
	if folder == "" {
		t.Fatal("SIGV4_SUITE is not set")
	}
	cases, err := filepath.Glob(filepath.Join(folder, "*", "header-canonical-request.txt"))
	if err != nil || len(cases) < 38 {
		t.Fatalf("%d cases, %v; want at least 38", len(cases), err)
	}
	for _, at := range cases {
		dir := filepath.Dir(at)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var c struct {
				Credentials struct{ Token string }
				Normalize   bool
				OmitToken   bool `json:"omit_session_token"`
			}
			read(t, dir, "context.json", func(text []byte) error { return json.Unmarshal(text, &c) })
			read(t, dir, "header-signed-request.txt", func(text []byte) error {
				r, body := parseSigned(text)
				o := example()
				o.Keys = keys(map[string]Key{"AKIDEXAMPLE": {Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", SessionToken: c.Credentials.Token}})
				// A service normalizes every path; the suite has cases for one that does not.
				_, err := o.Verify(r, body)
				if c.OmitToken {
					if !errors.Is(err, ErrIncomplete) {
						t.Errorf("%v, want a refusal of a token that was added behind the signature", err)
					}
					return nil
				}
				if unnormalized := !c.Normalize && pathOf(r) != o.canonicalPath(pathOf(r)); unnormalized {
					if !errors.Is(err, ErrWrong) {
						t.Errorf("%v, want a refusal of a path that was signed as it is", err)
					}
					return nil
				}
				return err
			})
		})
	}
}

func pathOf(r *http.Request) string { at, _, _ := strings.Cut(r.RequestURI, "?"); return at }

func read(t *testing.T, dir, name string, use func([]byte) error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err == nil {
		err = use(text)
	}
	if err != nil {
		t.Error(err)
	}
}

// parseSigned reads a request of the suite, whose paths are not escaped and whose headers may be folded.
func parseSigned(text []byte) (*http.Request, []byte) {
	head, body, _ := bytes.Cut(text, []byte("\n\n"))
	first, rest, _ := strings.Cut(strings.TrimRight(string(head), "\n"), "\n")
	method, target, _ := strings.Cut(first, " ")
	at, query, found := strings.Cut(strings.TrimSuffix(target, " HTTP/1.1"), "?")
	at = escape(at, "/%")
	if found {
		at += "?" + query
	}
	r := &http.Request{Method: method, RequestURI: at, Header: http.Header{}, ContentLength: int64(len(body))}
	var last string
	for line := range strings.SplitSeq(rest, "\n") {
		name, value, ok := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, " "):
			r.Header[last][len(r.Header[last])-1] += " " + strings.TrimSpace(line)
		case ok && strings.EqualFold(name, "Host"):
			r.Host = value
		case ok:
			last = http.CanonicalHeaderKey(name)
			r.Header[last] = append(r.Header[last], value)
		}
	}
	return r, body
}
