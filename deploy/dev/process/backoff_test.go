package process

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	type step struct {
		lasted time.Duration // the run that ended
		pause  time.Duration
		again  bool
	}
	var pause time.Duration
	for i, want := range []step{
		{time.Hour, firstPause, false},
		{0, time.Second, true},
		{time.Second, 2 * time.Second, true},
		{0, 4 * time.Second, true},
		{steadyTime - 1, 8 * time.Second, true},
		{0, 16 * time.Second, true},
		{0, longestPause, true},
		{0, longestPause, true},
		{steadyTime, firstPause, false},
		{0, time.Second, true},
	} {
		got := step{lasted: want.lasted}
		got.pause, got.again = Backoff(pause, want.lasted)
		if got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
		pause = got.pause
	}
}

func TestLasted(t *testing.T) {
	before := time.Now()
	p := start(t, shell(t, "exit 0"))
	wait(t, p)
	if lasted := p.Lasted(); lasted <= 0 || lasted > time.Since(before) {
		t.Errorf("the run lasted %s of %s", lasted, time.Since(before))
	}
}
