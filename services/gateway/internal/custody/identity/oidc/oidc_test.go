package oidc

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/identity/identitytest"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "eyJhbGciOiJSUzI1NiJ9.canary.x"

// open returns the source of a configuration whose token server is handler, and the file of its token.
func open(t *testing.T, c identity.OIDC, handler http.HandlerFunc) (*Source, string) {
	t.Helper()
	server, clients := identitytest.Serve(t, handler)
	file := identitytest.File(t, canary+"\n")
	c.TokenFile, c.TokenURL = file, server.URL+"/v1/oauth/token"
	complete, err := identity.Config{OIDC: &c}.Complete(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	source, err := New(*complete.OIDC, clients)
	if err != nil {
		t.Fatal(err)
	}
	return source, string(file)
}

var (
	ofOpenAI    = identity.OIDC{Vendor: identity.VendorOpenAI, IdentityProviderID: "idp_1", ServiceAccountID: "sa_1"}
	ofAnthropic = identity.OIDC{Vendor: identity.VendorAnthropic, FederationRuleID: "fdrl_1", OrganizationID: "org", ServiceAccountID: "svac_1", WorkspaceID: "wrkspc_1"}
)

func TestExchange(t *testing.T) {
	for name, c := range map[string]struct {
		config       identity.OIDC
		body         map[string]string
		beta         string
		wantHeaders  http.Header
		answer       string
		wantLifetime time.Duration
	}{
		"OpenAI": {ofOpenAI, map[string]string{
			"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": canary,
			"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "identity_provider_id": "idp_1", "service_account_id": "sa_1",
		}, "", nil, `{"access_token":"tok","token_type":"bearer","expires_in":900}`, 15 * time.Minute},
		"OpenAI without a lifetime": {ofOpenAI, nil, "", nil, `{"access_token":"tok"}`, time.Hour},
		"Anthropic": {ofAnthropic, map[string]string{
			"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": canary, "federation_rule_id": "fdrl_1",
			"organization_id": "org", "service_account_id": "svac_1", "workspace_id": "wrkspc_1",
		}, "oauth-2025-04-20,oidc-federation-2026-04-01", http.Header{"Anthropic-Beta": {"oauth-2025-04-20"}}, `{"access_token":"tok","token_type":"Bearer","expires_in":600}`, 10 * time.Minute},
	} {
		source, _ := open(t, c.config, func(w http.ResponseWriter, r *http.Request) {
			var body map[string]string
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if diff := cmp.Diff(c.body, body); c.body != nil && diff != "" {
				t.Errorf("%s: body (-want +got):\n%s", name, diff)
			}
			if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Anthropic-Beta") != c.beta {
				t.Errorf("%s: %s with %v", name, r.Method, r.Header)
			}
			_, _ = io.WriteString(w, c.answer)
		})
		before := time.Now()
		grant, err := source.Exchange(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if grant.Token.Reveal() != "tok" {
			t.Errorf("%s: token %q", name, grant.Token.Reveal())
		}
		if diff := cmp.Diff(c.wantHeaders, grant.Headers); diff != "" {
			t.Errorf("%s: headers (-want +got):\n%s", name, diff)
		}
		if life := grant.Expires.Sub(before); life < c.wantLifetime || life > c.wantLifetime+10*time.Second {
			t.Errorf("%s: lives %v, want %v", name, life, c.wantLifetime)
		}
	}
}

// Clusters replace the token in the file.
func TestTokenFileIsReadAnew(t *testing.T) {
	var got []string
	source, file := open(t, ofOpenAI, func(w http.ResponseWriter, r *http.Request) {
		var body openAI
		_ = json.NewDecoder(r.Body).Decode(&body)
		got = append(got, body.SubjectToken)
		_, _ = io.WriteString(w, `{"access_token":"tok","expires_in":900}`)
	})
	for _, text := range []string{"one", "two\n"} {
		testkit.WriteFile(t, file, text)
		if _, err := source.Exchange(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"one", "two"}, got); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Exchange(t.Context()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v, want an error that names it", err)
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		answer, want string
	}{
		"a refusal":          {http.StatusUnauthorized, `{"error":"invalid_subject_token","error_description":"` + canary + `"}`, "status 401: invalid_subject_token"},
		"Anthropic's":        {http.StatusForbidden, `{"type":"error","error":{"type":"permission_error","message":"` + canary + `"}}`, "status 403: permission_error"},
		"no JSON":            {http.StatusOK, canary, "not the JSON of a token"},
		"no token":           {http.StatusOK, `{"expires_in":60,"x":"` + canary + `"}`, "no access_token"},
		"another type":       {http.StatusOK, `{"access_token":"` + canary + `","token_type":"DPoP","expires_in":60}`, "not Bearer"},
		"no lifetime":        {http.StatusOK, `{"access_token":"` + canary + `"}`, "no expires_in"},
		"a lifetime as text": {http.StatusOK, `{"access_token":"` + canary + `","expires_in":"soon"}`, "not the JSON of a token"},
		"nested deep":        {http.StatusOK, `{"access_token":` + strings.Repeat("[", 100_000), "not the JSON of a token"},
	} {
		source, _ := open(t, ofAnthropic, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		})
		_, err := source.Exchange(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want an error that says %q without the token", name, err, c.want)
		}
	}
}

func TestGrantGrowsLinearly(t *testing.T) {
	source := &Source{config: ofAnthropic}
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) { _, _ = source.grant(text, time.Time{}) })...)
}

func FuzzGrant(f *testing.F) {
	f.Add([]byte(`{"access_token":"tok","token_type":"Bearer","expires_in":600}`))
	source := &Source{config: ofAnthropic}
	f.Fuzz(func(t *testing.T, text []byte) {
		began := time.Unix(1_800_000_000, 0)
		grant, err := source.grant(text, began)
		if err == nil && (grant.Token.IsZero() || !grant.Expires.After(began)) {
			t.Errorf("taken: %+v", grant)
		}
	})
}
