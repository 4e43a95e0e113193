package keyring_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestAges(t *testing.T) {
	dir := t.TempDir()
	set := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, "key-"+name+"\n")
		if err := os.Chtimes(path, time.Time{}, set); err != nil {
			t.Fatal(err)
		}
	}
	fingerprint := func(v secret.Value) string { return "of " + v.Reveal() }
	k := keyring.New(keyring.Options{Log: testkit.Logger(t), Fingerprint: fingerprint, Fleet: map[string][]keyring.Member{
		"openai":  {{Name: "b", File: filepath.Join(dir, "b")}, {Name: "absent", File: filepath.Join(dir, "absent")}, {Name: "a", File: filepath.Join(dir, "a")}},
		"keyless": nil,
	}})
	want := []keyring.Age{
		{Provider: "openai", Credential: "a", Fingerprint: "of key-a", SetAt: set},
		{Provider: "openai", Credential: "b", Fingerprint: "of key-b", SetAt: set},
	}
	if diff := cmp.Diff(want, k.Ages()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
