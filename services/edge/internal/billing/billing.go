// Package billing is what the gateway bills organizations, call by call. Package service reads it from the gateway. Tail
// shares what was read among those that follow it: package spend adds it up, package export sends it to billing systems.
package billing

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"switchyard.dev/services/platform/feed"
)

// Source is the gateway's billed feed: it returns each record once, in the order of commits.
type Source interface {
	Read(ctx context.Context, q Query) (Page, error)
}

// Query selects the records behind a position.
type Query struct {
	// Organization is empty for all.
	Organization string
	// Since and Until bound when records were recorded; a zero time means no bound.
	Since, Until time.Time
	After        feed.Position
	// Limit is 1 to MaxPage.
	Limit int
}

// MaxPage is how many records a page has at most.
const MaxPage = 1000

// matches reports whether a record passes the query's filters. It ignores the position.
func (q *Query) matches(r *Record) bool {
	return (q.Organization == "" || r.Organization == q.Organization) && !r.RecordedAt.Before(q.Since) &&
		(q.Until.IsZero() || r.RecordedAt.Before(q.Until))
}

// Page is a part of the feed. All records up to Next have been looked at. More reports that there may be some behind it
// already.
type Page struct {
	Records []Record
	Next    feed.Position
	More    bool
}

// Record is a billed call.
type Record struct {
	ID, Organization string
	// Key is the customer key, empty for a call without one.
	Key                   string
	StartedAt, RecordedAt time.Time
	// Prompt and Completion are the tokens of all kinds.
	Prompt, Completion int64
	// Pico is the cost in pico-USD.
	Pico     int64
	Position feed.Position
}

// Tokens returns the tokens of the call.
func (r *Record) Tokens() int64 { return r.Prompt + r.Completion }

var errPosition = errors.New("not a position of the billed feed")

// legacySize is the length in bytes of the cursors that the release before this feed stored: a position and the name of a
// filter.
const legacySize = 24

// ParsePosition returns the position that a follower stored.
func ParsePosition(text string) (feed.Position, error) {
	if p, ok := feed.Parse(text); ok {
		return p, nil
	}
	legacy, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(legacy) != legacySize {
		return feed.Position{}, errPosition
	}
	return feed.Position{Transaction: binary.BigEndian.Uint64(legacy), Row: int64(binary.BigEndian.Uint64(legacy[8:]))}, nil
}
