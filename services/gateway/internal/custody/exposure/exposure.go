// Package exposure finds who is affected by a leaked credential: the organizations, services and runs whose calls used
// it, from the ledger. Sums are kept for whole hours, days and months, and are updated asynchronously after the ledger
// commits; queries add the rows that the sums don't include yet, so that the answer is exact at every moment and fast
// however long the ledger is. Package api queries it, internal/app runs the aggregation; internal/postgres stores the
// sums.
package exposure

import (
	"context"
	"time"
)

// Query selects a credential and a time window.
type Query struct {
	Provider string
	// Fingerprint identifies the credential; empty selects all credentials of the provider.
	Fingerprint string
	// Since is inclusive, zero for the beginning of the ledger. Until is exclusive, zero for its end. Both apply to
	// when a call began.
	Since, Until time.Time
	// Limit is the maximum length of each list, at least 1.
	Limit int
}

// Use sums up calls.
type Use struct {
	Calls       int64
	First, Last time.Time
}

// Organization is an organization whose calls used the credential.
type Organization struct {
	Name string
	Use
	// Fleet and Byok report whose credential it was.
	Fleet, Byok bool
}

// Service is a service whose calls used the credential.
type Service struct {
	Name string
	Use
}

// Run is a run whose calls used the credential.
type Run struct {
	ID, Organization string
	Use
}

// Radius is who used a credential. The lists are sorted by calls, most first, and may be truncated; the counts include
// all.
type Radius struct {
	Use
	// CostCents is the cost of the calls in cents.
	CostCents                                 float64
	Organizations                             []Organization
	Services                                  []Service
	Runs                                      []Run
	OrganizationCount, ServiceCount, RunCount int
}

// Truncated reports whether a list was truncated.
func (r *Radius) Truncated() bool {
	return len(r.Organizations) < r.OrganizationCount || len(r.Services) < r.ServiceCount || len(r.Runs) < r.RunCount
}

// Store stores the sums and reads the ledger.
type Store interface {
	// Radius returns who used a credential, from one snapshot.
	Radius(ctx context.Context, q Query) (Radius, error)
	// Aggregate adds the next rows of the ledger to the sums and returns how many. It stops at the end of the transaction
	// in which it reaches limit. It returns 0 while another replica aggregates.
	Aggregate(ctx context.Context, limit int) (int, error)
}
