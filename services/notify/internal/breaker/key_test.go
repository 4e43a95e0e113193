package breaker

import "testing"

// No lane's key is a host's, whatever an organization's id contains.
func TestLaneKeysAreNoHosts(t *testing.T) {
	const origin = "https://hooks.example "
	for _, other := range []string{"acme/5", "acme 5", "5 acme"} {
		if key := laneKey(origin+"acme", 5); key == origin+other {
			t.Errorf("lane 5 of acme and the host of organization %q share the key %q", other, key)
		}
	}
}
