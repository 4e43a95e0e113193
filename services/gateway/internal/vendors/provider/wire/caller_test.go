package wire_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

// seen records the requests that reach a vendor.
type seen struct {
	header http.Header
	body   string
}

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	s.header, s.body = r.Header, string(body)
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, err
}

func fixed(name, value string) provider.Header {
	return provider.Header{Name: name, Value: func() (secret.Value, error) { return secret.New(value), nil }}
}

// A call carries its key in the header of the dialect or of the operator, and the operator's headers in place of the
// dialect's.
func TestAuthorize(t *testing.T) {
	key := provider.Credential{Key: secret.New("k")}
	for name, tt := range map[string]struct {
		settings   provider.Settings
		dialect    string
		credential provider.Credential
		want       http.Header
	}{
		"no credential":         {dialect: "Authorization", want: http.Header{}},
		"the dialect's header":  {dialect: "X-Api-Key", credential: key, want: http.Header{"X-Api-Key": {"k"}}},
		"bearer":                {dialect: "Authorization", credential: key, want: http.Header{"Authorization": {"Bearer k"}}},
		"the operator's header": {provider.Settings{KeyHeader: "api-key"}, "Authorization", key, http.Header{"Api-Key": {"k"}}},
		"the operator's bearer": {provider.Settings{KeyHeader: "authorization"}, "X-Api-Key", key, http.Header{"Authorization": {"Bearer k"}}},
		"an access token": {
			dialect: "X-Api-Key", credential: provider.Credential{Key: secret.New("t"), Bearer: true, Headers: http.Header{"Anthropic-Beta": {"oauth"}}},
			want: http.Header{"Authorization": {"Bearer t"}, "Anthropic-Beta": {"oauth"}},
		},
		"the operator's headers": {
			provider.Settings{Headers: []provider.Header{fixed("X-Title", "mine"), fixed("Accept", "*/*")}},
			"X-Api-Key", key,
			http.Header{"X-Title": {"mine"}, "Accept": {"*/*"}, "X-Api-Key": {"k"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			over := new(seen)
			tt.settings.Transport = over
			c := wire.NewCaller(tt.settings, tt.dialect, func(*provider.Error, http.Header, []byte) {})
			_, _ = c.With(tt.credential).Post(t.Context(), at(t, "https://vendor.example"), http.Header{}, json.RawMessage(`{}`)) //nolint:bodyclose // It has none.
			if agent := over.header.Get("User-Agent"); !strings.HasPrefix(agent, "switchyard/") || strings.ContainsAny(agent, "() ") {
				t.Errorf("User-Agent is %q, want switchyard/<version>", agent)
			}
			over.header.Del("User-Agent")
			tt.want.Set("Content-Type", "application/json")
			if diff := cmp.Diff(tt.want, over.header); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

// A header whose file can't be read fails the call as a refused credential does, without the cause in its text.
func TestHeaderIsUnreadable(t *testing.T) {
	over := new(seen)
	broken := provider.Header{Name: "X-Token", Value: func() (secret.Value, error) { return secret.Value{}, errors.New("open /etc/token: no such file") }}
	c := wire.NewCaller(provider.Settings{Transport: over, Headers: []provider.Header{broken}}, "Authorization", nil)
	_, err := c.Call(t.Context(), http.MethodGet, at(t, "https://vendor.example"), http.Header{}) //nolint:bodyclose // There is no answer.
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Class != apierr.ClassAuth || !strings.Contains(e.Text, "X-Token") || strings.Contains(e.Text, "/etc") {
		t.Errorf("err = %v, want an error of the class auth that names the header", err)
	}
	if over.header != nil {
		t.Error("the request was sent")
	}
}

// signer signs with the hash of the body.
type signer struct {
	err    error
	sum    [sha256.Size]byte
	at     time.Time
	header http.Header
}

func (s *signer) Sign(_ context.Context, r *http.Request, sum [sha256.Size]byte, at time.Time) error {
	s.sum, s.at, s.header = sum, at, r.Header.Clone()
	r.Header.Set("Authorization", "signed")
	return s.err
}

// A signer sees the request as it is sent, with the hash of its body, whatever the body is made of.
func TestSign(t *testing.T) {
	over, by := new(seen), new(signer)
	c := wire.NewCaller(provider.Settings{Transport: over, Headers: []provider.Header{fixed("X-Title", "mine")}}, "Authorization", func(*provider.Error, http.Header, []byte) {})
	c.Now = func() time.Time { return noon }
	caller := c.With(provider.Credential{Signer: by})
	to := at(t, "https://vendor.example")
	for name, send := range map[string]func() (*http.Response, error){
		"JSON": func() (*http.Response, error) {
			return caller.Post(t.Context(), to, http.Header{}, json.RawMessage(`{"a":1}`))
		},
		"form": func() (*http.Response, error) {
			return caller.PostForm(t.Context(), to, http.Header{}, []provider.FormPart{{Name: "a", Data: []byte("1")}, {Name: "b", Data: []byte("2")}})
		},
		"no body": func() (*http.Response, error) { return caller.Call(t.Context(), http.MethodGet, to, http.Header{}) },
	} {
		_, _ = send() //nolint:bodyclose // It has none.
		if over.header.Get("Authorization") != "signed" || by.header.Get("X-Title") != "mine" || by.header.Get("User-Agent") == "" || !by.at.Equal(noon) {
			t.Errorf("%s: sent %v, signed %v at %v", name, over.header, by.header, by.at)
		}
		if want := sha256.Sum256([]byte(over.body)); by.sum != want {
			t.Errorf("%s: the hash is not that of the body %q", name, over.body)
		}
	}
	over.header, by.err = nil, errors.New("no credentials")
	if _, err := caller.Call(t.Context(), http.MethodGet, to, http.Header{}); err == nil || over.header != nil { //nolint:bodyclose // There is no answer.
		t.Errorf("err = %v, sent %v; want an error and nothing sent", err, over.header)
	}
}

// secretive is a signer whose secrets a vendor may repeat.
type secretive struct{ signer }

func (*secretive) Redact(text string) string {
	return strings.ReplaceAll(text, "token-canary", "[redacted]")
}

// A signer's secrets are removed from what vendors say.
func TestShownWithoutSecretsOfTheSigner(t *testing.T) {
	c := wire.NewCaller(provider.Settings{}, "Authorization", nil)
	if got := c.With(provider.Credential{Signer: new(secretive)}).Shown("signed token-canary"); got != "signed [redacted]" {
		t.Errorf("shown %q", got)
	}
	if got := c.With(provider.Credential{Signer: new(signer)}).Shown("signed"); got != "signed" {
		t.Errorf("a signer without secrets: shown %q", got)
	}
}
