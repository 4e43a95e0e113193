package breaker

import (
	"testing"
	"time"
)

// A target that goes up and down: while it is down it meets what was under way when
// it went and single tries after each pause; once it is up for good, all gets through
// again after the longest pause at most.
func TestFlappingTarget(t *testing.T) {
	const (
		tick  = 100 * time.Millisecond
		burst = 10 // deliveries that want to begin each tick
		flaps = 30
	)
	p := DefaultPolicy()
	for _, period := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, 2 * time.Minute} {
		now, s := start, State{}
		// step gives how many attempts a tick brought.
		step := func(up bool) (attempts int) {
			event := Failed
			if up {
				event = Passed
			}
			s, attempts, _ = p.Admit(s, burst, 20*time.Second, now)
			admitted := s.Phase == HalfOpen
			for range attempts {
				s = p.After(s, Report{Event: event, Began: now, Admitted: admitted}, now, middle)
			}
			now = now.Add(tick)
			return attempts
		}
		most := burst + 1 + int(period/(p.Pause*4/5))
		for flap := range flaps {
			for range period / tick {
				step(true)
			}
			down := 0
			for range period / tick {
				down += step(false)
			}
			if down > most {
				t.Errorf("every %s, time %d: %d attempts while it was down, want %d at most", period, flap, down, most)
			}
		}
		recovered := now
		for s.Phase != Closed && now.Sub(recovered) <= p.longest()+time.Minute {
			step(true)
		}
		if took := now.Sub(recovered); s.Phase != Closed || took > p.longest()+10*tick {
			t.Errorf("every %s: %q after %s", period, s.Phase, took)
		}
	}
}
