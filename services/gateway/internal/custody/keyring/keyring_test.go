package keyring

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// checked is when a replaced file is surely read again; see secret.Cached.
const checked = 100 * time.Millisecond

// first returns the first credential of a provider.
func first(t *testing.T, k *Keyring, scope Scope, name string) (provider.Credential, error) {
	t.Helper()
	credentials, err := k.Resolve(t.Context(), scope, name)
	if err != nil {
		return provider.Credential{}, err
	}
	return credentials[0], nil
}

// ofFiles returns pools of one key each; "" is a provider that needs none.
func ofFiles(files map[string]string) map[string][]Member {
	pools := make(map[string][]Member)
	for name, file := range files {
		pools[name] = nil
		if file != "" {
			pools[name] = []Member{{File: file}}
		}
	}
	return pools
}

// replace replaces a key file, and waits until it is checked again.
func replace(t *testing.T, path, text string) {
	t.Helper()
	defer time.Sleep(checked)
	next := path + ".next" // As a secret manager does: a whole file replaces the old one.
	testkit.WriteFile(t, next, text)
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) { synctest.Test(t, resolve) }

func resolve(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "alpha.key")
	k := newKeyring(testkit.Logger(t), map[string]string{"alpha": path, "local": ""})
	scope := Scope{Organization: "acme"}

	_, err := first(t, k, scope, "alpha")
	if missing, ok := errors.AsType[*MissingError](err); !errors.Is(err, ErrNoKey) || !errors.Is(err, fs.ErrNotExist) || !ok || missing.Provider != "alpha" || missing.File != path {
		t.Errorf("missing file: %v, want ErrNoKey with provider and file", err)
	}
	replace(t, path, "key-one\n")
	one, err := first(t, k, scope, "alpha")
	if err != nil {
		t.Fatalf("first key: %v", err)
	}
	if key := one.Key.Reveal(); key != "key-one" || one.Source != "fleet" {
		t.Errorf("first key: %q of %q, want key-one of the fleet", key, one.Source)
	}
	if len(one.Fingerprint) != 16 {
		t.Errorf("fingerprint %q, want 16 digits", one.Fingerprint)
	}
	if again, err := first(t, k, scope, "alpha"); err != nil || again.Fingerprint != one.Fingerprint {
		t.Errorf("again: %+v, %v, want the same", again, err)
	}
	replace(t, path, "key-two")
	two, err := first(t, k, scope, "alpha")
	if err != nil || two.Key.Reveal() != "key-two" || two.Fingerprint == one.Fingerprint {
		t.Errorf("replaced: %q, %v, want the new key and another fingerprint", two.Key.Reveal(), err)
	}
	replace(t, path, "\n")
	if _, err := first(t, k, scope, "alpha"); !errors.Is(err, ErrNoKey) {
		t.Errorf("empty file: %v, want ErrNoKey", err)
	}
	replace(t, path, "key-one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	time.Sleep(checked)
	if _, err := first(t, k, scope, "alpha"); !errors.Is(err, ErrNoKey) {
		t.Errorf("removed file: %v, want ErrNoKey", err)
	}
	if local, err := first(t, k, scope, "local"); err != nil || !local.Key.IsZero() || local.Fingerprint != "" {
		t.Errorf("without a file: %+v, %v, want a call without a key", local, err)
	}
	if _, err := first(t, k, scope, "nobody"); !errors.Is(err, ErrNoKey) {
		t.Errorf("unknown provider: %v, want ErrNoKey", err)
	}
}

// own holds credentials of organizations, or fails.
type own map[string]error

func (o own) Find(_ context.Context, organization, name string, _ bool) (provider.Credential, error) {
	err, ok := o[organization+"/"+name]
	if !ok {
		err = ErrNoKey
	}
	if err != nil {
		return provider.Credential{}, err
	}
	return provider.Credential{Key: secret.New("own of " + name), Source: SourceByok}, nil
}

