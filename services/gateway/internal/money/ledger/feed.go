package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// Record is a stored entry.
type Record struct {
	Entry

	Position   Position
	RecordedAt time.Time
}

// Position is the position of a record in the feed: the transaction that stored it, then its number. The zero Position
// is before the first record.
type Position struct {
	Transaction uint64
	Row         int64
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
	List(ctx context.Context, f Filter, after Position, limit int) ([]Record, error)
}

// ErrCursor is the error of a cursor that no page returned, or that belongs to another filter.
var ErrCursor = errors.New("not a cursor of this query")

// cursorSize is the length of a cursor: the position's two numbers and eight bytes that identify the filter, because
// continuing with another filter would skip records.
const cursorSize = 24

// Cursor returns the position as text that is opaque to callers.
func (f Filter) Cursor(p Position) string {
	var text [cursorSize]byte
	binary.BigEndian.PutUint64(text[:8], p.Transaction)
	binary.BigEndian.PutUint64(text[8:16], uint64(p.Row))
	copy(text[16:], f.name())
	return base64.RawURLEncoding.EncodeToString(text[:])
}

// Position decodes a cursor; an empty text is the zero Position. The error is ErrCursor.
func (f Filter) Position(cursor string) (Position, error) {
	if cursor == "" {
		return Position{}, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(text) != cursorSize || string(text[16:]) != string(f.name()) {
		return Position{}, ErrCursor
	}
	p := Position{binary.BigEndian.Uint64(text[:8]), int64(binary.BigEndian.Uint64(text[8:16]))}
	if p.Row < 0 || p.Transaction > 1<<63 {
		return Position{}, ErrCursor
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
