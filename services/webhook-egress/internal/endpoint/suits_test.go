package endpoint_test

import (
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// brief is a secret that doesn't suit v1.
const brief = "canary-brief"

var hmacSchemes = []string{signing.SchemeSpec, signing.SchemeV1}

// refusedWith checks that err is 400 for the field, says the rule and holds no secret.
func refusedWith(t *testing.T, err error, field string) {
	t.Helper()
	e := apierr.From(err)
	if e == nil || e.Reason != apierr.ReasonInvalidRequest || !strings.HasPrefix(e.Text, field+": ") || !strings.Contains(e.Text, "24 to 64 bytes") {
		t.Fatalf("err = %v, want a refusal of %s with the rule", err, field)
	}
	testkit.NoLeak(t, brief, err.Error()+e.Text)
}

// v1 is refused where it is asked for with a secret that doesn't suit it, and left out where it is the default.
func TestRegisteredSchemes(t *testing.T) {
	for name, tt := range map[string]struct {
		secret        string
		asked, stored []string
	}{
		"a suitable secret":            {canary, nil, hmacSchemes},
		"a suitable secret, asked for": {canary, []string{"v1"}, hmacSchemes},
		"another secret":               {brief, nil, []string{"spec"}},
		"another secret without v1":    {brief, []string{"spec"}, []string{"spec"}},
		"another secret, asked for":    {brief, []string{"v1"}, nil},
		"one too long":                 {strings.Repeat("k", 65), []string{"spec", "v1"}, nil},
		"one in no base64":             {"whsec_%" + brief + strings.Repeat("k", 20), []string{"v1"}, nil},
		"a generated secret":           {"", nil, hmacSchemes},
		"a generated one, asked for":   {"", []string{"v1"}, hmacSchemes},
	} {
		t.Run(name, func(t *testing.T) {
			m, r := &memory{}, registration()
			r.Secret, r.GenerateSecret, r.Signatures = secret.New(tt.secret), tt.secret == "", tt.asked
			e, _, err := service(t, m, nil).Register(t.Context(), r)
			if tt.stored == nil {
				refusedWith(t, err, "signing_secret")
				if m.added != 0 {
					t.Error("it was stored")
				}
				return
			}
			if err != nil || !slices.Equal(m.kept.Signatures, tt.stored) || len(e.Warnings) != 0 {
				t.Errorf("stored with %v, warnings %q, %v; want %v", m.kept.Signatures, e.Warnings, err, tt.stored)
			}
		})
	}
}

// stored returns a stored endpoint with a secret and signatures, whether they suit each other or not.
func stored(t *testing.T, text string, signatures ...string) endpoint.Endpoint {
	t.Helper()
	box, err := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	if err != nil {
		t.Fatal(err)
	}
	id := delivery.NewID(now)
	return endpoint.Endpoint{
		ID: id, Organization: "acme", URL: "http://127.0.0.1:9000/hook", EventTypes: []string{"*"}, Active: true,
		SigningMode: signing.EndpointBody, Secret: box.Seal([]byte(text), id.String()), Signatures: signatures,
	}
}

// A new secret has to suit the signatures, and new signatures the secret; what is stored may stay.
func TestUpdatedSchemes(t *testing.T) {
	for name, tt := range map[string]struct {
		before  endpoint.Endpoint
		update  endpoint.Update
		refused string
		warned  bool
	}{
		"a secret for stored v1":                {stored(t, canary, hmacSchemes...), endpoint.Update{Secret: secret.New(brief)}, "signing_secret", false},
		"a secret for v1 that lacked it":        {stored(t, brief, hmacSchemes...), endpoint.Update{Secret: secret.New(brief + "2")}, "signing_secret", false},
		"a secret that repairs":                 {stored(t, brief, hmacSchemes...), endpoint.Update{Secret: secret.New(canary)}, "", false},
		"a secret without v1":                   {stored(t, canary, "spec"), endpoint.Update{Secret: secret.New(brief)}, "", false},
		"a secret, and no v1 any more":          {stored(t, canary, hmacSchemes...), endpoint.Update{Secret: secret.New(brief), Signatures: []string{"spec"}}, "", false},
		"a secret with v1":                      {stored(t, brief, "spec"), endpoint.Update{Secret: secret.New(canary), Signatures: []string{"v1"}}, "", false},
		"another secret with v1":                {stored(t, canary, "spec"), endpoint.Update{Secret: secret.New(brief), Signatures: []string{"v1"}}, "signing_secret", false},
		"v1 for a stored secret":                {stored(t, canary, "spec"), endpoint.Update{Signatures: []string{"v1"}}, "", false},
		"v1 for a stored one without":           {stored(t, brief, "spec"), endpoint.Update{Signatures: []string{"v1"}}, "signatures", false},
		"v1 again":                              {stored(t, brief, hmacSchemes...), endpoint.Update{Signatures: []string{"v1"}}, "signatures", false},
		"no v1 any more":                        {stored(t, brief, hmacSchemes...), endpoint.Update{Signatures: []string{"spec"}}, "", false},
		"something else, where they don't suit": {stored(t, brief, hmacSchemes...), endpoint.Update{Description: new("d")}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{kept: tt.before}
			e, err := service(t, m, nil).Update(t.Context(), acme, tt.before.ID.String(), tt.update)
			if tt.refused != "" {
				refusedWith(t, err, tt.refused)
				if !m.kept.Updated.IsZero() {
					t.Error("it was stored")
				}
				return
			}
			if err != nil || (len(e.Warnings) != 0) != tt.warned {
				t.Errorf("%v, warnings %q", err, e.Warnings)
			}
		})
	}
}

