package feed_test

import (
	"math"
	"testing"

	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]feed.Position{
		"":      {},
		"1-2":   {Transaction: 1, Row: 2},
		"0-1":   {Row: 1},
		"731-9": {Transaction: 731, Row: 9},
		"9223372036854775807-9223372036854775807": {Transaction: math.MaxInt64, Row: math.MaxInt64},
	} {
		if got, ok := feed.Parse(text); !ok || got != want || got.String() != text {
			t.Errorf("Parse(%q) = %v, %t, as text %q; want %v", text, got, ok, got, want)
		}
	}
	for _, text := range []string{"-", "1", "1-", "-1", "1-0", "1--2", "1-2-3", " 1-2", "1-2 ", "x-1", "9223372036854775808-1", "1-9223372036854775808"} {
		if got, ok := feed.Parse(text); ok || got != (feed.Position{}) {
			t.Errorf("Parse(%q) = %v, %t", text, got, ok)
		}
	}
}

func TestParseGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("1", growth.Text, "-1"), growth.Around("1-", growth.Text, "")...)
	growth.Linear(t, growth.EachText(append(inputs, growth.Text...), func(text string) { _, _ = feed.Parse(text) })...)
}

func FuzzParse(f *testing.F) {
	f.Add("731-42")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := feed.Parse(text)
		if again, same := feed.Parse(p.String()); ok && (!same || again != p) {
			t.Errorf("Parse(%q) = %v, and %v once more", text, p, again)
		}
	})
}

func TestCompare(t *testing.T) {
	in := []feed.Position{{}, {Transaction: 1, Row: 2}, {Transaction: 1, Row: 3}, {Transaction: 2, Row: 1}}
	for i, p := range in {
		for j, q := range in {
			if got := p.Compare(q); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v compared with %v is %d", p, q, got)
			}
		}
	}
}
