package identity

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/fakes/fakestest"
)

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
