package health

import "github.com/cespare/xxhash/v2"

// One organization's share in a decision. A customer whose own requests make a vendor fail must not take the vendor
// from others. At the same time all stop calling a vendor that fails for all, and an installation with a single caller
// is protected too:
//
//   - a circuit opens for all organizations only when the calls still fail too often whichever one organization is left
//     out (Policy.opens);
//   - an organization whose own calls fail too often is held back itself, by a breaker of its own (tenant);
//   - an open circuit that one organization's failing probes keep open is probed by others first (State.Prober);
//   - a credential's cooldown after a refusal holds for the organization that met the refusal, until a second
//     organization meets one (allowance);
//   - one organization has only its share of a vendor's bulkhead (package fairshare);
//   - retries and latencies are counted by groups of organizations (groups).
//
// What a vendor reports of a credential's rate limit is taken from any call: it is the same for all, and no request can
// forge it.

// caller is the organization of a call: its name, and a number that identifies it on all replicas. Two organizations
// with the same number share one record. The zero caller is a call of no organization, whose share has no bound;
// requests always have an organization.
type caller struct {
	id   uint64
	name string
}

func callerOf(organization string) caller {
	if organization == "" {
		return caller{}
	}
	return caller{max(xxhash.Sum64String(organization), 1), organization}
}

// groups is the number of groups that organizations are divided into where counting each would cost too much: an
// organization influences only its own group.
const groups = 8

// Tally counts calls and those of them that failed.
type Tally struct{ Calls, Failures int }

// without returns the tally of the other organizations. It may be negative, since calls are counted concurrently.
func (t Tally) without(part Tally) Tally {
	return Tally{t.Calls - part.Calls, t.Failures - part.Failures}
}

// fails reports whether a tally has at least sample calls, of which too many failed.
func (p Policy) fails(t Tally, sample int) bool {
	return t.Calls >= max(sample, 1) && float64(t.Failures) >= p.FailureShare*float64(t.Calls)
}

// opens reports whether a circuit opens for all organizations: the calls fail too often, and they still do whichever
// organization is left out, in at least half a sample of the others' calls. parts are the tallies of single
// organizations; calls of no organization are in no part.
func (p Policy) opens(all Tally, parts []Tally) bool {
	sample := int(p.Sample)
	if !p.fails(all, sample) {
		return false
	}
	for _, part := range parts {
		if !p.fails(all.without(part), (sample+1)/2) {
			return false
		}
	}
	return true
}
