package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/feed"
)

// Record is a stored entry.
type Record struct {
	Entry

	Position   feed.Position
	RecordedAt time.Time
}

// Filter selects records; an empty field matches all. Since is inclusive and Until exclusive; both apply to the time at
// which a record was stored.
type Filter struct {
	Organization, Run, Provider, Model string
	Since, Until                       time.Time
}

// Feed reads records in the order of their commits. A record never appears before one that was already read, so that a
// reader that continues from the last position reads each record once.
type Feed interface {
	// List returns at most limit records after a position.
	List(ctx context.Context, f Filter, after feed.Position, limit int) ([]Record, error)
	// Charges returns the charges of at most limit records after a position.
	Charges(ctx context.Context, f Filter, after feed.Position, limit int) (ChargePage, error)
}

// Charge is what a record bills, without what else is known of the call.
type Charge struct {
	ID                uuid.UUID
	Organization, Key string
	// Prompt and Completion are the tokens of all kinds.
	Prompt, Completion    int64
	Cost                  price.Pico
	StartedAt, RecordedAt time.Time
	Position              feed.Position
}

// ChargePage is a part of the feed. All records up to Next have been looked at, also those that the filter leaves out.
type ChargePage struct {
	Charges []Charge
	Next    feed.Position
}

// ErrCursor is the error of a cursor that no page returned, or that belongs to another filter.
var ErrCursor = errors.New("not a cursor of this query")

// cursorSize is the length of a cursor: the position's two numbers and eight bytes that identify the filter, because
// continuing with another filter would skip records.
const cursorSize = 24

// Cursor returns the position as text that is opaque to callers.
func (f Filter) Cursor(p feed.Position) string {
	var text [cursorSize]byte
	binary.BigEndian.PutUint64(text[:8], p.Transaction)
	binary.BigEndian.PutUint64(text[8:16], uint64(p.Row))
	copy(text[16:], f.name())
	return base64.RawURLEncoding.EncodeToString(text[:])
}

// Position decodes a cursor; an empty text is the zero Position. The error is ErrCursor.
func (f Filter) Position(cursor string) (feed.Position, error) {
	if cursor == "" {
		return feed.Position{}, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(text) != cursorSize || string(text[16:]) != string(f.name()) {
		return feed.Position{}, ErrCursor
	}
	p := feed.Position{Transaction: binary.BigEndian.Uint64(text[:8]), Row: int64(binary.BigEndian.Uint64(text[8:16]))}
	if p.Row < 0 || p.Transaction > 1<<63 {
		return feed.Position{}, ErrCursor
	}
	return p, nil
}

// name returns eight bytes that identify the filter.
func (f Filter) name() []byte {
	sum := sha256.New()
	for _, field := range []string{
		f.Organization, f.Run, f.Provider, f.Model, f.Since.UTC().Format(time.RFC3339Nano), f.Until.UTC().Format(time.RFC3339Nano),
	} {
		_, _ = sum.Write(append([]byte(field), 0))
	}
	return sum.Sum(nil)[:8]
}
