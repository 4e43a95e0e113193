package keyring

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// exchanged is an identity that has a credential, or gets one when it is waited for.
type exchanged struct {
	present, later string
	err            error
	waited         int
	dropped        []string
}

func (e *exchanged) Current() (provider.Credential, bool) {
	return provider.Credential{Key: secret.New(e.present), Bearer: true, Fingerprint: "id"}, e.present != ""
}

func (e *exchanged) Credential(context.Context) (provider.Credential, error) {
	if e.present == "" {
		e.waited++
		if e.err != nil {
			return provider.Credential{}, e.err
		}
		e.present = e.later
	}
	c, _ := e.Current()
	return c, nil
}

func (e *exchanged) Drop(refused provider.Credential) {
	e.dropped = append(e.dropped, refused.Key.Reveal())
}

// A pool has the credentials of those identities that have one, and waits for one only where none has.
func TestPoolOfIdentities(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, dir+"/key", "sk-1")
	away := errors.New("the token server is away")
	for name, tt := range map[string]struct {
		members []Member
		want    string
		waits   int
	}{
		"one that has one":          {[]Member{{Name: "a", Identity: &exchanged{present: "t"}}}, "a:t", 0},
		"one that gets one":         {[]Member{{Name: "a", Identity: &exchanged{later: "t"}}}, "a:t", 1},
		"one that has failed":       {[]Member{{Name: "a", Identity: &exchanged{err: away}}}, "", 1},
		"two, of which one has one": {[]Member{{Name: "a", Identity: &exchanged{later: "t"}}, {Name: "b", Identity: &exchanged{present: "u"}}}, "b:u", 0},
		"with a key":                {[]Member{{Name: "a", Identity: &exchanged{later: "t"}}, {Name: "k", File: dir + "/key"}}, "k:sk-1", 0},
		"two, of which one fails":   {[]Member{{Name: "a", Identity: &exchanged{err: away}}, {Name: "b", Identity: &exchanged{later: "u"}}}, "b:u", 2},
		"drained":                   {[]Member{{Name: "a", Identity: &exchanged{present: "t"}, Drain: true}}, "", 0},
		"one drained":               {[]Member{{Name: "a", Identity: &exchanged{present: "t"}, Drain: true}, {Name: "b", Identity: &exchanged{present: "u"}}}, "b:u", 0},
	} {
		k := New(Options{Log: testkit.Logger(t), Fleet: map[string][]Member{"p": tt.members}, Fingerprint: NewFingerprint(secret.Value{})})
		credentials, err := k.Resolve(t.Context(), Scope{}, "p")
		var got []string
		for _, c := range credentials {
			got = append(got, c.Name+":"+c.Key.Reveal())
		}
		waits := 0
		for _, m := range tt.members {
			if e, ok := m.Identity.(*exchanged); ok {
				waits += e.waited
			}
		}
		if text := strings.Join(got, " "); text != tt.want || waits != tt.waits || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v after %d waits; want %q after %d", name, text, err, waits, tt.want, tt.waits)
		}
		if err != nil && !errors.Is(err, ErrNoKey) {
			if e := apierr.From(err); e.Kind != apierr.KindUnavailable || e.RetryAfter == 0 || strings.Contains(e.Text, "away") {
				t.Errorf("%s: %+v, want one that may be retried, without the cause", name, e)
			}
		}
	}
}

// A credential that the vendor refuses is replaced, and one that may only not do something is kept.
func TestRefusedCredentialIsReplaced(t *testing.T) {
	of := &exchanged{present: "t"}
	k := New(Options{Log: testkit.Logger(t), Fleet: map[string][]Member{"p": {{Name: "a", Identity: of}}}, Fingerprint: NewFingerprint(secret.Value{})})
	credential, err := first(t, k, Scope{}, "p")
	if err != nil {
		t.Fatal(err)
	}
	credential.Refused(&provider.Error{Status: http.StatusForbidden, Code: "AccessDeniedException"})
	credential.Refused(&provider.Error{Status: http.StatusTooManyRequests})
	if len(of.dropped) != 0 {
		t.Errorf("%v is replaced though the vendor took it", of.dropped)
	}
	credential.Refused(&provider.Error{Status: http.StatusUnauthorized})
	credential.Refused(&provider.Error{Status: http.StatusForbidden, Code: "ExpiredTokenException"})
	if fmt.Sprint(of.dropped) != "[t t]" {
		t.Errorf("replaced %v, want the refused token each time", of.dropped)
	}
}

// brought are credentials of organizations that are JSON.
type brought map[string]string

func (b brought) Find(_ context.Context, organization, _ string, _ bool) (provider.Credential, error) {
	text, ok := b[organization]
	if !ok {
		return provider.Credential{}, ErrNoKey
	}
	return provider.Credential{Key: secret.New(text), Source: SourceByok, Fingerprint: "of " + organization}, nil
}

// An identity that an organization brings is opened once for each provider and secret, and used as its own credential.
func TestOwnIdentity(t *testing.T) {
	opened := 0
	own := brought{"acme": `{"access_key_id":"AKIA"}`, "bolt": "sk-plain", "cask": `{"type":"of another vendor"}`}
	open := func(_ string, text secret.Value) (Identity, error) {
		opened++
		if strings.Contains(text.Reveal(), "another") {
			return nil, errors.New("aws.service: is missing")
		}
		return &exchanged{present: "signed"}, nil
	}
	k := New(Options{
		Log: testkit.Logger(t), Fleet: map[string][]Member{"p": nil, "q": nil}, Fingerprint: NewFingerprint(secret.Value{}),
		Own: own, OwnIdentity: open,
	})
	resolve := func(organization, name string) (provider.Credential, error) {
		return first(t, k, Scope{Organization: organization, Byok: ModeRequire}, name)
	}
	for range 3 {
		c, err := resolve("acme", "p")
		if err != nil || c.Key.Reveal() != "signed" || c.Source != SourceByok || c.Fingerprint != "of acme" {
			t.Fatalf("%+v, %v; want the exchanged credential under the organization's fingerprint", c, err)
		}
	}
	if _, err := resolve("acme", "q"); err != nil || opened != 2 {
		t.Errorf("%v; opened %d times, want once for each provider", err, opened)
	}
	if c, err := resolve("bolt", "p"); err != nil || c.Key.Reveal() != "sk-plain" || opened != 2 {
		t.Errorf("a key: %+v, %v, opened %d times", c, err, opened)
	}
	if _, err := resolve("cask", "p"); apierr.From(err).Kind != apierr.KindInvalid || !strings.Contains(err.Error(), "aws.service") {
		t.Errorf("another vendor's: %v, want an error that names the rule", err)
	}
}

// What is kept open for organizations is bounded.
func TestOwnIdentitiesAreBounded(t *testing.T) {
	k := New(Options{Fingerprint: NewFingerprint(secret.Value{}), OwnIdentity: func(string, secret.Value) (Identity, error) {
		return &exchanged{present: "t"}, nil
	}})
	for i := range 2 * maxOwn {
		if _, err := k.exchangeOwn(t.Context(), "p", provider.Credential{Fingerprint: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(k.own.by); n != maxOwn {
		t.Errorf("%d are kept, want %d", n, maxOwn)
	}
}
