package sealing

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const canary = "sk-canary-sealed-0123456789"

// store writes a new key with a creation time into a folder.
func store(t *testing.T, dir, name, kem string, at time.Time) Key {
	t.Helper()
	key, err := Generate(kem, at)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.Text()
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, filepath.Join(dir, name), text.Reveal()+"\n")
	return key
}

func seal(t *testing.T, p Public, organization, provider string) []byte {
	t.Helper()
	sealed, err := p.Seal(organization, provider, secret.New(canary))
	if err != nil {
		t.Fatal(err)
	}
	testkit.NoLeak(t, canary, string(sealed))
	return sealed
}

// A sealed credential opens for its organization and provider only.
func TestSealedCredentialsCantBeMoved(t *testing.T) {
	for _, kem := range []string{X25519, MLKEM768X25519} {
		t.Run(kem, func(t *testing.T) {
			dir := t.TempDir()
			key := store(t, dir, "a.key", kem, time.Now())
			store(t, dir, "other.key", kem, time.Now().Add(-time.Hour))
			keys, err := NewKeys(dir)
			if err != nil {
				t.Fatal(err)
			}
			sealed := seal(t, key.Public, "acme", "openai")
			value, err := keys.Open(key.ID, "acme", "openai", sealed)
			if err != nil || value.Reveal() != canary {
				t.Fatalf("its own: %v", err)
			}
			other := ""
			for id := range keys.byID {
				if id != key.ID {
					other = id
				}
			}
			flipped := bytes.Clone(sealed)
			flipped[len(flipped)-1] ^= 1
			for name, test := range map[string]struct {
				id, organization, provider string
				sealed                     []byte
				want                       error
			}{
				"another organization": {key.ID, "bolt", "openai", sealed, ErrInvalid},
				"another provider":     {key.ID, "acme", "anthropic", sealed, ErrInvalid},
				"a shifted colon":      {key.ID, "acme:openai", "", sealed, ErrInvalid},
				"another key":          {other, "acme", "openai", sealed, ErrInvalid},
				"an unknown key":       {"0000000000000000", "acme", "openai", sealed, ErrUnknownKey},
				"a flipped bit":        {key.ID, "acme", "openai", flipped, ErrInvalid},
				"cut off":              {key.ID, "acme", "openai", sealed[:len(sealed)-1], ErrInvalid},
				"too short for enc":    {key.ID, "acme", "openai", sealed[:8], ErrInvalid},
				"nothing":              {key.ID, "acme", "openai", nil, ErrInvalid},
			} {
				if _, err := keys.Open(test.id, test.organization, test.provider, test.sealed); !errors.Is(err, test.want) {
					t.Errorf("%s: %v, want %v", name, err, test.want)
				}
			}
		})
	}
}

// The newest key is current. What was sealed to the previous one still opens, until that key is removed. No restart is
// needed.
func TestKeyRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		old := store(t, dir, "2026.key", X25519, time.Now())
		keys, err := NewKeys(dir)
		if err != nil {
			t.Fatal(err)
		}
		sealed := seal(t, old.Public, "acme", "openai")
		next := store(t, dir, "2027.key", MLKEM768X25519, time.Now().Add(time.Hour))
		// Another replica already returns the new key.
		time.Sleep(rereadAfter)
		if _, err := keys.Open(next.ID, "acme", "openai", seal(t, next.Public, "acme", "openai")); err != nil {
			t.Errorf("a key that came later: %v", err)
		}
		if current, err := keys.Current(); err != nil || current.ID != next.ID || current.KEM == old.KEM {
			t.Errorf("current %q, %v, want the newest", current.ID, err)
		}
		if _, err := keys.Open(old.ID, "acme", "openai", sealed); err != nil {
			t.Errorf("the old key: %v", err)
		}
		if err := os.Remove(filepath.Join(dir, "2026.key")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(freshFor)
		if _, err := keys.Current(); err != nil {
			t.Fatal(err)
		}
		if _, err := keys.Open(old.ID, "acme", "openai", sealed); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("a key that was taken away: %v", err)
		}
	})
}

func TestKeysRefuseWhatIsNone(t *testing.T) {
	key, err := Generate(X25519, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, _ := key.Text()
	fields := strings.Fields(text.Reveal())
	for name, line := range map[string]string{
		"a word": canary, "another format": strings.Replace(text.Reveal(), "-v1", "-v2", 1),
		"another KEM": strings.Replace(text.Reveal(), "x25519", "p256", 1), "no time": strings.Replace(text.Reveal(), fields[2], "today", 1),
		"cut off": text.Reveal()[:len(text.Reveal())-4], "no base64": text.Reveal() + "!",
	} {
		dir := t.TempDir()
		testkit.WriteFile(t, filepath.Join(dir, "a.key"), line)
		_, err := NewKeys(dir)
		if err == nil {
			t.Errorf("%s is a key", name)
			continue
		}
		testkit.NoLeak(t, fields[3][:20], err.Error())
		testkit.NoLeak(t, canary, err.Error())
	}
	keys, err := NewKeys("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Current(); !errors.Is(err, ErrNone) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := NewKeys(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a folder that is not there is one without keys")
	}
	if parsed, err := Parse(text); err != nil || parsed.ID != key.ID || !parsed.Created.Equal(key.Created) {
		t.Errorf("its own text: %+v, %v", parsed.Public, err)
	}
	if _, err := Generate("rsa", time.Now()); err == nil {
		t.Error("there is no such KEM")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("switchyard-sealing-key-v1 x25519 2026-01-02T03:04:05Z AAAA")
	f.Fuzz(func(_ *testing.T, line string) { _, _ = Parse(secret.New(line)) })
}
