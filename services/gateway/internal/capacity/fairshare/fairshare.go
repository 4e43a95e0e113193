// Package fairshare divides what organizations have in common, so that one of
// them can't use it up. Package health bounds calls to a provider with it, and
// package memory the bytes of answers.
package fairshare

import (
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// DefaultPercent is the largest part of a pool that one organization may hold: the
// rest is there for others, and an installation with a single organization still
// has most of it.
const DefaultPercent = 75

// shards divide the locks; a power of two.
const shards = 16

// Pool is an amount of which organizations hold parts. What it keeps of them is
// bounded by what they hold: one that holds nothing is forgotten. Safe for
// concurrent use.
type Pool struct {
	limit, share int64
	held         atomic.Int64
	refused      atomic.Uint64
	shards       [shards]shard
}

type shard struct {
	mu sync.Mutex
	by map[string]int64
}

// New returns a pool of limit units, of which one organization may hold percent
// (1 to 100), rounded up.
func New(limit int64, percent int) *Pool {
	p := &Pool{limit: limit, share: limit/100*int64(percent) + (limit%100*int64(percent)+99)/100}
	for i := range p.shards {
		p.shards[i].by = make(map[string]int64)
	}
	return p
}

// Take takes n units for an organization. It reports false, and takes nothing,
// where the pool or the organization's part of it has fewer left.
func (p *Pool) Take(organization string, n int64) bool {
	if p.held.Add(n) > p.limit {
		p.held.Add(-n)
		p.refused.Add(1)
		return false
	}
	s := p.shard(organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[organization]+n > p.share {
		p.held.Add(-n)
		p.refused.Add(1)
		return false
	}
	s.by[organization] += n
	return true
}

// Give gives n units back that the organization took.
func (p *Pool) Give(organization string, n int64) {
	s := p.shard(organization)
	s.mu.Lock()
	if s.by[organization] -= n; s.by[organization] <= 0 {
		delete(s.by, organization)
	}
	s.mu.Unlock()
	p.held.Add(-n)
}

// Full reports whether an organization can take nothing more.
func (p *Pool) Full(organization string) bool {
	return p.held.Load() >= p.limit || p.Of(organization) >= p.share
}

// Of is what an organization holds.
func (p *Pool) Of(organization string) int64 {
	s := p.shard(organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[organization]
}

// Part is the most that one organization may hold.
func (p *Pool) Part() int64 { return p.share }

// Held is what all organizations hold together.
func (p *Pool) Held() int64 { return p.held.Load() }

// Limit is the size of the pool.
func (p *Pool) Limit() int64 { return p.limit }

// Refused counts the calls of Take that got nothing.
func (p *Pool) Refused() uint64 { return p.refused.Load() }

func (p *Pool) shard(organization string) *shard {
	return &p.shards[xxhash.Sum64String(organization)%shards]
}
