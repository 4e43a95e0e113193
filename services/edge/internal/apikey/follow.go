package apikey

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/services/edge/internal/poll"
)

// Follow calls end with ErrInvalid when the key of a call is revoked, within a second of the change. A key that reaches
// its planned expiry lets its running calls finish. The caller calls done when the call has ended.
func (v *Verifier) Follow(key *Key, end context.CancelCauseFunc) (done func()) {
	one := &call{key.Digest, end}
	v.calls.add(one)
	if !v.cache.holds(key) { // it changed since it was verified
		v.calls.suspect(key.Digest)
	}
	return func() { v.calls.remove(one) }
}

// review looks up the keys of running calls that have changed, and ends the calls of those that are no longer valid.
// If a lookup fails, it is repeated in the next review.
func (v *Verifier) review(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, poll.Most)
	defer cancel()
	for _, digest := range v.calls.suspects() {
		if ctx.Err() != nil { // One lookup may exceed the time, but not each of them.
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

// calls holds the running calls. Ending one is rare, so it may scan all of them.
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

// suspect marks a key for the next review.
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

// suspects removes and returns the keys to review.
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
