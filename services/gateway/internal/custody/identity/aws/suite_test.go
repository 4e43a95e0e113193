//go:build sigv4suite

package aws

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// suiteCase is a context.json of AWS's signing test suite.
type suiteCase struct {
	Credentials struct {
		ID     string `json:"access_key_id"`
		Secret string `json:"secret_access_key"`
		Token  string `json:"token"`
	} `json:"credentials"`
	Normalize bool      `json:"normalize"`
	Region    string    `json:"region"`
	Service   string    `json:"service"`
	SignBody  bool      `json:"sign_body"`
	Timestamp time.Time `json:"timestamp"`
	OmitToken bool      `json:"omit_session_token"`
}

// TestSuite runs AWS's signing test suite, which is in tests/aws-signing-test-suite/v4 of github.com/awslabs/aws-c-auth.
// SIGV4_SUITE names that folder; go test -tags sigv4suite.
func TestSuite(t *testing.T) {
	folder := os.Getenv("SIGV4_SUITE")
	if folder == "" {
		t.Fatal("SIGV4_SUITE is not set")
	}
	cases, err := filepath.Glob(filepath.Join(folder, "*", "context.json"))
	if err != nil || len(cases) < 38 {
		t.Fatalf("%d cases, %v; want at least 38", len(cases), err)
	}
	for _, context := range cases {
		dir := filepath.Dir(context)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var c suiteCase
			if err := json.Unmarshal(load(t, context), &c); err != nil {
				t.Fatal(err)
			}
			r, body := parseRequest(t, load(t, filepath.Join(dir, "request.txt")), c.Normalize)
			if c.SignBody {
				sum := sha256.Sum256(body)
				r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
			}
			key := aws.Credentials{AccessKeyID: c.Credentials.ID, SecretAccessKey: c.Credentials.Secret, SessionToken: c.Credentials.Token}
			got, names := sign(t, escapingOnce(key, c.Region, c.Service, c.OmitToken), r, string(body), c.Timestamp)
			want := strings.TrimSpace(string(load(t, filepath.Join(dir, "header-signature.txt"))))
			if got != want {
				t.Errorf("%s over %s, want %s", got, names, want)
			}
		})
	}
}

func load(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// parseRequest reads a request of the suite, whose paths may hold blanks and whose headers may be folded.
func parseRequest(t *testing.T, text []byte, normalize bool) (*http.Request, []byte) {
	t.Helper()
	head, body, _ := bytes.Cut(text, []byte("\n\n"))
	first, rest, _ := strings.Cut(strings.TrimRight(string(head), "\n"), "\n")
	method, target, _ := strings.Cut(first, " ")
	target = strings.TrimSuffix(target, " HTTP/1.1")
	at := &url.URL{Scheme: "https"}
	at.Path, at.RawQuery, _ = strings.Cut(target, "?")
	if normalize {
		slash := strings.HasSuffix(at.Path, "/") || strings.HasSuffix(at.Path, "/.") || strings.HasSuffix(at.Path, "/..")
		if at.Path = path.Clean(at.Path); slash && at.Path != "/" {
			at.Path += "/"
		}
	}
	r := (&http.Request{Method: method, URL: at, Header: http.Header{}}).WithContext(t.Context())
	var last string
	for line := range strings.SplitSeq(rest, "\n") {
		name, value, ok := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, " "):
			values := r.Header[last]
			values[len(values)-1] += " " + strings.TrimSpace(line)
		case ok && strings.EqualFold(name, "Host"):
			at.Host = value
		case ok && strings.EqualFold(name, "Content-Length"):
			r.ContentLength = int64(len(body))
		case ok:
			last = http.CanonicalHeaderKey(name)
			r.Header[last] = append(r.Header[last], value)
		}
	}
	return r, body
}
