package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// Record is an entry in the store.
type Record struct {
	Entry

	Position   Position
	RecordedAt time.Time
}

// Position of a record in the feed: the transaction that stored it, then its
// number. The zero Position is before the first one.
type Position struct {
	Transaction uint64
	Row         int64
}

// Filter selects records; an empty field takes all. Since is inclusive, Until
// exclusive, both of when a record was stored.
type Filter struct {
	Organization, Run, Provider, Model string
	Since, Until                       time.Time
}

// Feed reads records in the order of their commits. A record never appears
// before one that was read, so that a reader who goes on from the last position
// sees each once.
type Feed interface {
	// List gives at most limit records after a position.
	List(ctx context.Context, f Filter, after Position, limit int) ([]Record, error)
}

// ErrCursor is a cursor that no page gave, or one of another filter.
var ErrCursor = errors.New("not a cursor of this query")

// A cursor is the position's two numbers and eight bytes that name the filter:
// going on with another filter would skip records.
const cursorSize = 24

// Cursor is the position as text that means nothing to others.
func (f Filter) Cursor(p Position) string {
	var text [cursorSize]byte
	binary.BigEndian.PutUint64(text[:8], p.Transaction)
	binary.BigEndian.PutUint64(text[8:16], uint64(p.Row))
	copy(text[16:], f.name())
	return base64.RawURLEncoding.EncodeToString(text[:])
}

// Position reads a cursor; empty text is the zero Position.
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

// name is eight bytes that differ from filter to filter.
func (f Filter) name() []byte {
	sum := sha256.New()
	for _, field := range []string{
		f.Organization, f.Run, f.Provider, f.Model, f.Since.UTC().Format(time.RFC3339Nano), f.Until.UTC().Format(time.RFC3339Nano),
	} {
		_, _ = sum.Write(append([]byte(field), 0))
	}
	return sum.Sum(nil)[:8]
}
