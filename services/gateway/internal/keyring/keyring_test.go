package keyring

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	next := path + ".next" // As a secret manager does: a whole file takes the place of the old one.
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "alpha.key")
	k := New(testkit.Logger(t), map[string]string{"alpha": path, "local": ""}, secret.New("pin"))
	scope := Scope{Organization: "acme"}

	if _, err := k.Resolve(scope, "alpha"); !errors.Is(err, ErrNoKey) {
		t.Errorf("missing file: %v, want ErrNoKey", err)
	}
	write(t, path, "key-one\n")
	one, err := k.Resolve(scope, "alpha")
	if err != nil || one.Key.Reveal() != "key-one" || one.Source != "fleet" || len(one.Fingerprint) != 16 {
		t.Errorf("first key: %+v, %v", one, err)
	}
	if again, err := k.Resolve(scope, "alpha"); err != nil || again.Fingerprint != one.Fingerprint {
		t.Errorf("again: %+v, %v, want the same", again, err)
	}
	write(t, path, "key-two")
	two, err := k.Resolve(scope, "alpha")
	if err != nil || two.Key.Reveal() != "key-two" || two.Fingerprint == one.Fingerprint {
		t.Errorf("replaced: %q, %v, want the new key and another fingerprint", two.Key.Reveal(), err)
	}
	write(t, path, "\n")
	if _, err := k.Resolve(scope, "alpha"); !errors.Is(err, ErrNoKey) {
		t.Errorf("empty file: %v, want ErrNoKey", err)
	}
	write(t, path, "key-one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Resolve(scope, "alpha"); !errors.Is(err, ErrNoKey) {
		t.Errorf("removed file: %v, want ErrNoKey", err)
	}
	if local, err := k.Resolve(scope, "local"); err != nil || !local.Key.IsZero() || local.Fingerprint != "" {
		t.Errorf("without a file: %+v, %v, want a call without a key", local, err)
	}
	if _, err := k.Resolve(scope, "nobody"); !errors.Is(err, ErrNoKey) {
		t.Errorf("unknown provider: %v, want ErrNoKey", err)
	}
}

func TestByokNeverFallsBackWhereRequired(t *testing.T) {
	k := New(testkit.Logger(t), map[string]string{"local": ""}, secret.Value{})
	if _, err := k.Resolve(Scope{Byok: ModeRequire}, "local"); !errors.Is(err, ErrNoKey) {
		t.Errorf("require: %v, want ErrNoKey", err)
	}
	if _, err := k.Resolve(Scope{Byok: ModePrefer}, "local"); err != nil {
		t.Errorf("prefer: %v, want the fleet's", err)
	}
}

func TestFingerprintIsKeyed(t *testing.T) {
	a := New(nil, nil, secret.New("a")).fingerprint(secret.New("same-key"))
	b := New(nil, nil, secret.New("b")).fingerprint(secret.New("same-key"))
	if a == b || a == "" {
		t.Errorf("fingerprints %q and %q, want two", a, b)
	}
}

func TestKeysStayOutOfTheLog(t *testing.T) {
	var log bytes.Buffer
	const canary = "sk-canary-0123456789"
	path := filepath.Join(t.TempDir(), "k")
	k := New(slog.New(slog.NewJSONHandler(&log, nil)), map[string]string{"a": path}, secret.Value{})
	write(t, path, canary)
	credential, err := k.Resolve(Scope{}, "a")
	if err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewJSONHandler(&log, nil)).Info("credential", "credential", credential)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, _ = k.Resolve(Scope{}, "a")
	testkit.NoLeak(t, canary, log.String(), credential.Fingerprint)
}
