package inference

import (
	"context"
	"time"
)

// streamTimer ends a stream that stays silent too long. It waits for the first output, then restarts with each event
// for the next one. Output is content or shown thinking; frames without either do not count as the beginning.
type streamTimer struct {
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
	alive  bool
}

func newStreamTimer(cancel context.CancelCauseFunc, first, idle time.Duration) *streamTimer {
	return &streamTimer{cancel: cancel, idle: idle, timer: time.AfterFunc(first, func() { cancel(errFirstToken) })}
}

// restart records an event, and reports whether it arrived in time.
func (t *streamTimer) restart() bool {
	if t.alive {
		t.timer.Reset(t.idle)
		return true
	}
	if !t.timer.Stop() {
		return false
	}
	t.alive = true
	t.timer = time.AfterFunc(t.idle, func() { t.cancel(errIdle) })
	return true
}

func (t *streamTimer) stop() { t.timer.Stop() }
