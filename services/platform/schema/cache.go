package schema

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxKept is how many compiled schemas a Cache holds, maxWeight how many units of weight.
	maxKept, maxWeight = 10_000, 64 << 10
)

// Cache holds the compiled schemas that were used last, by the hashes of their texts.
type Cache struct {
	mu     sync.Mutex
	kept   *simplelru.LRU[[32]byte, *Schema]
	weight int
}

// NewCache returns an empty Cache.
func NewCache() *Cache {
	c := &Cache{}
	c.kept, _ = simplelru.NewLRU(maxKept, func(_ [32]byte, s *Schema) { c.weight -= s.weight }) // Its size is right.
	return c
}

// Get returns a kept schema; nil for none.
func (c *Cache) Get(hash [32]byte) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, _ := c.kept.Get(hash)
	return s
}

// Add keeps a schema, and drops those that were not used for longest while all weigh too much.
func (c *Cache) Add(hash [32]byte, s *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(hash)
	c.kept.Add(hash, s)
	c.weight += s.weight
	for c.weight > maxWeight && c.kept.Len() > 1 {
		c.kept.RemoveOldest()
	}
}
