// Package export sends usage to billing systems: the edge's counts and the gateway's ledger, to Stripe's billing meters,
// OpenMeter and Lago.
//
// A destination has a cursor for each source. A page of the source becomes events (Destination.Events), whose
// identifiers follow from the source's rows alone; the cursor moves once the destination has taken or refused all of
// them. If a page fails, the events that were taken or refused are recorded and not sent again. Events without an
// answer, even after a kill, are sent again under their identifiers, and the destination drops those that it has. Once
// it no longer knows the identifiers (Kind.memory), such events are set aside, because they could count twice. So are
// events that fail alone for an hour (holdTime), so that one customer's don't hold up all others. Events
// that it refuses for what they are (400) are set aside with the reason as well, and hold up no others.
//
// Counts grow after their minute, and old minutes are merged, so they have no rows that stay the same. The Collector
// therefore records by how much each hour's count has grown, in rows that never change.
//
// One replica at a time collects, and one sends to a destination: the holder of a lease, whose writes need its fence.
// Package app runs Worker, package api shows and starts what operators ask for.
package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Source is where usage comes from.
type Source string

// The sources.
const (
	Counts Source = "counts" // the edge's counts of successful calls
	Ledger Source = "ledger" // the gateway's billed completions
)

// Sources lists the sources in the order in which they are exported.
var Sources = []Source{Counts, Ledger}

// Value is an exact amount of a metric, a decimal number without exponent.
type Value struct{ Metric, Amount string }

// Entry is a row of a source. It never changes.
type Entry struct {
	ID, Organization string
	At               time.Time
	Values           []Value
}

// Event is what a destination gets. Equal identifiers mean equal events.
type Event struct {
	Identifier string
	Source     Source
	// Organization and Metric are Switchyard's names, Customer and Name the destination's.
	Organization, Metric string
	Customer, Name       string
	Amount               string
	At                   time.Time
}

// Growth is by how much the count of an organization's metric in an hour grew, from Before on.
type Growth struct {
	ID                   int64
	Organization, Metric string
	Hour                 time.Time
	Before, Count        int64
	CollectedAt          time.Time
}

// Entry returns the growth as a row of the source. Its id follows from all that it says, so that no two growths that
// differ share one, in a restored database either. Its moment is within the hour.
func (g Growth) Entry() Entry {
	text := fmt.Sprintf("%q %q %d %d %d", g.Organization, g.Metric, g.Hour.Unix(), g.Before, g.Count)
	sum := sha256.Sum256([]byte(text))
	at := g.CollectedAt.UTC().Truncate(time.Second)
	if last := g.Hour.Add(time.Hour - time.Second); at.After(last) {
		at = last
	}
	if at.Before(g.Hour) { // the clock of the replica that counted is ahead
		at = g.Hour
	}
	return Entry{
		ID: hex.EncodeToString(sum[:16]), Organization: g.Organization, At: at.UTC(),
		Values: []Value{{g.Metric, strconv.FormatInt(g.Count, 10)}},
	}
}

// Cursor is how far a destination has come with a source.
type Cursor struct {
	ID          int64
	Destination string
	Source      Source
	// Since is the start of the exported usage. Until is the end of a back-fill; zero for a continuous export.
	Since, Until time.Time
	// OnlyRefused restricts a back-fill to events that the destination refused.
	OnlyRefused bool
	// Position is where the source continues; empty for its beginning.
	Position string
	// Settled holds the identifiers of events of the page at Position that the destination has taken or refused.
	Settled []string
	// UnsureSince is when the page's other events were first sent and may have been taken without an answer; zero if
	// none was taken.
	UnsureSince   time.Time
	Sent, Refused int64
	// Failure is why the last try failed, since FailingSince; empty and zero if it didn't.
	Failure      string
	FailingSince time.Time
	UpdatedAt    time.Time
	// FinishedAt is the end of a back-fill, zero before it.
	FinishedAt time.Time
}

// Page is a part of a source. Next is the position behind it. End reports whether the source has no more for now.
type Page struct {
	Entries []Entry
	Next    string
	End     bool
}

// Pager reads a source from a cursor's position on.
type Pager interface {
	Page(ctx context.Context, c Cursor, limit int) (Page, error)
	// Waiting returns how many entries are known to be behind a position, without asking the source.
	Waiting(ctx context.Context, position string) int
}

// Refusal is an event that a destination refused for what it is.
type Refusal struct {
	Event

	Reason    string
	RefusedAt time.Time
}

// Progress is the outcome of a page: the events that were taken and refused. After a failure these are only some of its
// events.
type Progress struct {
	Cursor  Cursor
	Page    Page
	Taken   []Event
	Refused []Refusal
	// Last is one of Taken; zero if there is none.
	Last LastTaken
}

// LastTaken is an event that a destination took.
type LastTaken struct {
	Event Event
	// SentAt is when the event was first sent, zero for no event.
	SentAt time.Time
	// Account is the Destination.account that took it.
	Account string
}

// add adds what a destination decided on events that were first sent at a time.
func (p *Progress) add(done settlement, d Destination, sentAt time.Time) {
	p.Taken, p.Refused = append(p.Taken, done.taken...), append(p.Refused, done.refused...)
	if len(done.taken) > 0 {
		p.Last = LastTaken{done.taken[0], sentAt, d.account()}
	}
}

// identifiers returns the events' identifiers.
func identifiers(events []Event) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.Identifier
	}
	return ids
}

// Settled returns the identifiers of the events that were taken or refused.
func (p Progress) Settled() []string {
	ids := identifiers(p.Taken)
	for _, r := range p.Refused {
		ids = append(ids, r.Identifier)
	}
	return ids
}

// whole reports whether an amount is a whole number.
func whole(amount string) bool { return !strings.Contains(amount, ".") }

// zero reports whether an amount is zero.
func zero(amount string) bool { return strings.Trim(amount, "0.") == "" }

// maxReason bounds the reason of a refusal or a failure in bytes.
const maxReason = 512

// reason returns a text from outside as one printable line of bounded length.
func reason(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text))
}
