package aws

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

var _ provider.Signer = (*Signer)(nil)

// The key and the time of the examples that AWS publishes.
var (
	exampleKey  = aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	exampleTime = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
)

// escapingOnce returns a Signer as S3 and the published examples want it.
func escapingOnce(c aws.Credentials, region, service string, omitToken bool) *Signer {
	s := NewSigner(c, region, service)
	s.signer = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping, o.DisableSessionToken = true, omitToken })
	return s
}

// newRequest returns a request whose headers are "Name: value" lines.
func newRequest(t *testing.T, method, at, body string, headers ...string) *http.Request {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	r := (&http.Request{
		Method: method, URL: u, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(t.Context())
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// sign returns the signature and the names of the signed headers.
func sign(t *testing.T, s *Signer, r *http.Request, body string, at time.Time) (signature, names string) {
	t.Helper()
	if err := s.Sign(t.Context(), r, sha256.Sum256([]byte(body)), at); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	names, rest, _ = strings.Cut(rest, ",")
	_, signature, _ = strings.Cut(rest, "Signature=")
	return signature, names
}

// The signatures of requests whose signatures AWS has published: the worked example of its documentation, and cases of
// its test suite.
func TestPublishedSignatures(t *testing.T) {
	for name, c := range map[string]struct {
		method, url, body string
		headers           []string
		service, want     string
	}{
		"documentation":         {"GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", "", []string{"Content-Type: application/x-www-form-urlencoded; charset=utf-8"}, "iam", "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
		"get-vanilla":           {"GET", "https://example.amazonaws.com/", "", nil, "service", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		"get-vanilla-query":     {"GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1", "", nil, "service", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		"get-vanilla-utf8":      {"GET", "https://example.amazonaws.com/?%E1%88%B4=bar", "", nil, "service", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
		"get-utf8":              {"GET", "https://example.amazonaws.com/%E1%88%B4", "", nil, "service", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
		"get-unreserved":        {"GET", "https://example.amazonaws.com/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "", nil, "service", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
		"get-header-value-trim": {"GET", "https://example.amazonaws.com/", "", []string{"My-Header1:  value1", "My-Header2: \"a   b   c\""}, "service", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
		"get-header-duplicate":  {"GET", "https://example.amazonaws.com/", "", []string{"My-Header1: value2", "My-Header1: value2", "My-Header1: value1"}, "service", "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
		"post-vanilla":          {"POST", "https://example.amazonaws.com/", "", nil, "service", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		"post-vanilla-query":    {"POST", "https://example.amazonaws.com/?Param1=value1", "", nil, "service", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
		"post-header-value":     {"POST", "https://example.amazonaws.com/", "", []string{"My-Header1: VALUE1"}, "service", "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
	} {
		r := newRequest(t, c.method, c.url, c.body, c.headers...)
		got, names := sign(t, escapingOnce(exampleKey, "us-east-1", c.service, false), r, c.body, exampleTime)
		if got != c.want {
			t.Errorf("%s: %s over %s, want %s", name, got, names, c.want)
		}
	}
}

// What a transport or a proxy may change is not signed, and nothing of it is lost.
func TestUnsignedHeaders(t *testing.T) {
	signer := NewSigner(exampleKey, "us-east-1", "bedrock")
	request := func(more ...string) *http.Request {
		return newRequest(t, "POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", "{}",
			append([]string{"Content-Type: application/json"}, more...)...)
	}
	want, names := sign(t, signer, request(), "{}", exampleTime)
	if names != "content-length;content-type;host;x-amz-date" {
		t.Errorf("signed %s", names)
	}
	changed := request("Traceparent: 00-1-2-01", "Baggage: a=b", "User-Agent: x", "Accept-Encoding: gzip", "X-Amzn-Trace-Id: Root=1", "Connection: close", "Via: 1.1 proxy")
	got, names := sign(t, signer, changed, "{}", exampleTime)
	if got != want {
		t.Errorf("signed %s: headers that a transport changes are in the signature", names)
	}
	if changed.Header.Get("Traceparent") == "" || changed.Header.Get("User-Agent") != "x" {
		t.Errorf("headers are lost: %v", changed.Header)
	}
	if other, _ := sign(t, signer, request("Anthropic-Workspace-Id: w"), "{}", exampleTime); other == want {
		t.Error("a header of the vendor is not signed")
	}
	if other, _ := sign(t, signer, request(), "{ }", exampleTime); other == want {
		t.Error("the body is not signed")
	}
}

// A request that is sent again is signed as it is then.
func TestSignAgain(t *testing.T) {
	temporary := exampleKey
	temporary.SessionToken = "session-token"
	r := newRequest(t, "POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", "{}", "Authorization: Bearer other", "X-Amz-Date: yesterday")
	signer := NewSigner(temporary, "us-east-1", "bedrock")
	first, names := sign(t, signer, r, "{}", exampleTime)
	if names != "content-length;host;x-amz-date;x-amz-security-token" {
		t.Errorf("signed %s", names)
	}
	if r.Header.Get("X-Amz-Date") != "20150830T123600Z" || r.Header.Get("X-Amz-Security-Token") != "session-token" {
		t.Errorf("headers %v", r.Header)
	}
	again, _ := sign(t, signer, r, "{}", exampleTime)
	if again != first {
		t.Error("the earlier signature is part of the next")
	}
	later, _ := sign(t, signer, r, "{}", exampleTime.Add(time.Minute))
	if later == first || len(r.Header.Values("Authorization")) != 1 || len(r.Header.Values("X-Amz-Date")) != 1 {
		t.Errorf("a minute later: %v", r.Header)
	}
	other := NewSigner(exampleKey, "us-east-1", "bedrock")
	if _, names := sign(t, other, r, "{}", exampleTime); r.Header.Get("X-Amz-Security-Token") != "" {
		t.Errorf("the token of another credential is left: %s", names)
	}
}

// An ARN in a path travels escaped, and is signed escaped once more.
func TestPathIsEscapedTwice(t *testing.T) {
	const at = "https://bedrock-runtime.us-east-1.amazonaws.com/model/arn%3Aaws%3Abedrock%2Fm/converse"
	twice, _ := sign(t, NewSigner(exampleKey, "us-east-1", "bedrock"), newRequest(t, "POST", at, "{}"), "{}", exampleTime)
	const signedPath = "https://bedrock-runtime.us-east-1.amazonaws.com/model/arn%253Aaws%253Abedrock%252Fm/converse"
	want, _ := sign(t, escapingOnce(exampleKey, "us-east-1", "bedrock", false), newRequest(t, "POST", signedPath, "{}"), "{}", exampleTime)
	if twice != want {
		t.Errorf("%s, want %s", twice, want)
	}
}

// AWS repeats the headers that it wanted signed.
func TestRedact(t *testing.T) {
	temporary := exampleKey
	temporary.SessionToken = "session-canary"
	text := "The Canonical String should have been x-amz-security-token:session-canary and not " + temporary.SecretAccessKey
	if got, want := NewSigner(temporary, "us-east-1", "bedrock").Redact(text), "The Canonical String should have been x-amz-security-token:[redacted] and not [redacted]"; got != want {
		t.Errorf("%s", got)
	}
	if got := NewSigner(aws.Credentials{}, "", "").Redact("text"); got != "text" {
		t.Errorf("without secrets: %s", got)
	}
}

func TestSignIsSafeForConcurrentUse(t *testing.T) {
	signer := NewSigner(exampleKey, "us-east-1", "bedrock")
	want, _ := sign(t, signer, newRequest(t, "POST", "https://example.com/", "{}"), "{}", exampleTime)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				if got, _ := sign(t, signer, newRequest(t, "POST", "https://example.com/", "{}"), "{}", exampleTime); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkSign(b *testing.B) {
	signer := NewSigner(exampleKey, "us-east-1", "bedrock")
	at, err := url.Parse("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse")
	if err != nil {
		b.Fatal(err)
	}
	r := (&http.Request{Method: http.MethodPost, URL: at, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: 2}).WithContext(b.Context())
	sum := sha256.Sum256([]byte("{}"))
	for b.Loop() {
		if err := signer.Sign(b.Context(), r, sum, exampleTime); err != nil {
			b.Fatal(err)
		}
	}
}
