package apikey

import (
	"context"
	"sync"
	"time"
)

// Follow gives a call a context that ends with its key: within a second of the
// change that revokes it, the cause is ErrInvalid. A key that comes to its
// planned end lets calls that it has opened finish. The caller calls done when
// the call is over.
func (v *Verifier) Follow(ctx context.Context, key *Key) (following context.Context, done func()) {
	following, end := context.WithCancelCause(ctx)
	one := &call{key.Digest, end}
	v.calls.add(one)
	if !v.cache.holds(key) { // it changed since it was verified
		v.calls.suspect(key.Digest)
	}
	return following, func() {
		v.calls.remove(one)
		end(nil)
	}
}

// review asks anew for the keys of running calls that have changed, and ends the
// calls of those that are no longer good. What can't be told now is asked again.
func (v *Verifier) review(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	for _, digest := range v.calls.suspects() {
		if ctx.Err() != nil { // one lookup may take longer, but not each
			v.calls.suspect(digest)
			continue
		}
		key, err := v.cache.get(ctx, digest)
		switch {
		case err != nil:
			v.calls.suspect(digest)
		case key == nil || !key.Live(time.Now()):
			v.calls.end(digest)
		}
	}
}

// calls are those under way. Ending one is rare, and may look at all of them.
type calls struct {
	mu      sync.Mutex
	running map[*call]struct{}
	changed map[Digest]struct{} // keys that may have ended since the last review
}

type call struct {
	digest Digest
	end    context.CancelCauseFunc
}

func newCalls() *calls {
	return &calls{running: make(map[*call]struct{}), changed: make(map[Digest]struct{})}
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

// suspect has a key reviewed, if it has calls under way by then.
func (c *calls) suspect(digest Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed[digest] = struct{}{}
}

// suspectAll is suspect for every key.
func (c *calls) suspectAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.running {
		c.changed[one.digest] = struct{}{}
	}
}

// suspects takes the keys to review.
func (c *calls) suspects() []Digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.changed) == 0 {
		return nil
	}
	var taken []Digest
	for one := range c.running {
		if _, ok := c.changed[one.digest]; ok {
			taken = append(taken, one.digest)
			delete(c.changed, one.digest)
		}
	}
	clear(c.changed)
	return taken
}

func (c *calls) end(digest Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.running {
		if one.digest == digest {
			one.end(ErrInvalid)
		}
	}
}
