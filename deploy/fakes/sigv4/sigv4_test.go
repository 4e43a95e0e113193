package sigv4

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var exampleTime = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)

func keys(all map[string]Key) func(string) (Key, bool) {
	return func(id string) (Key, bool) { key, ok := all[id]; return key, ok }
}

// example are the keys, the time and the path escaping of the examples that AWS publishes.
func example() Options {
	return Options{
		Keys: keys(map[string]Key{"AKIDEXAMPLE": {Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}}),
		Now:  func() time.Time { return exampleTime }, escapesOnce: true,
	}
}

// request returns a request as it arrives.
func request(method, target, body string, headers map[string]string) *http.Request {
	r := httptest.NewRequest(method, "http://example.amazonaws.com"+target, strings.NewReader(body))
	r.RequestURI = target
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r
}

func signed(scope, names, signature string) map[string]string {
	return map[string]string{
		"X-Amz-Date":    "20150830T123600Z",
		"Authorization": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/" + scope + "/aws4_request, SignedHeaders=" + names + ", Signature=" + signature,
	}
}

const vanilla = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"

// Requests whose signatures AWS has published are valid.
func TestPublishedSignatures(t *testing.T) {
	for name, c := range map[string]struct{ method, target, signature string }{
		"get-vanilla":        {"GET", "/", vanilla},
		"get-vanilla-query":  {"GET", "/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		"get-vanilla-utf8":   {"GET", "/?%E1%88%B4=bar", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
		"get-utf8":           {"GET", "/%E1%88%B4", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
		"post-vanilla":       {"POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		"post-vanilla-query": {"POST", "/?Param1=value1", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
	} {
		r := request(c.method, c.target, "", signed("20150830/us-east-1/service", "host;x-amz-date", c.signature))
		if id, err := example().Verify(r, nil); err != nil || id != "AKIDEXAMPLE" {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
}

func TestRefusedSignatures(t *testing.T) {
	const scope, names = "20150830/us-east-1/service", "host;x-amz-date"
	for name, c := range map[string]struct {
		change  func(r *http.Request)
		options func(o *Options)
		want    error
	}{
		"none":                  {func(r *http.Request) { r.Header.Del("Authorization") }, nil, ErrMissing},
		"a bearer token":        {func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, nil, ErrIncomplete},
		"half a scope":          {func(r *http.Request) { set(r, signed("us-east-1/service", names, vanilla)) }, nil, ErrIncomplete},
		"no signature":          {func(r *http.Request) { set(r, signed(scope, names, "")) }, nil, ErrIncomplete},
		"host not signed":       {func(r *http.Request) { set(r, signed(scope, "x-amz-date", vanilla)) }, nil, ErrIncomplete},
		"names in upper case":   {func(r *http.Request) { set(r, signed(scope, "Host;x-amz-date", vanilla)) }, nil, ErrIncomplete},
		"names not sorted":      {func(r *http.Request) { set(r, signed(scope, "x-amz-date;host", vanilla)) }, nil, ErrIncomplete},
		"a token not signed":    {func(r *http.Request) { r.Header.Set("X-Amz-Target", "t") }, nil, ErrIncomplete},
		"no date":               {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, nil, ErrIncomplete},
		"another day":           {func(r *http.Request) { set(r, signed("20150831/us-east-1/service", names, vanilla)) }, nil, ErrWrong},
		"another path":          {func(r *http.Request) { r.RequestURI = "/x" }, nil, ErrWrong},
		"another query":         {func(r *http.Request) { r.RequestURI = "/?a=b" }, nil, ErrWrong},
		"another host":          {func(r *http.Request) { r.Host = "evil.example" }, nil, ErrWrong},
		"another method":        {func(r *http.Request) { r.Method = http.MethodPut }, nil, ErrWrong},
		"another time":          {func(r *http.Request) { r.Header.Set("X-Amz-Date", "20150830T123601Z") }, nil, ErrWrong},
		"a hash of other bytes": {func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "00") }, nil, ErrIncomplete},
		"too early":             {nil, func(o *Options) { o.Now = func() time.Time { return exampleTime.Add(-301 * time.Second) } }, ErrWrong},
		"too late":              {nil, func(o *Options) { o.Now = func() time.Time { return exampleTime.Add(301 * time.Second) } }, ErrWrong},
		"another service":       {nil, func(o *Options) { o.Service = "bedrock" }, ErrWrong},
		"another region":        {nil, func(o *Options) { o.Region = "eu-west-1" }, ErrWrong},
		"an unknown key":        {nil, func(o *Options) { o.Keys = keys(nil) }, ErrUnknownKey},
		"another secret":        {nil, func(o *Options) { o.Keys = keys(map[string]Key{"AKIDEXAMPLE": {Secret: "x"}}) }, ErrWrong},
		"no session token": {nil, func(o *Options) {
			o.Keys = keys(map[string]Key{"AKIDEXAMPLE": {Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", SessionToken: "t"}})
		}, ErrUnknownKey},
		"a key that ended": {nil, func(o *Options) {
			o.Keys = keys(map[string]Key{"AKIDEXAMPLE": {Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", Expires: exampleTime}})
		}, ErrExpired},
	} {
		r, o := request("GET", "/", "", signed(scope, names, vanilla)), example()
		if c.change != nil {
			c.change(r)
		}
		if c.options != nil {
			c.options(&o)
		}
		if _, err := o.Verify(r, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := example().Verify(request("GET", "/", "", signed(scope, names, vanilla)), []byte("x")); !errors.Is(err, ErrWrong) {
		t.Errorf("another body: %v", err)
	}
}

func set(r *http.Request, headers map[string]string) {
	for name, value := range headers {
		r.Header.Set(name, value)
	}
}

// A path is escaped once more than it was sent.
func TestPathIsEscapedTwice(t *testing.T) {
	for sent, want := range map[string]string{
		"/model/arn%3Aaws%2Fm/converse": "/model/arn%253Aaws%252Fm/converse",
		"/a%20b/":                       "/a%2520b/",
		"/a:b":                          "/a%3Ab",
		"":                              "/",
		"/a//b/../c":                    "/a/c",
	} {
		if got := (Options{}).canonicalPath(sent); got != want {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
	}
}

func TestRequire(t *testing.T) {
	served := 0
	handler := Require(example(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served++
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
	}))
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request("GET", "/", "", signed("20150830/us-east-1/service", "host;x-amz-date", vanilla)))
	if answer.Code != http.StatusOK || served != 1 {
		t.Errorf("valid: %d, served %d", answer.Code, served)
	}
	answer = httptest.NewRecorder()
	handler.ServeHTTP(answer, request("GET", "/x", "", signed("20150830/us-east-1/service", "host;x-amz-date", vanilla)))
	if answer.Code != http.StatusForbidden || answer.Header().Get("X-Amzn-Errortype") != "InvalidSignatureException" || served != 1 {
		t.Errorf("wrong: %d %v, served %d", answer.Code, answer.Header(), served)
	}
}
