package secret_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// A file is parsed once for each of its contents, and an error is told apart from the one before.
func TestCached(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	synctest.Test(t, func(t *testing.T) {
		parsed := 0
		cached := secret.NewCached(secret.File(path), func(v secret.Value) string { parsed++; return v.Reveal() })
		check := func(step, want string, wantChanged, wantError bool) {
			t.Helper()
			value, changed, err := cached.Read()
			if value != want || changed != wantChanged || (err != nil) != wantError {
				t.Errorf("%s: %q, changed %t, err %v; want %q, %t, an error %t", step, value, changed, err, want, wantChanged, wantError)
			}
		}
		check("absent", "", true, true)
		testkit.WriteFile(t, path, "one")
		check("within the time", "", false, true)
		time.Sleep(100 * time.Millisecond)
		check("written", "one", true, false)
		check("again", "one", false, false)
		time.Sleep(100 * time.Millisecond)
		check("unchanged", "one", false, false)
		testkit.WriteFile(t, path, "three")
		time.Sleep(100 * time.Millisecond)
		check("replaced", "three", true, false)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		check("removed", "", true, true)
		time.Sleep(100 * time.Millisecond)
		check("still removed", "", false, true)
		if parsed != 2 {
			t.Errorf("parsed %d times, want 2", parsed)
		}
	})
}
