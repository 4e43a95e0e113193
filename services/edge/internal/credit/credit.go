// Package credit owns the prepaid credits of organizations: what they were granted, until when, and what is left.
//
// What models cost is drawn from the grants in the transaction that reads it from the gateway's billed feed (package
// spend), so that credits are exact to the pico-USD. Package api serves operators over Manager.
package credit

import (
	"math"
	"time"
)

// ReasonKeyReused is the reason of a repeated grant with another content.
const ReasonKeyReused = "idempotency_key_reused"

// Grant is an amount that an organization may spend until it expires. Amounts are in pico-USD.
type Grant struct {
	ID, Organization string
	// IdempotencyKey names the grant within its organization, so that a repeat has no effect.
	IdempotencyKey       string
	Pico, Spent          int64
	Note                 string
	CreatedAt, ExpiresAt time.Time
}

// Cost is what a call cost that began at a moment.
type Cost struct {
	At   time.Time
	Pico int64
}

// Balance is what an organization has left, and what it spent that no grant covered.
type Balance struct{ Pico, Uncovered int64 }

// Draw spends costs from grants, those that expire first before others, and returns what each grant is charged, in their
// order, and what none covers. A grant covers calls that began while it was good. The grants must be in the order of their
// expiry.
func Draw(grants []Grant, costs []Cost) (charged []int64, uncovered int64) {
	charged = make([]int64, len(grants))
	for _, cost := range costs {
		left := cost.Pico
		for i := range grants {
			g := &grants[i]
			if cost.At.Before(g.CreatedAt) || !cost.At.Before(g.ExpiresAt) {
				continue
			}
			part := min(left, g.Pico-g.Spent-charged[i])
			charged[i] += part
			left -= part
		}
		if uncovered > math.MaxInt64-left {
			left = math.MaxInt64 - uncovered
		}
		uncovered += left
	}
	return charged, uncovered
}
