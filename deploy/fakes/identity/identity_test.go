package identity

import (
	"encoding/json"
	"encoding/xml"
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

func TestWebIdentity(t *testing.T) {
	s, clock := server(t)
	values := func() map[string]string {
		return map[string]string{
			"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": RoleARN, "RoleSessionName": "s",
			"WebIdentityToken": s.Sign(s.Workload(AudienceAWS)),
		}
	}
	w := ask(t, s, "/", values(), nil)
	var got struct {
		Result struct {
			Credentials struct{ AccessKeyId, SecretAccessKey, SessionToken, Expiration string } //nolint:revive // The names of AWS.
		} `xml:"AssumeRoleWithWebIdentityResult"`
	}
	if err := xml.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	key, ok := s.Key(got.Result.Credentials.AccessKeyId)
	if !ok || key.Secret != got.Result.Credentials.SecretAccessKey || key.SessionToken != got.Result.Credentials.SessionToken || !key.Expires.Equal(clock.Add(time.Hour)) {
		t.Errorf("key %+v, answered %+v", key, got)
	}
	for name, wrong := range map[string]string{
		"Action": "GetCallerIdentity", "Version": "2010-01-01", "RoleArn": RoleARN + "x", "RoleSessionName": "",
		"WebIdentityToken": s.Sign(s.Workload(AudienceEntra)),
	} {
		changed := values()
		changed[name] = wrong
		if w := ask(t, s, "/", changed, nil); w.Code/100 != 4 || !strings.Contains(w.Body.String(), "<Code>") {
			t.Errorf("%s %q: %d %s", name, wrong, w.Code, w.Body)
		}
	}
	if w := ask(t, s, "/", map[string]string{"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": RoleARN, "RoleSessionName": "s", "ExternalId": ExternalID}, nil); w.Code != http.StatusForbidden {
		t.Errorf("AssumeRole without a signature: %d %s", w.Code, w.Body)
	}
}

func TestMachines(t *testing.T) {
	s, clock := server(t)
	get := func(path string, header map[string]string) *httptest.ResponseRecorder {
		return fakestest.Send(t, s, http.MethodGet, "http://fakes.test"+path, "", header)
	}
	put := func(header map[string]string) *httptest.ResponseRecorder {
		return fakestest.Send(t, s, http.MethodPut, "http://fakes.test/latest/api/token", "", header)
	}
	token := put(map[string]string{headerTTL: "60"}).Body.String()
	const google = "/computeMetadata/v1/instance/service-accounts/default/token"
	const azure = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource="
	metadata := map[string]string{"Metadata": "true"}
	for name, c := range map[string]struct {
		got  *httptest.ResponseRecorder
		want int
	}{
		"a container":                 {get(containerPath, map[string]string{"Authorization": ContainerToken}), 200},
		"a container without a token": {get(containerPath, nil), 403},
		"roles":                       {get(rolesPath, map[string]string{headerIMDS: token}), 200},
		"a role":                      {get(rolesPath+InstanceRole, map[string]string{headerIMDS: token}), 200},
		"another role":                {get(rolesPath+"other", map[string]string{headerIMDS: token}), 404},
		"version 1":                   {get(rolesPath+InstanceRole, nil), 401},
		"a token without a lifetime":  {put(nil), 400},
		"a token through a proxy":     {put(map[string]string{headerTTL: "60", "X-Forwarded-For": "1.2.3.4"}), 400},
		"Google":                      {get(google, map[string]string{flavorHeader: flavor}), 200},
		"Google without the flavor":   {get(google, nil), 403},
		"another account":             {get(strings.Replace(google, "default", "other", 1), map[string]string{flavorHeader: flavor}), 404},
		"Azure":                       {get(azure+"https://ai.azure.com", metadata), 200},
		"Azure's own client":          {get(azure+"https://ai.azure.com&client_id="+Client, metadata), 200},
		"Azure without the header":    {get(azure+"https://ai.azure.com", nil), 400},
		"another resource":            {get(azure+"https://other.test", metadata), 400},
		"another client":              {get(azure+"https://ai.azure.com&client_id=other", metadata), 400},
	} {
		if c.got.Code != c.want {
			t.Errorf("%s: %d, want %d: %s", name, c.got.Code, c.want, c.got.Body)
		}
	}
	*clock = clock.Add(time.Minute)
	if w := get(rolesPath+InstanceRole, map[string]string{headerIMDS: token}); w.Code != http.StatusUnauthorized {
		t.Errorf("with a token that ended: %d", w.Code)
	}
}

// The guard tells vendors' credentials apart.
func TestGuard(t *testing.T) {
	s, _ := server(t)
	var paths []string
	guard := s.Guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths = append(paths, r.URL.Path) }))
	text, _ := s.issue(Azure, "https://ai.azure.com", "")
	send := func(path string, header map[string]string) int {
		return fakestest.Send(t, guard, http.MethodPost, "http://vendor.test"+path, "", header).Code
	}
	bearer := map[string]string{"Authorization": "Bearer " + text}
	for path, want := range map[string]int{"/foundry/v1/x": 200, "/azure/v1/x": 401, "/gcp/v1/x": 401, "/openai/v1/x": 401, "/aws/x": 403, "/v1/x": 404, "/_script": 200} {
		if got := send(path, bearer); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := send("/foundry/v1/x", map[string]string{"Authorization": "Bearer " + text, "Api-Key": "k"}); got != http.StatusUnauthorized {
		t.Errorf("with a key, too: %d", got)
	}
	s.Revoke()
	if got := send("/foundry/v1/x", bearer); got != http.StatusUnauthorized {
		t.Errorf("revoked: %d", got)
	}
	for _, path := range paths {
		if path != "/v1/x" && path != "/_script" {
			t.Errorf("the vendor is called at %s", path)
		}
	}
}

