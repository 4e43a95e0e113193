package keyring

import (
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// The error of a missing key says to operators where the key belongs, also for a pool.
func TestMissingKeysNameProviderFileAndSetting(t *testing.T) {
	for name, members := range map[string][]Member{
		"one key": {{File: "/keys/a.key"}}, "a pool": {{Name: "a", File: "/keys/a.key"}, {Name: "b", File: "/keys/b.key"}},
	} {
		k := New(Options{Log: testkit.Logger(t), Fleet: map[string][]Member{"openai": members}, Fingerprint: NewFingerprint(secret.Value{})})
		_, err := k.Resolve(t.Context(), Scope{}, "openai")
		if !errors.Is(err, ErrNoKey) {
			t.Fatalf("%s: %v, want ErrNoKey", name, err)
		}
		for _, part := range []string{"provider openai", "key_file /keys/a.key", "GATEWAY_FLEET_KEYS_DIR", "no such file"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q, want %q in it", name, err, part)
			}
		}
	}
}
