package breaker

import (
	"testing"
	"time"
)

// Ever new targets neither grow the memory without bound, nor have all of them
// looked at for each: room is made for many at a time.
func TestForgettingMakesRoomForMany(t *testing.T) {
	now := time.Now()
	b := New(Options{Policy: DefaultPolicy(), Now: time.Now})
	made, before := 0, 0
	for i := range maxKnown + maxKnown/4 {
		b.keep(Target{Organization: "acme", Host: "a.example", Port: i}, State{Phase: Open, Since: now, Until: now.Add(time.Hour)}, true, now)
		if len(b.known) <= before {
			made++
		}
		if before = len(b.known); before > maxKnown {
			t.Fatalf("%d targets, want %d at most", before, maxKnown)
		}
	}
	if made == 0 || made > 4 {
		t.Errorf("room was made %d times for %d new targets, want 1 to 4 times", made, maxKnown/4)
	}
}
