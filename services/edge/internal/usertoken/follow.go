package usertoken

import (
	"context"
	"sync"
	"time"
)

// Follow calls end with ErrInvalid when the token of a call expires or is revoked. The caller calls done when the call
// has ended.
func (v *Verifier) Follow(t *Token, end context.CancelCauseFunc) (done func()) {
	one := &call{t, end}
	v.calls.add(one)
	if !v.rules.Load().valid(t, time.Now()) { // it was revoked since it was verified
		end(ErrInvalid)
	}
	expiry := time.AfterFunc(time.Until(t.Expires), func() { end(ErrInvalid) })
	return func() {
		expiry.Stop()
		v.calls.remove(one)
	}
}

// calls holds the running calls. Revocations are rare, so each may scan all of them.
type calls struct {
	mu      sync.Mutex
	running map[*call]struct{}
}

type call struct {
	token *Token
	end   context.CancelCauseFunc
}

func (c *calls) add(one *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[one] = struct{}{}
}

func (c *calls) remove(one *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, one)
}

// review ends the calls whose tokens are not valid any more.
func (c *calls) review(r *rules, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.running {
		if !r.valid(one.token, now) {
			one.end(ErrInvalid)
		}
	}
}
