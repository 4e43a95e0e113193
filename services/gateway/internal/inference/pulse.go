package inference

import (
	"context"
	"time"
)

// pulse is the clock of a stream. Until the first sign of life it runs for the
// first token; from then on each event winds it for the wait until the next. A
// sign of life is content or shown thinking: a vendor that only opens frames has
// not begun.
type pulse struct {
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
	alive  bool
}

func newPulse(cancel context.CancelCauseFunc, first, idle time.Duration) *pulse {
	return &pulse{cancel: cancel, idle: idle, timer: time.AfterFunc(first, func() { cancel(errFirstToken) })}
}

// beat notes a sign of life; false means that the first one came too late.
func (p *pulse) beat() bool {
	if p.alive {
		p.timer.Reset(p.idle)
		return true
	}
	if !p.timer.Stop() {
		return false
	}
	p.alive = true
	p.timer = time.AfterFunc(p.idle, func() { p.cancel(errIdle) })
	return true
}

func (p *pulse) stop() { p.timer.Stop() }
