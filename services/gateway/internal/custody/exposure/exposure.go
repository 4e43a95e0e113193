// Package exposure answers whom a leaked credential concerns: the organizations,
// services and runs whose calls used it, from the ledger. Sums are kept of whole
// hours, days and months, folded in behind the commits, so that the answer is
// exact at every moment and quick however long the ledger is. Package api asks,
// internal/app runs the folding; internal/postgres has the sums.
package exposure

import (
	"context"
	"time"
)

// Query names a credential and a window.
type Query struct {
	Provider string
	// Fingerprint of the credential; empty: every one of the provider.
	Fingerprint string
	// Since is inclusive and zero for the beginning of the ledger, Until exclusive and
	// zero for its end. Both are of when a call began.
	Since, Until time.Time
	// Limit of each list, at least 1.
	Limit int
}

// Use is what some calls come to.
type Use struct {
	Calls       int64
	First, Last time.Time
}

// Organization whose calls used the credential.
type Organization struct {
	Name string
	Use
	// Fleet and Byok tell whose credential it was.
	Fleet, Byok bool
}

// Service whose calls used the credential.
type Service struct {
	Name string
	Use
}

// Run whose calls used the credential.
type Run struct {
	ID, Organization string
	Use
}

// Radius is who used a credential. The lists begin with the most calls and may
// be cut, the counts are of all.
type Radius struct {
	Use
	// CostCents are cents.
	CostCents                                 float64
	Organizations                             []Organization
	Services                                  []Service
	Runs                                      []Run
	OrganizationCount, ServiceCount, RunCount int
}

// Truncated reports whether a list was cut.
func (r *Radius) Truncated() bool {
	return len(r.Organizations) < r.OrganizationCount || len(r.Services) < r.ServiceCount || len(r.Runs) < r.RunCount
}

// Store has the sums and the ledger.
type Store interface {
	// Radius finds who used a credential, all of one moment.
	Radius(ctx context.Context, q Query) (Radius, error)
	// Fold brings the sums forward by at most limit rows of the ledger, and tells by
	// how many. It is none while another replica does so.
	Fold(ctx context.Context, limit int) (int, error)
}
