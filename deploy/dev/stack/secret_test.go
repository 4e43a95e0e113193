package stack

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func openTestVault(t *testing.T) vault {
	t.Helper()
	v, err := openVault(filepath.Join(t.TempDir(), "secrets"))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestSecretsAreMadeOnce(t *testing.T) {
	v := openTestVault(t)
	first, err := makeSecrets(v)
	if err != nil {
		t.Fatal(err)
	}
	second, err := makeSecrets(v)
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Error("a second start made other secrets")
	}
	all := []string{
		first.Service, first.Operator, first.Support, first.Webhook,
		read(t, v.path(controlToken)), read(t, v.path(edgeToken)), read(t, v.path(gatewayToken)), read(t, v.path(edgePepper)), read(t, v.path(webhookKey)),
	}
	seen := map[string]bool{}
	for _, secret := range all {
		if len(secret) < 40 || seen[secret] {
			t.Errorf("a secret of %d characters, seen before: %t", len(secret), seen[secret])
		}
		seen[secret] = true
	}
	if got := read(t, v.path(filepath.Join(webhookFolder, Organization))); got != first.Webhook {
		t.Error("the demo organization signs with another secret than its clients know")
	}
	key, ok := strings.CutPrefix(first.Webhook, "whsec_")
	if raw, err := base64.StdEncoding.DecodeString(key); !ok || err != nil || len(raw) != 32 {
		t.Error("the signing secret hasn't the form of Standard Webhooks")
	}
}

func TestOnlyTheOwnerReadsSecrets(t *testing.T) {
	v := openTestVault(t)
	if _, err := makeSecrets(v); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(v.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTokensAreKnownByTheirHashOnly(t *testing.T) {
	v := openTestVault(t)
	s, err := makeSecrets(v)
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, v.path(tokensFile))
	for role, token := range map[string]string{"service": s.Service, "operator": s.Operator, "support": s.Support} {
		sum := sha256.Sum256([]byte(token))
		line := "role: " + role + ", sha256: " + hex.EncodeToString(sum[:]) + "}"
		if !strings.Contains(text, line) {
			t.Errorf("no line with %q in:\n%s", line, text)
		}
		if strings.Contains(text, token) {
			t.Errorf("the file holds the %s token itself", role)
		}
	}
}

func TestAnEmptySecretIsMadeAgain(t *testing.T) {
	v := openTestVault(t)
	if err := v.write("x", ""); err != nil {
		t.Fatal(err)
	}
	if got, err := v.once("x", func() string { return "fresh" }); got != "fresh" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestASecretThatCannotBeReadIsAnError(t *testing.T) {
	v := openTestVault(t)
	if err := os.Mkdir(v.path("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := v.once("x", func() string { return "fresh" }); err == nil {
		t.Error("replaced something that is no file")
	}
}

func TestSetupIsRepeatable(t *testing.T) {
	administrator := os.Getenv("SWITCHYARD_TEST_DATABASE_URL")
	if administrator == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("no Postgres to test with")
		}
		t.Skip("make test starts a Postgres")
	}
	dir := t.TempDir()
	read := func() string {
		t.Helper()
		if err := Setup(t.Context(), dir, administrator, "redis://redis:6379"); err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			all.WriteString(path + ": " + string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all.String()
	}
	first := read()
	for _, service := range Services {
		if !strings.Contains(first, databaseURL(service)) {
			t.Errorf("no database URL of %s", service)
		}
	}
	if read() != first {
		t.Error("the second setup changed a secret")
	}
}
