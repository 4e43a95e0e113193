package auth_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
	"switchyard.dev/services/webhook-egress/internal/auth"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const canary = "canary-credential-77"

// pair returns a self-signed certificate and its key in PEM.
func pair(t *testing.T, public, private any, from, until time.Time) (certificate, key string) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "acme"}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func ecPair(t *testing.T, from, until time.Time) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pair(t, private.Public(), private, from, until)
}

func TestRefusals(t *testing.T) {
	bearer := func(token string) error { _, err := auth.NewBearer(token); return err }
	basic := func(user, password string) error { _, err := auth.NewBasic(user, password); return err }
	header := func(name, value string) error { _, err := auth.NewHeader(name, value); return err }
	oauth := func(info auth.Info, client string) error { _, err := auth.NewOAuth2(info, client); return err }
	for name, tt := range map[string]struct {
		err   error
		field string
	}{
		"a token with a space":      {bearer(canary + " b"), "auth.bearer.token"},
		"a token with a line break": {bearer(canary + "\r\nX-A: b"), "auth.bearer.token"},
		"a token beyond ASCII":      {bearer(canary + "é"), "auth.bearer.token"},
		"neither user nor password": {basic("", ""), "auth.basic"},
		"a user with a colon":       {basic(canary+":b", "p"), "auth.basic.username"},
		"a password with a tab":     {basic("a", canary+"\t"), "auth.basic.password"},
		"a reserved header":         {header("X-Webhook-Id", canary), "auth.header"},
		"a reserved header, _":      {header("x_webhook_id", canary), "auth.header"},
		"a hop-by-hop header":       {header("Transfer-Encoding", canary), "auth.header"},
		"no header name":            {header("a b", canary), "auth.header"},
		"a value with a line break": {header("X-Key", canary+"\n"), "auth.header"},
		"a client id with NUL":      {oauth(auth.Info{ClientID: canary + "\x00"}, "s"), "auth.oauth2.client_id"},
		"a client secret with NUL":  {oauth(auth.Info{ClientID: "c"}, canary+"\x00"), "auth.oauth2.client_secret"},
		"an audience with NUL":      {oauth(auth.Info{ClientID: "c", Audience: canary + "\x00"}, "s"), "auth.oauth2.audience"},
	} {
		t.Run(name, func(t *testing.T) {
			e := apierr.From(tt.err)
			if e == nil {
				t.Fatal("it was accepted")
			}
			if e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, tt.field+": ") {
				t.Errorf("%s, want invalid and text that begins with %s", e.Text, tt.field)
			}
			testkit.NoLeak(t, canary, e.Error())
		})
	}
}

func TestMTLSRefusals(t *testing.T) {
	good, key := ecPair(t, now.Add(-time.Hour), now.Add(time.Hour))
	_, other := ecPair(t, now.Add(-time.Hour), now.Add(time.Hour))
	past, pastKey := ecPair(t, now.Add(-2*time.Hour), now)
	future, futureKey := ecPair(t, now.Add(time.Minute), now.Add(time.Hour))
	for name, tt := range map[string]struct{ chain, key, field string }{
		"no PEM":                {"hello", key, "auth.mtls.certificate"},
		"a key as certificate":  {key, key, "auth.mtls.certificate"},
		"junk as certificate":   {encode("CERTIFICATE", []byte("junk")), key, "auth.mtls.certificate"},
		"six certificates":      {strings.Repeat(good, 6), key, "auth.mtls.certificate"},
		"an expired one":        {past, pastKey, "auth.mtls.certificate"},
		"one of the future":     {future, futureKey, "auth.mtls.certificate"},
		"the key of another":    {good, other, "auth.mtls.key"},
		"no key":                {good, "junk", "auth.mtls.key"},
		"a certificate as key":  {good, good, "auth.mtls.key"},
		"a key after the chain": {good + key, key, "auth.mtls.certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := auth.NewMTLS(tt.chain, tt.key, now)
			if e := apierr.From(err); e == nil || !strings.HasPrefix(e.Text, tt.field+": ") {
				t.Fatalf("err = %v, want text that begins with %s", err, tt.field)
			}
			if body := strings.Split(tt.key, "\n"); len(body) > 2 {
				testkit.NoLeak(t, body[1], err.Error())
			}
		})
	}
}

