package identity

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
)

// server returns a fake whose clock the test sets.
func server(t *testing.T) (s *Server, clock *time.Time) {
	t.Helper()
	s = New(fault.Script{})
	now := time.Unix(1_800_000_000, 0)
	s.now = func() time.Time { return now }
	return s, &now
}

// ask sends values as a form, or as a JSON object to paths that take it.
func ask(t *testing.T, s *Server, path string, values map[string]string, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	all := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	var body string
	if strings.HasSuffix(path, "/oauth/token") {
		all["Content-Type"] = "application/json"
		text, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		body = string(text)
	} else {
		form := url.Values{}
		for name, value := range values {
			form.Set(name, value)
		}
		body = form.Encode()
	}
	maps.Copy(all, header)
	return fakestest.Send(t, s, http.MethodPost, "http://fakes.test"+path, body, all)
}

// exchange is a call that succeeds, of which a test changes one thing.
type exchange struct {
	path           string
	values, header map[string]string
	of             Audience
	code           string // of the refusal of a bad subject token
	subject        string // the value that has it
	audience       string // that it must have
}

func exchanges(s *Server) map[string]exchange {
	beta := map[string]string{"Anthropic-Beta": "oauth-2025-04-20,oidc-federation-2026-04-01"}
	token := func(audience string) string { return s.Sign(s.Workload(audience)) }
	return map[string]exchange{
		"entra.federated": {"/" + Tenant + "/oauth2/v2.0/token", map[string]string{
			"grant_type": "client_credentials", "client_id": Client, "scope": "https://ai.azure.com/.default openid",
			"client_assertion_type": assertionType, "client_assertion": token(AudienceEntra),
		}, nil, Audience{Azure, "https://ai.azure.com"}, "invalid_client", "client_assertion", AudienceEntra},
		"entra.client_secret": {"/" + Tenant + "/oauth2/v2.0/token", map[string]string{
			"grant_type": "client_credentials", "client_id": Client, "scope": "https://cognitiveservices.azure.com/.default",
			"client_secret": ClientSecret,
		}, nil, Audience{Azure, "https://cognitiveservices.azure.com"}, "", "", ""},
		"google.external_account": {"/v1/token", map[string]string{
			"grant_type": grantExchange, "audience": AudienceGoogle, "requested_token_type": typeAccess, "scope": CloudPlatform,
			"subject_token_type": typeJWT, "subject_token": token(AudienceGoogle),
		}, nil, Audience{Google, CloudPlatform}, "invalid_grant", "subject_token", AudienceGoogle},
		"google.service_account": {"/token", map[string]string{"grant_type": grantBearer, "assertion": sign(s.account(), s.assertion())}, nil, Audience{Google, CloudPlatform}, "", "", ""},
		"openai": {"/oauth/token", map[string]string{
			"grant_type": grantExchange, "subject_token": token(AudienceOpenAI), "subject_token_type": typeJWT,
			"identity_provider_id": IdentityProvider, "service_account_id": OpenAIServiceAccount,
		}, nil, Audience{Vendor: OpenAI}, "invalid_subject_token", "subject_token", AudienceOpenAI},
		"anthropic": {"/v1/oauth/token", map[string]string{
			"grant_type": grantBearer, "assertion": token(AudienceAnthropic), "federation_rule_id": FederationRule,
			"organization_id": AnthropicOrganization, "service_account_id": AnthropicServiceAccount, "workspace_id": Workspace,
		}, beta, Audience{Anthropic, Workspace}, "invalid_grant", "assertion", AudienceAnthropic},
	}
}

// assertion returns the claims of a service account's assertion.
func (s *Server) assertion() Claims {
	now := s.now().Unix()
	return Claims{Issuer: ServiceAccount, Audience: audience{"http://fakes.test/token"}, Scope: CloudPlatform, IssuedAt: now, Expires: now + 3600}
}

// accepted reports whether a vendor takes a token.
func accepted(t *testing.T, s *Server, of Audience, text string) bool {
	t.Helper()
	handler := s.RequireBearer(of, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	header := map[string]string{"Authorization": "Bearer " + text}
	if of.Vendor == Anthropic {
		header["Anthropic-Beta"] = "some-beta, " + betaOAuth
	}
	return fakestest.Send(t, handler, http.MethodPost, "http://vendor.test/", "", header).Code == http.StatusOK
}

type answer struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

func read(t *testing.T, w *httptest.ResponseRecorder) (a answer) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Errorf("%s: %v", w.Body, err)
	}
	return a
}

// Each exchange gives a token that its vendor takes until it ends, and no other vendor takes at all.
func TestExchanges(t *testing.T) {
	s, clock := server(t)
	if err := s.Set(Settings{LifetimeSeconds: 5, SkewSeconds: 60}); err != nil {
		t.Fatal(err)
	}
	for name, e := range exchanges(s) {
		w := ask(t, s, e.path, e.values, e.header)
		got := read(t, w)
		if w.Code != http.StatusOK || got.TokenType != "Bearer" || got.ExpiresIn != 5 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		if !accepted(t, s, e.of, got.AccessToken) {
			t.Errorf("%s: its vendor refuses the token", name)
		}
		for _, other := range []Audience{{Google, ""}, {Azure, ""}, {OpenAI, ""}, {Anthropic, ""}, {e.of.Vendor, "another"}} {
			if (other.Vendor != e.of.Vendor || other.Scope != "") && accepted(t, s, other, got.AccessToken) {
				t.Errorf("%s: %v takes the token", name, other)
			}
		}
		before := *clock
		*clock = clock.Add(5 * time.Second)
		if accepted(t, s, e.of, got.AccessToken) {
			t.Errorf("%s: the token lives too long", name)
		}
		*clock = before
		last := s.Exchanges(1)[0]
		if last.Kind != name || last.Error != "" || last.Issued != fault.HashSecret(got.AccessToken) {
			t.Errorf("%s: recorded %+v", name, last)
		}
	}
}

