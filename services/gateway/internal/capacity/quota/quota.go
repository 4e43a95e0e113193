// Package quota keeps calls within limits of tokens and requests per minute and of concurrent calls, over all replicas,
// and queues fairly who has to wait for them.
//
// A call books its worst case under several subjects at once (a vendor's credential, an organization, a key) before it
// is sent, and settles what it took afterwards. The books are sliding windows in a Store that all replicas share, so
// that no minute holds more than a limit, wherever it begins. Small calls are booked from leases of a second, without a
// round trip. While the store is out of reach, or has lost its books, each replica has its part of every limit.
//
// Callers that may wait do so in a queue in which the organization goes next that got least.
//
// Package redis implements the Store. Package app runs Books.Run.
package quota

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Subject names what a limit applies to, such as "credential/openai/1f3a/gpt-5". What precedes the first slash is its
// kind, by which refusals and metrics name it.
type Subject string

// Kind returns the kind of a subject.
func (s Subject) Kind() string {
	kind, _, _ := strings.Cut(string(s), "/")
	return kind
}

// AnyModel stands in subjects for all models that only callers name, since they may invent names.
const AnyModel = "*"

// Name returns a name as it is a part of a subject: without what is beyond 100 bytes.
func Name(name string) string { return name[:min(len(name), 100)] }

// Counting is when a vendor counts the tokens of a call.
type Counting uint8

const (
	// CountArrival means that the worst case counts when the call arrives.
	CountArrival Counting = iota
	// CountCompletion means that what a call produces counts as it is produced. The worst case then counts until the
	// call is settled, and what it took for a minute more.
	CountCompletion
)

// Limit bounds a subject. Zero fields mean no limit.
type Limit struct {
	// Tokens and Requests per minute.
	Tokens, Requests int64
	// Concurrent calls, until they are settled.
	Concurrent int
	Counting   Counting
}

// Claim is what a call may take of a subject at worst, beside one request.
type Claim struct {
	Subject Subject
	Limit   Limit
	Tokens  int64
}

func (c Claim) amount() Amount { return Amount{Tokens: c.Tokens, Requests: 1} }
func (c Claim) unlimited() bool {
	return c.Limit.Tokens|c.Limit.Requests|int64(c.Limit.Concurrent) == 0
}

// Bounds of a demand.
const (
	maxSubject      = 512
	maxAlternatives = 32
	maxClaims       = 8
	maxTokens       = 1 << 40
	maxWeight       = 1000
)

// Demand is what a call needs before it may be sent: all of Claims, and all claims of one of the Alternatives.
type Demand struct {
	// Queue names the callers that wait for the same alternatives, such as the model. Callers without one neither wait
	// nor stand behind those that do.
	Queue string
	// Organization is who waits in the queue.
	Organization string
	// Weight is the part that the organization's callers have of what is free, beside others'; 0 means 1.
	Weight int
	// Wait is how long the caller may wait; 0 means not at all.
	Wait time.Duration
	// Claims hold whichever alternative is chosen: limits of the caller itself. Alternatives are what all callers of
	// the queue share, in order of preference.
	Claims       []Claim
	Alternatives [][]Claim
}

// IsLimited reports whether a limit may refuse the call.
func (d *Demand) IsLimited() bool { return !d.unlimited() }

func (d *Demand) unlimited() bool {
	for i := range d.Claims {
		if !d.Claims[i].unlimited() {
			return false
		}
	}
	if len(d.Alternatives) == 0 {
		return true
	}
	for i := range d.Alternatives[0] {
		if !d.Alternatives[0][i].unlimited() {
			return false
		}
	}
	return true
}

// claims returns the limited claims of an alternative, those of the caller first, and how many those are.
func (d *Demand) claims(alternative int) (all []Claim, own int) {
	all = limited(make([]Claim, 0, len(d.Claims)+1), d.Claims)
	own = len(all)
	if alternative < len(d.Alternatives) {
		all = limited(all, d.Alternatives[alternative])
	}
	return all, own
}

// limited appends the claims that a limit applies to. They claim tokens only if those are limited.
func limited(to, claims []Claim) []Claim {
	for _, c := range claims {
		if c.unlimited() {
			continue
		}
		if c.Limit.Tokens == 0 {
			c.Tokens = 0
		}
		to = append(to, c)
	}
	return to
}

// tokens returns the largest claim.
func (d *Demand) tokens() (most int64) {
	for _, c := range d.Claims {
		most = max(most, c.Tokens)
	}
	for _, claims := range d.Alternatives {
		for _, c := range claims {
			most = max(most, c.Tokens)
		}
	}
	return most
}

// isEveryLimited reports whether each alternative has a limit.
func (d *Demand) isEveryLimited() bool {
	return !slices.ContainsFunc(d.Alternatives, func(claims []Claim) bool {
		return !slices.ContainsFunc(claims, func(c Claim) bool { return !c.unlimited() })
	})
}

// pacing is which claims are granted steadily.
type pacing struct{ own, others bool }

// paces returns how a caller at a place is granted: steadily where it waits. One that can go on with an alternative that
// has no limit doesn't wait for the others.
func (d *Demand) paces(place *Place) pacing {
	waits := place != nil && place.Waits
	return pacing{own: waits, others: waits && d.isEveryLimited()}
}

func (p pacing) of(own bool) bool { return own && p.own || !own && p.others }

func (d *Demand) weight() int64 { return int64(max(1, d.Weight)) }

// errDemand is the cause of every malformed demand.
var errDemand = errors.New("quota: malformed demand")

func (d *Demand) check() error {
	if len(d.Alternatives) > maxAlternatives || d.Weight < 0 || d.Weight > maxWeight || len(d.Queue) > maxSubject || len(d.Organization) > maxSubject {
		return fmt.Errorf("%w: at most %d alternatives, a weight from 0 to %d, names of at most %d bytes", errDemand, maxAlternatives, maxWeight, maxSubject)
	}
	for i := range max(1, len(d.Alternatives)) {
		claims, _ := d.claims(i)
		if len(claims) > maxClaims {
			return fmt.Errorf("%w: %d claims at once, at most %d", errDemand, len(claims), maxClaims)
		}
		for j, c := range claims {
			if err := c.check(); err != nil {
				return err
			}
			for _, other := range claims[:j] {
				if other.Subject == c.Subject {
					return fmt.Errorf("%w: two claims of subject %q", errDemand, c.Subject)
				}
			}
		}
	}
	return nil
}

func (c Claim) check() error {
	l := c.Limit
	switch {
	case c.Subject == "" || len(c.Subject) > maxSubject:
		return fmt.Errorf("%w: a subject has 1 to %d bytes", errDemand, maxSubject)
	case c.Tokens < 0 || c.Tokens > maxTokens || l.Tokens < 0 || l.Tokens > maxTokens || l.Requests < 0 || l.Requests > maxTokens:
		return fmt.Errorf("%w: tokens and requests of subject %q must be from 0 to %d", errDemand, c.Subject, int64(maxTokens))
	case l.Concurrent < 0 || l.Concurrent > maxConcurrent:
		return fmt.Errorf("%w: concurrent calls of subject %q must be from 0 to %d", errDemand, c.Subject, maxConcurrent)
	}
	return nil
}

// maxConcurrent bounds the entries that concurrent calls of a subject take in the store.
const maxConcurrent = 100_000
