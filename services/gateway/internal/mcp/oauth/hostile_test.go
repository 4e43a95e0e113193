package oauth

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/testkit/growth"
)

const (
	resourcePath = "/.well-known/oauth-protected-resource/mcp"
	issuerPath   = "/.well-known/oauth-authorization-server/tenant"
)

// What servers and authorization servers may answer, and what is said of it: nothing of what they were sent or sent back.
func TestHostileAnswers(t *testing.T) {
	endless := func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(rw, strings.Repeat(" ", 64<<10)); err != nil {
				return
			}
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, http.StatusTemporaryRedirect) }
	}
	token := func(members string) string {
		return `{"access_token":"` + "canary" + `","token_type":"Bearer"` + members + `}`
	}
	for name, test := range map[string]struct {
		path, text string
		with       http.HandlerFunc
		change     func(c *toolserver.OAuth)
		want       string
	}{
		"a resource of another": {path: resourcePath, text: `{"resource":"https://canary.example/mcp","authorization_servers":["URL/tenant"]}`, want: "of another resource"},
		"a resource beside it":  {path: resourcePath, text: `{"resource":"URL/mc","authorization_servers":["URL/tenant"]}`, want: "of another resource"},
		"a resource below it":   {path: resourcePath, text: `{"resource":"URL/mcp/canary","authorization_servers":["URL/tenant"]}`, want: "of another resource"},
		"a resource with users": {path: resourcePath, text: `{"resource":"http://canary@127.0.0.1/mcp","authorization_servers":["URL/tenant"]}`, want: "of another resource"},
		"no resource":           {path: resourcePath, text: `{"authorization_servers":["URL/tenant"]}`, want: "has no resource"},
		"no issuers":            {path: resourcePath, text: `{"resource":"URL/mcp","authorization_servers":"URL/tenant"}`, want: "names no authorization server"},
		"another issuer":        {path: resourcePath, text: `{"resource":"URL/mcp","authorization_servers":["https://canary.example"]}`, want: "does not name the registered issuer"},
		"a member twice":        {path: resourcePath, text: `{"resource":"URL/mcp","resource":"URL/mcp","authorization_servers":["URL/tenant"]}`, want: "not a JSON object"},
		"an array":              {path: resourcePath, text: `[]`, want: "not a JSON object"},
		"nested deep":           {path: resourcePath, text: strings.Repeat("[", 100_000), want: "not a JSON object"},
		"a redirect inwards":    {path: resourcePath, with: redirect("http://169.254.169.254/latest/meta-data"), want: "the server redirects"},
		"a redirect to itself":  {path: resourcePath, with: redirect(resourcePath), want: "the server redirects"},
		"endless":               {path: resourcePath, with: endless, want: "more than is read"},
		"broken":                {path: resourcePath, with: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: "the server can't be reached"},
		"away":                  {path: resourcePath, with: func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) }, want: "the server answered with status 503"},

		"the issuer's redirect":    {path: issuerPath, with: redirect("http://169.254.169.254/"), want: "the authorization server redirects"},
		"endless, of the issuer":   {path: issuerPath, with: endless, want: "more than is read"},
		"metadata of another":      {path: issuerPath, text: `{"issuer":"URL/canary","token_endpoint":"URL/token"}`, want: "of another issuer"},
		"with a slash more":        {path: issuerPath, text: `{"issuer":"URL/tenant/","token_endpoint":"URL/token"}`, want: "of another issuer"},
		"none of the issuer":       {path: issuerPath, want: "has no metadata"},
		"no endpoint":              {path: issuerPath, text: `{"issuer":"URL/tenant"}`, want: "no token_endpoint"},
		"an endpoint elsewhere":    {path: issuerPath, text: `{"issuer":"URL/tenant","token_endpoint":"https://canary.example/token"}`, want: "of another origin than its issuer"},
		"another than registered":  {path: issuerPath, text: `{"issuer":"URL/tenant","token_endpoint":"URL/token"}`, change: func(c *toolserver.OAuth) { c.TokenEndpoint = "https://canary.example/t" }, want: "another one than registered"},
		"without the grant":        {path: issuerPath, text: `{"issuer":"URL/tenant","token_endpoint":"URL/token","grant_types_supported":["authorization_code"]}`, want: "does not offer the grant"},
		"without the way":          {path: issuerPath, text: `{"issuer":"URL/tenant","token_endpoint":"URL/token","token_endpoint_auth_methods_supported":["private_key_jwt"]}`, want: "does not offer client_secret_basic"},
		"a redirect of the secret": {path: "/token", with: redirect("http://169.254.169.254/token"), want: "the authorization server redirects"},
		"endless, of the endpoint": {path: "/token", with: endless, want: "more than is read"},
		"no JSON":                  {path: "/token", with: func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "canary") }, want: "not the JSON of a token"},
		"another type":             {path: "/token", text: `{"access_token":"canary","token_type":"DPoP","expires_in":60}`, want: "not Bearer"},
		"no type":                  {path: "/token", text: `{"access_token":"canary","expires_in":60}`, want: "not Bearer"},
		"no token":                 {path: "/token", text: `{"token_type":"Bearer","expires_in":60}`, want: "no access_token"},
		"a token of two lines":     {path: "/token", text: `{"access_token":"a\r\ncanary: b","token_type":"Bearer"}`, want: "no access_token"},
		"a token that is too long": {path: "/token", text: `{"access_token":"` + strings.Repeat("a", toolserver.MaxSecret+1) + `","token_type":"Bearer"}`, want: "no access_token"},
		"a negative life":          {path: "/token", text: token(`,"expires_in":-5`), want: "no number of seconds"},
		"no life":                  {path: "/token", text: token(`,"expires_in":0`), want: "no number of seconds"},
		"a life of words":          {path: "/token", text: token(`,"expires_in":"canary"`), want: "no number of seconds"},
		"an infinite life":         {path: "/token", text: token(`,"expires_in":1e999`), want: "no number of seconds"},
		"another audience":         {path: "/token", text: `{"access_token":"` + unsigned(`{"aud":["https://canary.example"]}`) + `","token_type":"Bearer"}`, want: "another audience"},
		"an audience of no kind":   {path: "/token", text: `{"access_token":"` + unsigned(`{"aud":7}`) + `","token_type":"Bearer"}`, want: "another audience"},
		"a code that is a text": {path: "/token", with: func(rw http.ResponseWriter, _ *http.Request) {
			http.Error(rw, `{"error":"canary 1"}`, http.StatusBadRequest)
		}, want: "answered with status 400"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.with != nil {
				w.answer(test.path, test.with)
			} else {
				w.says(test.path, test.text)
			}
			c := w.oauth()
			if test.change != nil {
				test.change(c)
			}
			granted, err := w.exchange(t, c)
			e, ok := errors.AsType[*Error](err)
			if !ok || !strings.Contains(e.Text, test.want) || strings.Contains(e.Text, "canary") || strings.Contains(e.Text, "127.0.0.1") {
				t.Errorf("%+v, %v; want an error with %q", granted, err, test.want)
			}
			if n := len(w.requests()); n > 8 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A server's challenge is followed within its origin alone, and once.
func TestChallengesElsewhere(t *testing.T) {
	for _, place := range []string{"http://169.254.169.254/latest", "https://canary.example/meta", "URL/mcp", "/relative"} {
		w := newWorld(t)
		w.says(resourcePath, "")
		w.answer("/mcp", challenge(`Bearer resource_metadata="`+strings.ReplaceAll(place, "URL", w.URL)+`"`))
		if _, err := w.exchange(t, w.oauth()); err != nil || len(w.requests()) > 6 {
			t.Errorf("%s: %v, %q", place, err, w.requests())
		}
	}
}

// Addresses of the inside are refused when they are dialled, too.
func TestAddressesAreGuarded(t *testing.T) {
	w := newWorld(t)
	c := w.oauth()
	w.says(resourcePath, "")
	for _, issuer := range []string{"https://169.254.169.254", "http://plain.example", "https://127.0.0.1:1/tenant"} {
		c.Issuer = issuer
		if _, err := w.exchange(t, c); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: %v", issuer, err)
		}
	}
}

