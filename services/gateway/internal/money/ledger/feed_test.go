package ledger

import (
	"errors"
	"math"
	"testing"
	"time"

	"switchyard.dev/services/platform/feed"
)

func TestCursor(t *testing.T) {
	filter := Filter{Organization: "acme", Since: time.Unix(1, 0)}
	for _, want := range []feed.Position{{}, {Transaction: 1, Row: 2}, {Transaction: 1 << 62, Row: math.MaxInt64}} {
		if got, err := filter.Position(filter.Cursor(want)); err != nil || got != want {
			t.Errorf("%+v came back as %+v, %v", want, got, err)
		}
	}
	if p, err := filter.Position(""); err != nil || p != (feed.Position{}) {
		t.Errorf("no cursor: %+v, %v", p, err)
	}
	other := []Filter{
		{},
		{Organization: "acme"},
		{Organization: "acm", Run: "e", Since: time.Unix(1, 0)},
		{Organization: "acme", Until: time.Unix(1, 0)},
		{Organization: "acme", Since: time.Unix(1, 0), Model: "m"},
	}
	for _, f := range other {
		if _, err := f.Position(filter.Cursor(feed.Position{Transaction: 1, Row: 2})); !errors.Is(err, ErrCursor) {
			t.Errorf("a cursor of another filter: %v, want ErrCursor", err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	filter := Filter{Organization: "acme"}
	f.Add(filter.Cursor(feed.Position{Transaction: 5, Row: 6}))
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := filter.Position(text)
		if err == nil && text != "" && filter.Cursor(p) != text {
			t.Errorf("%q is read as %+v, whose cursor is %q", text, p, filter.Cursor(p))
		}
	})
}
