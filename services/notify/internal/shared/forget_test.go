package shared

import (
	"log/slog"
	"strconv"
	"testing"
	"time"
)

// Ever new keys neither grow the copies without bound, nor have all copies looked
// at for each: room is made for many at a time.
func TestForgettingMakesRoomForMany(t *testing.T) {
	s := New(Options{Life: time.Hour, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	made, before := 0, 0
	for i := range maxKnown + maxKnown/4 {
		s.keep(strconv.Itoa(i), "x")
		if len(s.known) <= before {
			made++
		}
		if before = len(s.known); before > maxKnown {
			t.Fatalf("%d copies, want %d at most", before, maxKnown)
		}
	}
	if made == 0 || made > 4 {
		t.Errorf("room was made %d times for %d new keys, want 1 to 4 times", made, maxKnown/4)
	}
}