// Keys of the kinds that are allowed, and one whose handshakes cost too much.
func TestMTLSKeys(t *testing.T) {
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	// Generating a large key takes long. A certificate needs its public half only: another key signs it.
	large := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 4096, 1), E: 65537}
	for name, tt := range map[string]struct {
		public, private any
		ok              bool
	}{"Ed25519": {edPublic, ed, true}, "RSA": {small.Public(), small, true}, "RSA of 4097 bits": {large, small, false}} {
		chain, key := pair(t, tt.public, tt.private, now.Add(-time.Hour), now.Add(time.Hour))
		a, err := auth.NewMTLS(chain, key, now)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
		if !tt.ok {
			continue
		}
		if c := a.Certificate; c.Subject != "CN=acme" || len(c.Fingerprint) != 64 || !c.NotAfter.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: certificate %+v", name, c)
		}
		if _, err := a.ClientCertificate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is stored is what was set, with its secret; what reads show has none. Nothing prints a secret.
func TestEncode(t *testing.T) {
	chain, key := ecPair(t, now.Add(-time.Hour), now.Add(time.Hour))
	made := func(a auth.Auth, err error) auth.Auth {
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for want, a := range map[string]auth.Auth{
		"Bearer " + canary:           made(auth.NewBearer(canary)),
		"Basic YW5uOnDDpHNzOndvcmQ=": made(auth.NewBasic("ann", "päss:word")),
		canary + " x":                made(auth.NewHeader("x-api-key", canary+" x")),
		"":                           made(auth.NewMTLS(chain, key, now)),
	} {
		text, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := auth.Decode(text)
		if err != nil || got.HeaderValue() != want || got.Kind != a.Kind || !got.Secret.Equal(a.Secret) || got.Chain != a.Chain {
			t.Errorf("%s: %+v, %v", a.Kind, got, err)
		}
		testkit.NoLeak(t, canary, fmt.Sprintf("%v %+v %#v", a, a.Info, a))
	}
	for _, junk := range []string{"", "{}", "[1]", `{"info":{}}`, canary} {
		if _, err := auth.Decode([]byte(junk)); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", junk, err)
		}
	}
}

func TestSetsHeader(t *testing.T) {
	for want, info := range map[string]auth.Info{
		"Authorization": {Kind: auth.OAuth2}, "X-Key": {Kind: auth.Header, HeaderName: "X-Key"}, "": {Kind: auth.MTLS},
	} {
		if got := info.SetsHeader(); got != want {
			t.Errorf("%s sets %q, want %q", info.Kind, got, want)
		}
	}
}

func FuzzNewMTLS(f *testing.F) {
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	f.Fuzz(func(t *testing.T, chain, key string) {
		a, err := auth.NewMTLS(chain, key, now)
		if err != nil {
			return
		}
		if _, err := a.ClientCertificate(); err != nil || a.Certificate == nil {
			t.Errorf("accepted, but not usable: %v", err)
		}
	})
}

func TestNewMTLSGrowsLinearly(t *testing.T) {
	good, key := ecPair(t, now.Add(-time.Hour), now.Add(time.Hour))
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_, _ = auth.NewMTLS(text, key, now)
		_, _ = auth.NewMTLS(good, text, now)
		_, _ = auth.NewMTLS(encode("CERTIFICATE", []byte(text)), key, now)
		_, _ = auth.NewBearer(text)
		_, _ = auth.NewBasic(text, text)
		_, _ = auth.NewHeader(text, text)
		_, _ = auth.NewOAuth2(auth.Info{ClientID: text, Audience: text}, text)
	})...)
}
