package postgres_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
)

// A release moves its topic on, also when the files are the same as before: another
// replica's may not be.
func TestReleases(t *testing.T) {
	c, _, changes := newControl(t)
	r := postgres.NewReleases(c)
	hash, first, err := r.Released(t.Context())
	if err != nil || hash != "" || first != 1 {
		t.Fatalf("before the first release: %q, %d, %v", hash, first, err)
	}
	for n := range int64(2) {
		if err := r.Release(t.Context(), policy.Version{Hash: "old"}, policy.Version{Hash: "new"}); err != nil {
			t.Fatal(err)
		}
		hash, level, err := r.Released(t.Context())
		versions, errVersions := c.Versions(t.Context())
		if err != nil || hash != "new" || level != first+n+1 {
			t.Errorf("release %d: %q at %d, %v, want new at %d", n, hash, level, err, first+n+1)
		}
		if errVersions != nil || versions[control.Policy] != level {
			t.Errorf("release %d: versions %v, %v, want the policy at %d", n, versions, errVersions, level)
		}
	}
	entries, err := c.List(t.Context(), audit.Filter{Action: "policy.reload", Limit: 10})
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d audit entries, %v, want 2", len(entries), err)
	}
	if got := entries[0]; got.Subject != "new" || string(got.Details) != `{"after": "new", "before": "old"}` {
		t.Errorf("the audit has %s with %s, want new after old", got.Subject, got.Details)
	}
	if changes.Load() != 2 {
		t.Errorf("the replicas were notified %d times, want 2", changes.Load())
	}
}