// Whose key is used depends on the request, the policy, and the existing keys.
func TestByokOrder(t *testing.T) {
	away := errors.New("away")
	path := filepath.Join(t.TempDir(), "k")
	testkit.WriteFile(t, path, "fleet-key")
	files := map[string]string{"both": path, "mine": filepath.Join(t.TempDir(), "absent"), "theirs": path, "broken": path, "alone": filepath.Join(t.TempDir(), "absent")}
	mine := own{"acme/both": nil, "acme/mine": nil, "acme/broken": away, "acme/alone": away, "acme/unknown": nil}
	for _, test := range []struct {
		policy, mode Mode
		only, name   string
		want         string
		err          error
	}{
		{"", "", "", "both", SourceFleet, nil},
		{"", "", "", "mine", "", ErrNoKey},
		{ModeFleet, "", "", "both", SourceFleet, nil},
		{ModePrefer, "", "", "both", SourceByok, nil},
		{ModePrefer, "", "", "theirs", SourceFleet, nil},
		{ModeRequire, "", "", "theirs", "", ErrNoKey},
		{ModeRequire, ModePrefer, "", "theirs", SourceFleet, nil},
		{"", ModeRequire, "", "both", SourceByok, nil},
		{"", ModeRequire, "", "mine", SourceByok, nil},
		{"", ModeRequire, "", "theirs", "", ErrNoKey},
		{"", ModeRequire, "", "broken", "", away},
		{"", ModePrefer, "", "both", SourceByok, nil},
		{"", ModePrefer, "", "mine", SourceByok, nil},
		{"", ModePrefer, "", "theirs", SourceFleet, nil},
		{"", ModePrefer, "", "broken", SourceFleet, nil},
		{"", ModePrefer, "", "alone", "", away},
		{"", ModeRequire, "both", "both", SourceByok, nil},
		{"", ModeRequire, "alias", "both", SourceByok, nil},
		{"", ModeRequire, "both", "mine", "", ErrNoKey},
		{"", ModeRequire, "nobody", "both", "", ErrNoKey},
		{"", ModePrefer, "mine", "both", SourceFleet, nil},
		{"", ModeRequire, "", "unknown", "", ErrNoKey}, // A key is never sent to an address that is not configured.
	} {
		canonical := func(name string) (string, bool) {
			if name == "alias" {
				return "both", true
			}
			_, ok := files[name]
			return name, ok
		}
		k := New(Options{Log: testkit.Logger(t), Fleet: ofFiles(files), Fingerprint: NewFingerprint(secret.Value{}), Own: mine, Mode: test.policy, Canonical: canonical})
		got, err := first(t, k, Scope{Organization: "acme", Byok: test.mode, Provider: test.only}, test.name)
		if got.Source != test.want || !errors.Is(err, test.err) {
			t.Errorf("%+v: %q, %v", test, got.Source, err)
		}
		if got, _ := first(t, k, Scope{Organization: "bolt", Byok: ModePrefer}, test.name); got.Source == SourceByok {
			t.Errorf("another organization's call to %s has acme's key", test.name)
		}
	}
}

func TestWithoutOwn(t *testing.T) {
	k := newKeyring(testkit.Logger(t), map[string]string{"local": ""})
	if _, err := first(t, k, Scope{Byok: ModeRequire}, "local"); !errors.Is(err, ErrNoKey) {
		t.Errorf("require: %v, want ErrNoKey", err)
	}
	if _, err := first(t, k, Scope{Byok: ModePrefer}, "local"); err != nil {
		t.Errorf("prefer: %v, want the fleet's", err)
	}
}

func newKeyring(log *slog.Logger, files map[string]string) *Keyring {
	return New(Options{Log: log, Fleet: ofFiles(files), Fingerprint: NewFingerprint(secret.New("pin"))})
}

func TestFingerprintIsKeyed(t *testing.T) {
	a, b := NewFingerprint(secret.New("a"))(secret.New("same-key")), NewFingerprint(secret.New("b"))(secret.New("same-key"))
	if a == b || a == "" {
		t.Errorf("fingerprints %q and %q, want two", a, b)
	}
}

func TestKeysStayOutOfTheLog(t *testing.T) { synctest.Test(t, keysStayOutOfTheLog) }

func keysStayOutOfTheLog(t *testing.T) {
	var log bytes.Buffer
	const canary = "sk-canary-0123456789"
	path := filepath.Join(t.TempDir(), "k")
	k := newKeyring(slog.New(slog.NewJSONHandler(&log, nil)), map[string]string{"a": path})
	testkit.WriteFile(t, path, canary)
	credential, err := first(t, k, Scope{}, "a")
	if err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewJSONHandler(&log, nil)).Info("credential", "credential", credential)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	time.Sleep(checked) // The failure is logged.
	_, _ = first(t, k, Scope{}, "a")
	testkit.NoLeak(t, canary, log.String(), credential.Fingerprint)
}
