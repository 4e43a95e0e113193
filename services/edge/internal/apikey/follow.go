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
	remove := v.calls.add(key.Digest, end)
	if !v.cache.holds(key) { // it changed since it was verified
		v.calls.suspect(key.Digest)
	}
	return following, func() {
		remove()
		end(nil)
	}
}

// review asks anew for the keys of running calls that have changed, and ends the
// calls of those that are no longer good. What can't be told now is asked again.
func (v *Verifier) review(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	for _, digest := range v.calls.suspects() {
		key, err := v.cache.get(ctx, digest)
		switch {
		case err != nil:
			v.calls.suspect(digest)
		case key == nil || !key.Live(time.Now()):
			v.calls.end(digest)
		}
	}
}

// calls are those under way, by the digest of their key.
type calls struct {
	mu      sync.Mutex
	running map[Digest]map[*context.CancelCauseFunc]struct{}
	changed map[Digest]struct{} // keys of running calls that may have ended
}

func newCalls() *calls {
	return &calls{running: make(map[Digest]map[*context.CancelCauseFunc]struct{}), changed: make(map[Digest]struct{})}
}

func (c *calls) add(digest Digest, end context.CancelCauseFunc) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[digest] == nil {
		c.running[digest] = make(map[*context.CancelCauseFunc]struct{})
	}
	c.running[digest][&end] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running[digest], &end)
		if len(c.running[digest]) == 0 {
			delete(c.running, digest)
			delete(c.changed, digest)
		}
	}
}

// suspect has the key of running calls reviewed; one without calls is let be.
func (c *calls) suspect(digest Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.running[digest]; ok {
		c.changed[digest] = struct{}{}
	}
}

// suspectAll is suspect for every key.
func (c *calls) suspectAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for digest := range c.running {
		c.changed[digest] = struct{}{}
	}
}

// suspects takes the keys to review.
func (c *calls) suspects() []Digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	var taken []Digest
	for digest := range c.changed {
		taken = append(taken, digest)
	}
	clear(c.changed)
	return taken
}

func (c *calls) end(digest Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for end := range c.running[digest] {
		(*end)(ErrInvalid)
	}
}
