package inference

import (
	"context"
	"time"
)

// streamTimer ends a stream that stays silent too long. Until the first sign of life it
// waits for the first token; from then on each event restarts it for the next one. A sign
// of life is content or shown thinking: a vendor that only opens frames has not begun.
type streamTimer struct {
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
	alive  bool
}

func newStreamTimer(cancel context.CancelCauseFunc, first, idle time.Duration) *streamTimer {
	return &streamTimer{cancel: cancel, idle: idle, timer: time.AfterFunc(first, func() { cancel(errFirstToken) })}
}

// restart records a sign of life. It reports false if the first one came too late.
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
