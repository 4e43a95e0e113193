package endpoint_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

var acme = endpoint.Scope{Organization: "acme"}

func bearer(t *testing.T, token string) *endpoint.AuthRequest {
	t.Helper()
	a, err := auth.NewBearer(token)
	if err != nil {
		t.Fatal(err)
	}
	return &endpoint.AuthRequest{Auth: a}
}

func oauth(t *testing.T, url string) *endpoint.AuthRequest {
	t.Helper()
	a, err := auth.NewOAuth2(auth.Info{TokenURL: url, ClientID: "c"}, canary)
	if err != nil {
		t.Fatal(err)
	}
	return &endpoint.AuthRequest{Auth: a}
}

// Header values and credentials are sealed, each for its own place in its own endpoint.
func TestAccessIsSealed(t *testing.T) {
	m := &memory{}
	r := registration()
	r.Headers, r.Auth = map[string]string{"x-tenant": canary + "1", "X-Key": canary + "2", "X-Empty": ""}, bearer(t, canary+"3")
	e, generated, err := service(t, m, nil).Register(t.Context(), r)
	if err != nil || !generated.IsZero() {
		t.Fatalf("generated %t, %v", !generated.IsZero(), err)
	}
	testkit.NoLeak(t, canary, fmt.Sprintf("%+v %s %s", m.kept, slices.Collect(maps.Values(m.kept.Headers)), m.kept.SealedAuth))
	if names := slices.Sorted(maps.Keys(e.Headers)); !slices.Equal(names, []string{"X-Key", "X-Tenant"}) {
		t.Errorf("headers %v", names)
	}
	box, _ := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	opens := func(what string, sealed []byte, owner, want string) {
		t.Helper()
		if text, err := box.Open(sealed, owner); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: opened %q, %v, want %s", what, text, err, want)
		}
	}
	opens("a header", e.Headers["X-Tenant"], delivery.HeaderSealedFor(e.ID, "X-Tenant"), canary+"1")
	opens("the other", e.Headers["X-Key"], delivery.HeaderSealedFor(e.ID, "X-Key"), canary+"2")
	opens("the credential", e.SealedAuth, auth.SealedFor(e.ID), canary+"3")
	for what, owner := range map[string]string{
		"another header": delivery.HeaderSealedFor(e.ID, "X-Key"), "the secret": e.ID.String(),
		"another endpoint": delivery.HeaderSealedFor(delivery.NewID(now), "X-Tenant"),
	} {
		if _, err := box.Open(e.Headers["X-Tenant"], owner); err == nil {
			t.Errorf("a header opens as %s", what)
		}
	}
}