func TestControl(t *testing.T) {
	s, _ := server(t)
	control := func(method, path, body string) *httptest.ResponseRecorder {
		return fakestest.Send(t, s, method, "http://fakes.test"+path, body, nil)
	}
	if w := control(http.MethodPut, "/_settings", `{"lifetime_seconds":3,"refresh_seconds":1,"skew_seconds":0}`); w.Code != http.StatusNoContent || s.get() != (Settings{3, 1, 0}) {
		t.Errorf("%d, %+v", w.Code, s.get())
	}
	for _, body := range []string{`{}`, `{"lifetime_seconds":-1}`, `{"lifetime":1}`, `x`} {
		if w := control(http.MethodPut, "/_settings", body); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", body, w.Code)
		}
	}
	var m Material
	if err := json.Unmarshal(control(http.MethodGet, "/_material", "").Body.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.WorkloadTokens) != 5 || m.ServiceAccount["token_uri"] != "http://fakes.test/token" {
		t.Errorf("material %+v", m)
	}
	var minted struct{ Token string }
	w := control(http.MethodPost, "/_workload_token", `{"aud":"`+AudienceOpenAI+`","exp":1}`)
	if err := json.Unmarshal(w.Body.Bytes(), &minted); err != nil {
		t.Fatal(err)
	}
	if _, err := s.workload(minted.Token, AudienceOpenAI); err == nil || err.Error() != "exp is past" {
		t.Errorf("a token that ended: %v", err)
	}
	e := exchanges(s)["openai"]
	ask(t, s, e.path, e.values, nil)
	e.values["grant_type"] = "wrong"
	ask(t, s, e.path, e.values, nil)
	for query, want := range map[string]string{"?kind=openai": `"count":2`, "?kind=openai&granted=true": `"count":1`, "?granted=false": `"count":1`, "?kind=anthropic": `"count":0`} {
		if got := control(http.MethodGet, "/_count"+query, "").Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
