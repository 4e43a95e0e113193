package exposure

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The pieces cover the window in order, without gap or overlap, in whole buckets, and with single rows only within an
// hour of its edges.
func TestWindow(t *testing.T) {
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		seconds := rapid.Int64Range(0, 200*24*3600).Draw(t, "seconds")
		at := time.Unix(1_790_000_000+seconds, 0).UTC()
		if rapid.Bool().Draw(t, "whole") {
			return floor(at, rapid.SampledFrom(spans).Draw(t, "span"))
		}
		return at.Add(time.Duration(rapid.Int64Range(0, 999).Draw(t, "ms")) * time.Millisecond)
	})
	rapid.Check(t, func(t *rapid.T) {
		since, until := moment.Draw(t, "since"), moment.Draw(t, "until")
		if !since.Before(until) {
			if pieces := Window(since, until); len(pieces) != 0 {
				t.Fatalf("pieces of an empty window: %v", pieces)
			}
			return
		}
		at := since
		for _, p := range Window(since, until) {
			if !p.Since.Equal(at) || !p.Since.Before(p.Until) {
				t.Fatalf("a piece from %s on, want %s", p.Since, at)
			}
			at = p.Until
			if p.Span == 0 {
				if p.Until.Sub(p.Since) >= 2*time.Hour {
					t.Fatalf("single rows of %s", p.Until.Sub(p.Since))
				}
				continue
			}
			if !floor(p.Since, p.Span).Equal(p.Since) || !floor(p.Until, p.Span).Equal(p.Until) {
				t.Fatalf("%v cuts a bucket", p)
			}
		}
		if !at.Equal(until) {
			t.Fatalf("ends at %s, want %s", at, until)
		}
	})
}

func TestWindowOfEverything(t *testing.T) {
	pieces := Window(time.Time{}, time.Time{})
	want := []Piece{{Span: longest, Since: Begin, Until: End}}
	if diff := cmp.Diff(want, pieces); diff != "" {
		t.Errorf("pieces, want the longest buckets alone (-want +got):\n%s", diff)
	}
}