func TestAccessRefusals(t *testing.T) {
	many := func(n, size int) map[string]string {
		headers := make(map[string]string, n)
		for i := range n {
			headers[fmt.Sprintf("X-%02d", i)] = strings.Repeat("a", size)
		}
		return headers
	}
	for name, tt := range map[string]struct {
		change func(*endpoint.Registration)
		reason apierr.Reason
		text   string
	}{
		"a reserved header":     {func(r *endpoint.Registration) { r.Headers = map[string]string{"Host": canary} }, delivery.ReasonHeaderNotAllowed, "custom_headers"},
		"a signature's header":  {func(r *endpoint.Registration) { r.Headers = map[string]string{"webhook_id": canary} }, delivery.ReasonHeaderNotAllowed, "custom_headers"},
		"a line break":          {func(r *endpoint.Registration) { r.Headers = map[string]string{"X-A": canary + "\n"} }, delivery.ReasonHeaderNotAllowed, "custom_headers"},
		"the same header twice": {func(r *endpoint.Registration) { r.Headers = map[string]string{"X-A": "a", "x-a": "b"} }, delivery.ReasonHeaderNotAllowed, "custom_headers"},
		"too many bytes":        {func(r *endpoint.Registration) { r.Headers = many(5, 4096) }, delivery.ReasonHeaderNotAllowed, "custom_headers"},
		"too many headers":      {func(r *endpoint.Registration) { r.Headers = many(33, 1) }, apierr.ReasonInvalidRequest, "custom_headers"},
		"two credentials": {func(r *endpoint.Registration) {
			r.Headers, r.Auth = map[string]string{"authorization": canary}, bearer(t, canary)
		}, delivery.ReasonHeaderNotAllowed, "custom_headers"},
		"a private token server": {func(r *endpoint.Registration) { r.Auth = oauth(t, "https://10.0.0.1/") }, delivery.ReasonTargetNotAllowed, "auth.oauth2.token_url"},
		"a local token server":   {func(r *endpoint.Registration) { r.Auth = oauth(t, "http://localhost/t") }, delivery.ReasonTargetNotAllowed, "auth.oauth2.token_url"},
		"no token URL":           {func(r *endpoint.Registration) { r.Auth = oauth(t, canary) }, delivery.ReasonTargetNotAllowed, "auth.oauth2.token_url"},
		"a certificate without TLS": {func(r *endpoint.Registration) {
			r.Auth = &endpoint.AuthRequest{Auth: auth.Auth{Info: auth.Info{Kind: auth.MTLS}}}
		}, apierr.ReasonInvalidRequest, "auth.mtls"},
		"v1a without a key": {func(r *endpoint.Registration) { r.Signatures = []string{"v1a"} }, apierr.ReasonInvalidRequest, "signatures"},
		"two secrets":       {func(r *endpoint.Registration) { r.GenerateSecret = true }, apierr.ReasonInvalidRequest, "generate_secret"},
		"a secret that does not sign": {func(r *endpoint.Registration) {
			r.SigningMode, r.Secret, r.GenerateSecret = "", secret.Value{}, true
		}, endpoint.ReasonSecretNotAllowed, "signing_secret"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			r := registration()
			tt.change(&r)
			_, _, err := service(t, m, nil).Register(t.Context(), r)
			e := apierr.From(err)
			if e == nil {
				t.Fatal("it was accepted")
			}
			if e.Reason != tt.reason || !strings.HasPrefix(e.Text, tt.text+": ") {
				t.Errorf("%s %q, want %s and text that begins with %s", e.Reason, e.Text, tt.reason, tt.text)
			}
			if name == "v1a without a key" && !strings.Contains(e.Text, "WEBHOOK_EGRESS_SIGNING_KEYS_FILE") {
				t.Errorf("%q does not name the setting", e.Text)
			}
			testkit.NoLeak(t, canary, e.Text)
			if m.added != 0 {
				t.Error("it was stored")
			}
		})
	}
}

// anyHost is a guard that accepts every host without a lookup.
type anyHost struct{ *netguard.Guard }

func (anyHost) CheckHost(context.Context, *url.URL) error { return nil }

