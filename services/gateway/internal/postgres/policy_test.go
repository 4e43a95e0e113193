package postgres_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
)

// A release increments its topic's version even if the files are unchanged: another replica's may differ.
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
	if err != nil || len(entries) != 2 || entries[0].Subject != "new" || string(entries[0].Details) != `{"after": "new", "before": "old"}` || changes.Load() != 2 {
		t.Errorf("%+v, %v; the replicas were notified %d times", entries, err, changes.Load())
	}
}