func TestLives(t *testing.T) {
	for text, want := range map[string]time.Duration{"": assumedLife, "1": time.Second, "3600": time.Hour, `"60"`: time.Minute, "1.5": 1500 * time.Millisecond, "1e30": 365 * 24 * time.Hour} {
		var value []byte
		if text != "" {
			value = []byte(text)
		}
		if got, err := lifetime(value); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestAudiences(t *testing.T) {
	const resource = "https://a.example/mcp"
	for token, want := range map[string]bool{
		"opaque": true, "a.b.c": true, unsigned(`{}`): true, unsigned(`{"aud":"https://a.example/mcp"}`): true, unsigned(`{"aud":["x","https://a.example/mcp/"]}`): true,
		unsigned(`{"aud":"https://a.example"}`): false, unsigned(`{"aud":[]}`): false, unsigned(`{"aud":{}}`): false, unsigned(`not JSON`): true,
	} {
		if got := intendedFor(token, resource); got != want {
			t.Errorf("%s: %v", token, got)
		}
	}
}

func TestChallenge(t *testing.T) {
	for value, want := range map[string]Challenge{
		``: {}, `Bearer`: {}, `Basic realm="x"`: {}, `Digest a=b, Basic c`: {},
		`Bearer error="insufficient_scope", scope="a b", resource_metadata="https://a/b"`: {"insufficient_scope", "a b", "https://a/b"},
		`bearer Error=invalid_token,scope=a`:                                              {"invalid_token", "a", ""},
		`Basic realm="Bearer error=\"x\"", Bearer realm="a\"b, c=d", scope="s"`:           {"", "s", ""},
		`Bearer scope="a", Basic scope="b"`:                                               {"", "a", ""},
		`Bearer scope="a` + "\x01" + `b"`:                                                 {}, `Bearer scope="a\"b"`: {}, `Bearer scope="` + strings.Repeat("a", 600) + `"`: {},
		`Bearer error="two words"`: {}, `Bearer scope="unended`: {}, `Bearer scope="a\`: {}, `,,, Bearer scope = "a"`: {"", "a", ""}, `=="x" Bearer scope=a`: {},
	} {
		if got := ParseChallenge(http.Header{"Www-Authenticate": {value}}); got != want {
			t.Errorf("%q: %+v, want %+v", value, got, want)
		}
	}
	values := make([]string, 100)
	values[99] = "Bearer scope=a"
	if got := ParseChallenge(http.Header{"Www-Authenticate": values}); got != (Challenge{}) {
		t.Errorf("of many: %+v", got)
	}
}

func TestMetadataGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) {
		_, _ = parseResource(text)
		_, _ = parseIssuer(text)
	})...)
}

func TestTokenGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) { _, _ = parseToken(text, "https://a.example", time.Time{}) })...)
	growth.Linear(t, growth.EachText([]growth.Input{growth.Repeat("dots", "", ".", ""), growth.Repeat("audiences", "", "a", ".b.c")}, func(text string) {
		_ = intendedFor(text, "https://a.example")
	})...)
}

func TestChallengeGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText([]growth.Input{
		growth.Repeat("commas", "Bearer ", ",", ""), growth.Repeat("parameters", "Bearer ", "a=b,", ""), growth.Repeat("schemes", "", "Basic ", ""),
		growth.Repeat("escapes", `Bearer a="`, `\"`, ""), growth.Repeat("unended", "Bearer ", `a="`, ""),
	}, func(text string) { _, _ = parseChallenge(text) })...)
}

func FuzzChallenge(f *testing.F) {
	f.Add(`Basic realm="a, b", Bearer error="insufficient_scope", scope="a b", resource_metadata="https://a/b"`)
	f.Fuzz(func(t *testing.T, value string) {
		c := ParseChallenge(http.Header{"Www-Authenticate": {value}})
		if len(c.Scope) > maxScope || len(c.Code) > 64 || strings.ContainsAny(c.Scope+c.Code, "\"\\\r\n\x00") {
			t.Errorf("%+v", c)
		}
	})
}

func FuzzToken(f *testing.F) {
	f.Add([]byte(`{"access_token":"tok","token_type":"Bearer","expires_in":600}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		began := time.Unix(1_800_000_000, 0)
		granted, err := parseToken(body, "https://a.example", began)
		if err == nil && (!toolserver.FitsHeader(granted.Token.Reveal()) || !granted.Expires.After(began)) {
			t.Errorf("taken: %+v", granted)
		}
	})
}