// Stored credentials are not sent to another origin: a change of the URL has to set each of them again, or remove it.
func TestMoveNeedsCredentialsAgain(t *testing.T) {
	const at = "https://a.example/hook"
	both := map[string]string{"X-Api-Token": canary + "2", "X-Tenant": "7"}
	for name, tt := range map[string]struct {
		auth    *endpoint.AuthRequest
		headers map[string]string
		update  endpoint.Update
		refused string // the field
	}{
		"another host":                     {bearer(t, canary), nil, endpoint.Update{URL: new("https://mine.example/hook")}, "auth"},
		"another port":                     {bearer(t, canary), nil, endpoint.Update{URL: new("https://a.example:8443/hook")}, "auth"},
		"another scheme":                   {bearer(t, canary), nil, endpoint.Update{URL: new("http://a.example/hook")}, "auth"},
		"a subdomain":                      {bearer(t, canary), nil, endpoint.Update{URL: new("https://x.a.example/hook")}, "auth"},
		"a host that begins like it":       {bearer(t, canary), nil, endpoint.Update{URL: new("https://a.example.mine.example/")}, "auth"},
		"a homograph":                      {bearer(t, canary), nil, endpoint.Update{URL: new("https://\u0430.example/hook")}, "auth"},
		"beside another change":            {bearer(t, canary), nil, endpoint.Update{URL: new("https://mine.example/"), Active: new(false)}, "auth"},
		"a token server's client":          {oauth(t, "https://login.example/token"), nil, endpoint.Update{URL: new("https://mine.example/")}, "auth"},
		"headers":                          {nil, both, endpoint.Update{URL: new("https://mine.example/")}, "custom_headers"},
		"one of two headers":               {nil, both, endpoint.Update{URL: new("https://mine.example/"), Headers: map[string]string{"x-tenant": "7"}}, "custom_headers"},
		"auth, and not the headers":        {bearer(t, canary), both, endpoint.Update{URL: new("https://mine.example/"), Auth: bearer(t, "again")}, "custom_headers"},
		"the headers, and not auth":        {bearer(t, canary), both, endpoint.Update{URL: new("https://mine.example/"), Headers: both}, "auth"},
		"all again":                        {bearer(t, canary), both, endpoint.Update{URL: new("https://mine.example/"), Auth: bearer(t, "again"), Headers: both}, ""},
		"all removed":                      {bearer(t, canary), both, endpoint.Update{URL: new("https://mine.example/"), Auth: &endpoint.AuthRequest{None: true}, Headers: map[string]string{"X-API-TOKEN": "", "x-tenant": ""}}, ""},
		"no credentials":                   {nil, nil, endpoint.Update{URL: new("https://mine.example/")}, ""},
		"another path":                     {bearer(t, canary), both, endpoint.Update{URL: new("https://a.example/other?x=1")}, ""},
		"the same in another writing":      {bearer(t, canary), both, endpoint.Update{URL: new("HTTPS://A.EXAMPLE:443/hook")}, ""},
		"the same with full-width letters": {bearer(t, canary), both, endpoint.Update{URL: new("https://\uff41.example/hook")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			s := service(t, m, func(o *endpoint.Options) { o.Targets = delivery.NewTargets(anyHost{&netguard.Guard{}}, o.Now) })
			r := registration()
			r.URL, r.Auth, r.Headers = at, tt.auth, tt.headers
			e, _, err := s.Register(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			before := m.kept
			_, err = s.Update(t.Context(), acme, e.ID.String(), tt.update)
			if tt.refused == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			refusal := apierr.From(err)
			if refusal == nil || refusal.Reason != apierr.ReasonInvalidRequest || !strings.HasPrefix(refusal.Text, tt.refused+": ") || !strings.Contains(refusal.Text, "again") {
				t.Errorf("%v, want a refusal of %s", err, tt.refused)
			}
			testkit.NoLeak(t, canary, refusal.Text)
			if diff := cmp.Diff(before, m.kept); diff != "" {
				t.Errorf("it was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// Without a key to seal with, nothing that would be stored in plain text is accepted.
func TestAccessNeedsAKey(t *testing.T) {
	keyless := service(t, &memory{}, func(o *endpoint.Options) { o.Sealer = nil })
	for field, u := range map[string]endpoint.Update{
		"custom_headers": {Headers: map[string]string{"X-A": "b"}}, "auth": {Auth: bearer(t, canary)},
	} {
		_, err := keyless.Update(t.Context(), acme, delivery.NewID(now).String(), u)
		if err == nil || !strings.HasPrefix(apierr.From(err).Text, field+": ") || !strings.Contains(err.Error(), "WEBHOOK_EGRESS_ENCRYPTION_KEY_FILE") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A change sets and removes headers by name, and replaces or removes the authentication; what results is checked.
func TestApplyAccess(t *testing.T) {
	before := endpoint.Endpoint{
		URL: "https://a/", SigningMode: "org_timestamp", Signatures: []string{"spec", "v1"},
		Headers: map[string][]byte{"X-A": sealed("1"), "Authorization": sealed("2")},
	}
	unchanged := maps.Clone(before.Headers)
	for name, tt := range map[string]struct {
		change endpoint.Change
		want   func(*endpoint.Endpoint)
		refuse string
	}{
		"nothing": {endpoint.Change{}, func(*endpoint.Endpoint) {}, ""},
		"headers": {
			endpoint.Change{Headers: map[string][]byte{"X-A": nil, "X-B": sealed("3"), "X-C": nil}},
			func(e *endpoint.Endpoint) {
				e.Headers = map[string][]byte{"Authorization": sealed("2"), "X-B": sealed("3")}
			}, "",
		},
		"another authentication": {
			endpoint.Change{Auth: &endpoint.AuthChange{Info: &auth.Info{Kind: auth.MTLS}, Sealed: []byte{4}}},
			func(e *endpoint.Endpoint) { e.Auth, e.SealedAuth = &auth.Info{Kind: auth.MTLS}, []byte{4} }, "",
		},
		"a header that is there": {
			endpoint.Change{Auth: &endpoint.AuthChange{Info: &auth.Info{Kind: auth.Basic}, Sealed: []byte{4}}}, nil, "custom_headers",
		},
		"in its place": {
			endpoint.Change{Headers: map[string][]byte{"Authorization": nil}, Auth: &endpoint.AuthChange{Info: &auth.Info{Kind: auth.Basic}, Sealed: []byte{4}}},
			func(e *endpoint.Endpoint) {
				e.Headers, e.Auth, e.SealedAuth = map[string][]byte{"X-A": sealed("1")}, &auth.Info{Kind: auth.Basic}, []byte{4}
			}, "",
		},
		"no TLS for a certificate": {
			endpoint.Change{
				URL: new("http://a/"), Headers: map[string][]byte{"X-A": nil, "Authorization": nil},
				Auth: &endpoint.AuthChange{Info: &auth.Info{Kind: auth.MTLS}, Sealed: []byte{4}},
			}, nil, "auth.mtls",
		},
		"signatures": {endpoint.Change{Signatures: []string{"spec"}}, func(e *endpoint.Endpoint) { e.Signatures = []string{"spec"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.change.Apply(before, now)
			if tt.refuse != "" {
				if err == nil || !strings.HasPrefix(apierr.From(err).Text, tt.refuse+": ") {
					t.Errorf("err = %v, want text that begins with %s", err, tt.refuse)
				}
				return
			}
			want := before
			want.Updated = now
			tt.want(&want)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("(-want +got):\n%s%v", diff, err)
			}
		})
	}
	if diff := cmp.Diff(unchanged, before.Headers); diff != "" {
		t.Errorf("the endpoint before was changed (-want +got):\n%s", diff)
	}
	authenticated := before
	authenticated.Headers, authenticated.Auth, authenticated.SealedAuth = nil, &auth.Info{Kind: auth.Bearer}, []byte{1}
	got, err := endpoint.Change{Auth: &endpoint.AuthChange{}}.Apply(authenticated, now)
	if err != nil || got.Auth != nil || got.SealedAuth != nil {
		t.Errorf("removed: %+v, %v", got.Auth, err)
	}
}

// sealed is as long as a sealed text.
func sealed(text string) []byte { return append(make([]byte, seal.Overhead), text...) }

// A generated secret is random, has the form of Standard Webhooks, signs from then on, and is returned once.
func TestGeneratedSecret(t *testing.T) {
	m := &memory{}
	s := service(t, m, nil)
	r := registration()
	r.Secret, r.GenerateSecret = secret.Value{}, true
	e, first, err := s.Register(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	box, _ := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	signsWith := func(what string, sealed []byte, want secret.Value) {
		t.Helper()
		if text, err := box.Open(sealed, e.ID.String()); err != nil || string(text) != want.Reveal() {
			t.Errorf("%s: the stored secret is another than the returned one, %v", what, err)
		}
	}
	signsWith("registered", m.kept.Secret, first)
	rotated, second, err := s.RotateSecret(t.Context(), acme, e.ID.String(), new(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	signsWith("rotated", m.kept.Secret, second)
	signsWith("in the overlap", m.kept.Earlier[0].Sealed, first)
	if !rotated.Earlier[0].Until.Equal(now.Add(time.Hour)) || first.Equal(second) {
		t.Errorf("the first signs until %s; the same again: %t", rotated.Earlier[0].Until, first.Equal(second))
	}
	if text := first.Reveal(); !strings.HasPrefix(text, "whsec_") || len(text) != len("whsec_")+44 {
		t.Errorf("the secret has %d characters", len(text))
	}
	if _, _, err = s.RotateSecret(t.Context(), acme, e.ID.String(), nil); err != nil || !m.kept.Earlier[0].Until.Equal(now.Add(24*time.Hour)) {
		t.Errorf("without an overlap: until %s, %v", m.kept.Earlier[0].Until, err)
	}
	m.kept.SigningMode = signing.OrgTimestamp
	if _, generated, err := s.RotateSecret(t.Context(), acme, e.ID.String(), nil); apierr.From(err).Reason != endpoint.ReasonSecretNotAllowed || !generated.IsZero() {
		t.Errorf("of an endpoint without a secret: %v", err)
	}
}

// Signatures are kept in their order, the first always included; v1a once there is a key.
func TestSignatures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := signing.OpenKeys(secret.File(file), testkit.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ asked, want []string }{
		{nil, []string{"spec", "v1"}},
		{[]string{"spec"}, []string{"spec"}},
		{[]string{"v1a"}, []string{"spec", "v1a"}},
		{[]string{"v1a", "v1"}, []string{"spec", "v1", "v1a"}},
	} {
		r := registration()
		r.Signatures = tt.asked
		e, _, err := service(t, &memory{}, func(o *endpoint.Options) { o.Keys = keys }).Register(t.Context(), r)
		if err != nil || !slices.Equal(e.Signatures, tt.want) {
			t.Errorf("%v: %v, %v, want %v", tt.asked, e.Signatures, err, tt.want)
		}
	}
}
