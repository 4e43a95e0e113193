//go:build e2e

package e2e_test

import (
	"sync"
	"testing"
	"time"
)

// crowd is callers who go on until they are told to stop, at the end of the test at
// the latest.
type crowd struct {
	stop    chan struct{}
	once    sync.Once
	callers sync.WaitGroup
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{stop: make(chan struct{})}
	t.Cleanup(c.halt)
	return c
}

// always has n callers make one call after the other; caller is 0 to n-1.
func (c *crowd) always(n int, call func(caller int)) {
	for caller := range n {
		c.callers.Go(func() {
			for !c.over() {
				call(caller)
			}
		})
	}
}

func (c *crowd) over() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// rest is a caller's pause between two calls.
func (c *crowd) rest(d time.Duration) {
	select {
	case <-c.stop:
	case <-time.After(d):
	}
}

// halt returns when the last call has ended.
func (c *crowd) halt() {
	c.once.Do(func() { close(c.stop) })
	c.callers.Wait()
}