// Endpoints that were stored with v1 and a secret that doesn't suit it say so; nothing stored holds a warning.
func TestStoredSchemesWarn(t *testing.T) {
	foreign := stored(t, brief, hmacSchemes...)
	foreign.ID = delivery.NewID(now)
	shared := endpoint.Endpoint{ID: delivery.NewID(now), Organization: "acme", SigningMode: signing.OrgTimestamp, Signatures: hmacSchemes}
	elsewhere, unsigned := shared, shared
	elsewhere.Organization, unsigned.Signatures = "other", []string{"spec", "v1a"}
	for name, tt := range map[string]struct {
		stored endpoint.Endpoint
		want   string
	}{
		"its own secret":                        {stored(t, brief, hmacSchemes...), "endpoint's secret"},
		"its own, with v1a, too":                {stored(t, brief, "spec", "v1", "v1a"), "endpoint's secret"},
		"its own without v1":                    {stored(t, brief, "spec"), ""},
		"its own that suits":                    {stored(t, canary, hmacSchemes...), ""},
		"one that can't be opened":              {foreign, ""},
		"the organization's":                    {shared, "organization's secret"},
		"the organization's without v1":         {unsigned, ""},
		"an organization whose secret suits it": {elsewhere, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{kept: tt.stored}
			s := service(t, m, func(o *endpoint.Options) {
				o.Secrets = organizations{"acme": {secret.New(brief), secret.New(canary)}, "other": {secret.New(canary), secret.New(brief)}}
			})
			got, err := s.Get(t.Context(), acme, tt.stored.ID.String())
			page, _, listErr := s.List(t.Context(), endpoint.Filter{Scope: acme}, delivery.LastID, 1)
			if err != nil || listErr != nil {
				t.Fatal(err, listErr)
			}
			if !slices.Equal(got.Warnings, page[0].Warnings) || m.kept.Warnings != nil {
				t.Errorf("read %q, listed %q, stored %q", got.Warnings, page[0].Warnings, m.kept.Warnings)
			}
			text := strings.Join(got.Warnings, "\n")
			testkit.NoLeak(t, brief, text)
			if (tt.want == "") != (text == "") || !strings.Contains(text, tt.want) {
				t.Errorf("warnings %q, want one about %q", text, tt.want)
			}
		})
	}
}