// A value that is wrong or missing is refused.
func TestWrongValues(t *testing.T) {
	s, _ := server(t)
	for name, e := range exchanges(s) {
		for value := range e.values {
			for _, wrong := range []string{"", "wrong"} {
				changed := maps.Clone(e.values)
				changed[value] = wrong
				if w := ask(t, s, e.path, changed, e.header); w.Code/100 != 4 || read(t, w).Error == "" {
					t.Errorf("%s: %s %q: %d %s", name, value, wrong, w.Code, w.Body)
				}
			}
		}
		for header := range e.header {
			if w := ask(t, s, e.path, e.values, map[string]string{header: "wrong"}); w.Code != http.StatusBadRequest {
				t.Errorf("%s: another %s: %d", name, header, w.Code)
			}
		}
		if w := ask(t, s, e.path, e.values, map[string]string{"Content-Type": "text/plain"}); w.Code/100 != 4 {
			t.Errorf("%s: another content type: %d", name, w.Code)
		}
	}
	for _, e := range s.Exchanges(1000) {
		if e.Error == "" || e.Issued != "" {
			t.Errorf("recorded %+v", e)
		}
	}
}

// A token of the workload that is not valid now, not for this server or not of this issuer is refused.
func TestWrongSubjectTokens(t *testing.T) {
	s, clock := server(t)
	stranger := New(fault.Script{})
	stranger.now = s.now
	for name, e := range exchanges(s) {
		if e.subject == "" {
			continue
		}
		for what, change := range map[string]func(c *Claims){
			"another audience": func(c *Claims) { c.Audience = audience{"https://other.test"} },
			"no audience":      func(c *Claims) { c.Audience = nil },
			"another issuer":   func(c *Claims) { c.Issuer = "https://evil.test" },
			"another subject":  func(c *Claims) { c.Subject = "system:serviceaccount:default:other" },
			"ended":            func(c *Claims) { c.Expires = clock.Add(-60 * time.Second).Unix() },
			"without an end":   func(c *Claims) { c.Expires = 0 },
			"not yet":          func(c *Claims) { c.NotBefore = clock.Add(62 * time.Second).Unix() },
			"of the future":    func(c *Claims) { c.IssuedAt = clock.Add(62 * time.Second).Unix() },
		} {
			claims := s.Workload(e.audience)
			change(&claims)
			e.values[e.subject] = s.Sign(claims)
			if w := ask(t, s, e.path, e.values, e.header); w.Code/100 != 4 || read(t, w).Error != e.code {
				t.Errorf("%s: %s: %d %s, want %s", name, what, w.Code, w.Body, e.code)
			}
		}
		for what, text := range map[string]string{
			"another key":    stranger.Sign(s.Workload(e.audience)),
			"no signature":   strings.Join(strings.Split(s.Sign(s.Workload(e.audience)), ".")[:2], ".") + ".",
			"alg none":       encoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(s.Sign(s.Workload(e.audience)), ".")[1] + ".",
			"other claims":   strings.Split(s.Sign(s.Workload(e.audience)), ".")[0] + "." + encoding.EncodeToString([]byte(`{}`)) + "." + strings.Split(s.Sign(s.Workload(e.audience)), ".")[2],
			"not one at all": "token",
		} {
			e.values[e.subject] = text
			if w := ask(t, s, e.path, e.values, e.header); w.Code/100 != 4 || read(t, w).Error != e.code {
				t.Errorf("%s: %s: %d %s, want %s", name, what, w.Code, w.Body, e.code)
			}
		}
		claims := s.Workload(e.audience)
		claims.Audience = append(claims.Audience, "https://other.test")
		claims.Expires, claims.NotBefore = clock.Add(-59*time.Second).Unix(), clock.Add(59*time.Second).Unix()
		e.values[e.subject] = s.Sign(claims)
		if w := ask(t, s, e.path, e.values, e.header); w.Code != http.StatusOK {
			t.Errorf("%s: within the skew: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestWrongServiceAccounts(t *testing.T) {
	s, clock := server(t)
	for what, change := range map[string]func(c *Claims){
		"another audience": func(c *Claims) { c.Audience = audience{"https://oauth2.googleapis.com/token"} },
		"another account":  func(c *Claims) { c.Issuer = "robot@evil.test" },
		"no scope":         func(c *Claims) { c.Scope = "" },
		"two hours":        func(c *Claims) { c.Expires = c.IssuedAt + 7200 },
		"ended":            func(c *Claims) { c.IssuedAt, c.Expires = clock.Unix()-4000, clock.Unix()-400 },
		"of the future":    func(c *Claims) { c.IssuedAt, c.Expires = clock.Unix()+400, clock.Unix()+4000 },
	} {
		claims := s.assertion()
		change(&claims)
		if w := ask(t, s, "/token", map[string]string{"grant_type": grantBearer, "assertion": sign(s.account(), claims)}, nil); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	if w := ask(t, s, "/token", map[string]string{"grant_type": grantBearer, "assertion": sign(s.issuer(), s.assertion())}, nil); w.Code != http.StatusBadRequest {
		t.Errorf("another key: %d", w.Code)
	}
}

// The guard tells vendors' credentials apart.
