//go:build e2e

package e2e_test

import (
	"sync"
	"testing"
	"time"
)

// loadGenerator runs callers, each of which makes one call after the other until stop, which the end of the test calls
// at the latest.
type loadGenerator struct {
	done    chan struct{} // closed by stop
	once    sync.Once
	callers sync.WaitGroup
}

func newLoadGenerator(t *testing.T) *loadGenerator {
	t.Helper()
	g := &loadGenerator{done: make(chan struct{})}
	t.Cleanup(g.stop)
	return g
}

// start starts n callers, each of which repeats call. The argument of call is the caller's number, from 0 to n-1.
func (g *loadGenerator) start(n int, call func(caller int)) {
	for caller := range n {
		g.callers.Go(func() {
			for !g.stopped() {
				call(caller)
			}
		})
	}
}

// stopped reports whether the callers are to make no further calls.
func (g *loadGenerator) stopped() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// pause waits between two calls of a caller, and returns early when the callers are stopped.
func (g *loadGenerator) pause(d time.Duration) {
	select {
	case <-g.done:
	case <-time.After(d):
	}
}

// stop ends the callers and returns when the last call has ended.
func (g *loadGenerator) stop() {
	g.once.Do(func() { close(g.done) })
	g.callers.Wait()
}
