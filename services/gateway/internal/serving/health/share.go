package health

import "github.com/cespare/xxhash/v2"

// An organization's share in a decision. A customer whose own requests make a
// vendor fail must not take the vendor from others, while a vendor that fails is
// left alone by all, and the only caller of an installation is protected too:
//
//   - a circuit opens for all only when the calls still fail too often whichever
//     one organization is left out (Policy.opens);
//   - an organization whose own calls fail too often is held back itself, by a
//     breaker of its own (tenant);
//   - an open circuit that one organization's probes keep open is probed by
//     others first (State.Prober);
//   - a credential's rest after a refusal holds for the organization that met the
//     refusal, until a second one meets it (allowance);
//   - of a vendor's bulkhead one organization has a part (package fairshare);
//   - retries and latencies are counted by groups of organizations (groups).
//
// What a vendor says of a credential's rate limit is believed from any call: it is
// the same for all, and no request can forge it.

// caller is the organization of a call: its name, and a number for it that all
// replicas know it by. Two with the same number have one share. The zero caller is
// a call of no organization, whose share has no bound; requests have one.
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

// groups divide organizations where counting each would cost too much: one
// organization influences its own group only.
const groups = 8

// Tally counts calls, and those of them that failed.
type Tally struct{ Calls, Failures int }

// without is the tally of the others; what was counted meanwhile may make it
// smaller than nothing.
func (t Tally) without(part Tally) Tally {
	return Tally{t.Calls - part.Calls, t.Failures - part.Failures}
}

// fails reports whether a tally is of at least so many calls, too many of which failed.
func (p Policy) fails(t Tally, sample int) bool {
	return t.Calls >= max(sample, 1) && float64(t.Failures) >= p.FailureShare*float64(t.Calls)
}

// opens reports whether a circuit opens for all: the calls fail too often, and so
// they do whichever organization is left out, as seen in at least half a sample
// of the others' calls. parts are those of single organizations; calls of none
// are in no part.
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
