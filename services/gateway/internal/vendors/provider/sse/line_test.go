package sse

import (
	"strings"
	"testing"
	"time"
)

// The search stops at the end of the line: otherwise a buffer full of CRs would be searched as often as it is long.
func TestLineEndLooksNoFurther(t *testing.T) {
	took := func(n int) time.Duration {
		text := []byte("\r" + strings.Repeat("x", n) + "\n")
		least := time.Hour
		for range 5 {
			begun := time.Now()
			for range 1000 {
				if lineEnd(text) != 0 {
					t.Fatal("the end of the line is not its first byte")
				}
			}
			least = min(least, time.Since(begun))
		}
		return max(least, time.Microsecond)
	}
	if small, large := took(4<<10), took(4<<20); large > 100*small {
		t.Errorf("a thousand times the rest takes %d times the time", large/small)
	}
}

func TestLineEnd(t *testing.T) {
	for text, want := range map[string]int{
		"": -1, "x": -1, "\n": 0, "\r": 0, "x\r\n": 1, "x\n\r": 1,
		strings.Repeat("x", 511) + "\n": 511, strings.Repeat("x", 512) + "\r": 512, strings.Repeat("x", 2000): -1,
		strings.Repeat("x", 600) + "\r" + strings.Repeat("x", 600) + "\n": 600,
	} {
		if got := lineEnd([]byte(text)); got != want {
			t.Errorf("in %d bytes: %d, want %d", len(text), got, want)
		}
	}
}
