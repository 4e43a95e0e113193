// Package fairshare divides a bounded amount between organizations, so that none of them can use it up. A Pool refuses
// what exceeds an organization's share; Places lets callers wait in line.
package fairshare

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// DefaultPercent is the largest share of a pool, in percent, that one organization may hold. The rest stays free for
// others, and an installation with a single organization still has most of the pool.
const DefaultPercent = 75

// shards is the number of locks that the organizations are divided between; a power of two.
const shards = 16

// Pool is a bounded amount that organizations hold units of. It keeps an entry only for an organization that holds
// units, so its own size is bounded by what is held. Safe for concurrent use.
type Pool struct {
	limit, share int64
	seed         maphash.Seed
	held         atomic.Int64
	refused      atomic.Uint64
	shards       [shards]shard
}

type shard struct {
	mu   sync.Mutex
	held map[string]int64
}

// New returns a pool of limit units, of which one organization may hold percent (1 to 100) at most, rounded up to whole
// units.
func New(limit int64, percent int) *Pool {
	p := &Pool{limit: limit, share: shareOf(limit, percent), seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].held = make(map[string]int64)
	}
	return p
}

// shareOf returns percent of limit, rounded up.
func shareOf(limit int64, percent int) int64 {
	return limit/100*int64(percent) + (limit%100*int64(percent)+99)/100
}

// Acquire takes n units for an organization and reports whether it did: it takes nothing if the pool, or the
// organization's share of it, has fewer than n units left.
func (p *Pool) Acquire(organization string, n int64) bool {
	if p.held.Add(n) > p.limit {
		p.held.Add(-n)
		p.refused.Add(1)
		return false
	}
	s := p.shard(organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[organization]+n > p.share {
		p.held.Add(-n)
		p.refused.Add(1)
		return false
	}
	s.held[organization] += n
	return true
}

// Release gives back n units that the organization acquired.
func (p *Pool) Release(organization string, n int64) {
	s := p.shard(organization)
	s.mu.Lock()
	if s.held[organization] -= n; s.held[organization] <= 0 {
		delete(s.held, organization)
	}
	s.mu.Unlock()
	p.held.Add(-n)
}

// Full reports whether an organization can acquire nothing more.
func (p *Pool) Full(organization string) bool {
	return p.held.Load() >= p.limit || p.HeldBy(organization) >= p.share
}

// HeldBy returns the number of units that an organization holds.
func (p *Pool) HeldBy(organization string) int64 {
	s := p.shard(organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[organization]
}

// Share returns the largest number of units that one organization may hold.
func (p *Pool) Share() int64 { return p.share }

// Held returns the number of units that all organizations hold together.
func (p *Pool) Held() int64 { return p.held.Load() }

// Limit returns the size of the pool in units.
func (p *Pool) Limit() int64 { return p.limit }

// Refused returns the number of calls of Acquire that returned false.
func (p *Pool) Refused() uint64 { return p.refused.Load() }

func (p *Pool) shard(organization string) *shard {
	return &p.shards[maphash.String(p.seed, organization)%shards]
}
