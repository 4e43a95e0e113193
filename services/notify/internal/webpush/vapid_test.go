package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func newKey(tb testing.TB) Key {
	tb.Helper()
	key, _, err := GenerateKey()
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// claims verifies a header by its own key and gives what it claims.
func claims(tb testing.TB, header string) (out struct {
	Aud, Sub string
	Exp      int64
},
) {
	tb.Helper()
	text, public, ok := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	parts := strings.Split(text, ".")
	if !ok || len(parts) != 3 {
		tb.Fatalf("header %q", header)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), b64(tb, public))
	if err != nil {
		tb.Fatal(err)
	}
	raw := b64(tb, parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if len(raw) != 64 || !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])) {
		tb.Fatal("the signature does not fit the key")
	}
	if err := json.Unmarshal(b64(tb, parts[1]), &out); err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestAuthorizationIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key, other := NewSigner("mailto:ops@example.com"), newKey(t), newKey(t)
		header := func(key Key, origin string) string {
			h, err := s.Authorization(key, origin)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		first := header(key, "https://a.example")
		got := claims(t, first)
		left := time.Until(time.Unix(got.Exp, 0))
		if got.Aud != "https://a.example" || got.Sub != "mailto:ops@example.com" {
			t.Errorf("for %q from %q", got.Aud, got.Sub)
		}
		if left <= 0 || left > 24*time.Hour {
			t.Errorf("expires in %s, want within a day", left)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if h, _ := s.Authorization(key, "https://a.example"); h != first {
						t.Error("another token within the hour")
					}
				}
			})
		}
		wg.Wait()
		s.Forget(key, "https://a.example")
		if header(key, "https://a.example") != first {
			t.Error("a token younger than an hour was given up")
		}
		if header(other, "https://a.example") == first || header(key, "https://b.example") == first || s.signed != 3 {
			t.Errorf("%d tokens for three pairs of key and origin", s.signed)
		}
		time.Sleep(2 * time.Hour)
		if header(key, "https://a.example") != first {
			t.Error("a new token after two hours")
		}
		s.Forget(key, "https://a.example")
		second := header(key, "https://a.example")
		if second == first {
			t.Error("a refused token was kept")
		}
		time.Sleep(tokenLife - tokenRest)
		if third := header(key, "https://a.example"); third == second {
			t.Error("a token is used until it expires")
		}
	})
}

func TestSignerIsBounded(t *testing.T) {
	s, key := NewSigner("mailto:ops@example.com"), newKey(t)
	for i := range maxTokens + 10 {
		if _, err := s.Authorization(key, fmt.Sprint("https://h", i, ".example")); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.tokens) > maxTokens {
		t.Errorf("%d tokens kept", len(s.tokens))
	}
}

func TestKeys(t *testing.T) {
	one, text, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	two, other, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys([]secret.Value{text, other})
	if err != nil {
		t.Fatal(err)
	}
	if keys.Current().ID() != one.ID() || len(b64(t, keys.Current().Public())) != pointSize {
		t.Errorf("current key %s", keys.Current().ID())
	}
	if found, ok := keys.Find(two.ID()); !ok || found.Public() != two.Public() {
		t.Error("the second key is not found")
	}
	if _, ok := keys.Find("nobody"); ok {
		t.Error("found a key that is not there")
	}
	bad := map[string][]secret.Value{
		"none": nil, "twice": {text, text}, "short": {secret.New("canary-key-canary")}, "zero": {secret.New(strings.Repeat("A", 43))},
		"a public key": {secret.New(one.Public())},
	}
	for name, lines := range bad {
		_, err := ParseKeys(lines)
		if err == nil {
			t.Errorf("%s was taken", name)
			continue
		}
		testkit.NoLeak(t, text.Reveal(), err.Error())
		testkit.NoLeak(t, "canary-key-canary", err.Error())
	}
}

func TestCheckSubject(t *testing.T) {
	tests := map[string]bool{
		"mailto:ops@example.com": true, "https://example.com": true, "https://example.com/contact": true,
		"": false, "ops@example.com": false, "mailto:ops@localhost": false, "mailto: ops@example.com": false,
		"mailto:<ops@example.com>": false, "mailto:": false, "https://localhost": false, "http://example.com": false, "https://u@example.com": false,
	}
	for subject, want := range tests {
		if err := CheckSubject(subject); (err == nil) != want {
			t.Errorf("%q: %v", subject, err)
		}
	}
}

// A line is a key with a public point and an id, or is refused without a word of it.
func FuzzParseKey(f *testing.F) {
	f.Add(strings.Repeat("A", 42) + "E")
	f.Add(strings.Repeat("_", 43))
	f.Add("")
	f.Add(" AQ== ")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseKey(secret.New(text))
		if err != nil {
			if err.Error() != errKey.Error() {
				t.Fatalf("says %v", err)
			}
			return
		}
		if point, err := base64.RawURLEncoding.DecodeString(key.Public()); err != nil || len(point) != 65 || key.ID() == "" {
			t.Fatalf("%q has the point %q and the id %q", text, key.Public(), key.ID())
		}
	})
}
