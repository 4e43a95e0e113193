package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Releases stores which version of the policy operators released.
type Releases struct{ control *Control }

// NewReleases returns the releases of a database.
func NewReleases(c *Control) *Releases { return &Releases{c} }

// Release makes every replica read its files again and records the version that the calling replica has read. It
// appends an audit entry even if the files are unchanged.
func (r *Releases) Release(ctx context.Context, before, now policy.Version) error {
	entry := audit.New(ctx, "policy.reload", audit.Subject{Type: "policy", ID: now.Hash}, "")
	var err error
	if entry.Details, err = json.Marshal(map[string]string{"before": before.Hash, "after": now.Hash}); err != nil {
		return fmt.Errorf("policy release: %w", err)
	}
	err = r.control.Change(ctx, control.Policy, &entry, func(ctx context.Context, q *dbsql.Queries, version int64) error {
		return q.PutPolicyRelease(ctx, dbsql.PutPolicyReleaseParams{Hash: now.Hash, Version: version})
	})
	if err != nil {
		return fmt.Errorf("policy release: %w", err)
	}
	return nil
}

// Released returns the hash of the last release, empty before the first, and its version of the topic.
func (r *Releases) Released(ctx context.Context) (hash string, level int64, err error) {
	row, err := dbsql.New(r.control.pool).GetPolicyRelease(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("policy release: %w", err)
	}
	return row.Hash, row.Version, nil
}
