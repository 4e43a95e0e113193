package exposure

import "time"

// spans are the lengths of the buckets that sums are kept for, counted from 1970: an hour, a day, 5 days and 30 days.
// Each divides the next.
var spans = []time.Duration{time.Hour, 24 * time.Hour, 5 * 24 * time.Hour, 30 * 24 * time.Hour}

// longest is the longest of the spans.
var longest = spans[len(spans)-1]

// Piece is a range of whole buckets of a span, or of single rows if Span is 0.
type Piece struct {
	Span         time.Duration
	Since, Until time.Time
}

// Begin and End bound the times in a ledger. They are on a boundary of every span.
var (
	Begin = floor(time.Unix(0, 0), longest)
	End   = floor(time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC), longest)
)

// Window divides a window into pieces without overlap or gap: as much as possible in the longest span, and single rows
// only at the edges. Zero times stand for Begin and End.
func Window(since, until time.Time) []Piece {
	if since.IsZero() || since.Before(Begin) {
		since = Begin
	}
	if until.IsZero() || until.After(End) {
		until = End
	}
	return cut(since, until, len(spans)-1)
}

// cut returns the part that consists of whole buckets of a span, and divides the rest on either side into the shorter
// spans.
func cut(since, until time.Time, at int) []Piece {
	if !since.Before(until) {
		return nil
	}
	if at < 0 {
		return []Piece{{0, since, until}}
	}
	first, last := ceil(since, spans[at]), floor(until, spans[at])
	if !first.Before(last) {
		return cut(since, until, at-1)
	}
	pieces := append(cut(since, first, at-1), Piece{spans[at], first, last})
	return append(pieces, cut(last, until, at-1)...)
}

// floor returns the last boundary of a span at or before a moment that is not before 1970.
func floor(t time.Time, span time.Duration) time.Time {
	seconds := int64(span / time.Second)
	return time.Unix(t.Unix()-t.Unix()%seconds, 0).UTC()
}

func ceil(t time.Time, span time.Duration) time.Time {
	if at := floor(t, span); !at.Equal(t) {
		return at.Add(span)
	}
	return t
}
