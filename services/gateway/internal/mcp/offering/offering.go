// Package offering keeps for a short time what servers offer beside their tools: resources, templates of resources and
// prompts. They need no review, so nothing of them is stored. Each organization has its own: a server may offer another
// thing to each. Package upstream is the Lister; package toolcall asks for the lists.
package offering

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
)

const (
	// keepFor is how long a list is used, and how long a server that did not answer in time is not asked again.
	// pauseFor is how long a server is not asked again after another failure.
	keepFor, pauseFor = 15 * time.Second, 3 * time.Second
	// listTime bounds the wait for a list.
	listTime = 10 * time.Second
	// maxLists and maxBytes bound what is kept.
	maxLists, maxBytes = 4096, 64 << 20
)

// Lister asks a server; see upstream.Client.
type Lister interface {
	Offered(ctx context.Context, server *toolserver.Server, organization string, of upstream.Offer) ([]upstream.Item, error)
}

// Cache keeps lists. Safe for concurrent use.
type Cache struct {
	lister Lister

	mu    sync.Mutex
	kept  *simplelru.LRU[key, *list]
	bytes int
}

// key identifies a list. A server that was changed is another one.
type key struct {
	server       toolserver.Key
	version      int
	organization string
	of           upstream.Offer
}

// list is what was listed at a time, or why not.
type list struct {
	// turn is full while one caller asks the server.
	turn chan struct{}
	// The Cache's lock guards what follows.
	items  []upstream.Item
	err    error
	hung   bool // the server did not answer in time
	at     time.Time
	stale  bool
	size   int
	forgot bool
}

// New returns an empty Cache.
func New(lister Lister) *Cache {
	c := &Cache{lister: lister}
	c.kept, _ = simplelru.NewLRU(maxLists, func(_ key, l *list) { // Its size is right.
		c.bytes -= l.size
		l.forgot = true
	})
	return c
}

// Of returns what a server offers an organization of one kind. It is at most keepFor old. Callers don't change it.
func (c *Cache) Of(ctx context.Context, organization string, server *toolserver.Server, of upstream.Offer) ([]upstream.Item, error) {
	at := key{server.Key(), server.Version, organization, of}
	l := c.at(at)
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	if items, ok, err := c.fresh(l); ok {
		return items, err
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	if items, ok, err := c.fresh(l); ok { // Another caller has asked.
		return items, err
	}
	items, err := c.lister.Offered(ctx, server, organization, of)
	if err != nil && caller.Err() != nil {
		return nil, err // Perhaps this caller's impatience.
	}
	c.put(l, items, err, ctx.Err() != nil)
	return items, err
}

// at returns the list of a key.
func (c *Cache) at(at key) *list {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.kept.Get(at)
	if !ok {
		l = &list{turn: make(chan struct{}, 1)}
		c.kept.Add(at, l)
	}
	return l
}

// fresh returns a list, or the error of having asked for it, if that is not too old; ok reports whether it is.
func (c *Cache) fresh(l *list) (items []upstream.Item, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(l.at)
	switch {
	case l.at.IsZero():
		return nil, false, nil
	case l.hung:
		return nil, age < keepFor, l.err
	case l.err != nil:
		return nil, age < pauseFor, l.err
	}
	return l.items, !l.stale && age < keepFor, nil
}

// put stores what a server answered. hung reports that an err is because the server did not answer in time.
func (c *Cache) put(l *list, items []upstream.Item, err error, hung bool) {
	size := 0
	for i := range items {
		size += len(items[i].Key) + len(items[i].Text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.items, l.err, l.hung, l.at, l.stale = items, err, err != nil && hung, time.Now(), false
	if l.forgot {
		return
	}
	c.bytes += size - l.size
	l.size = size
	for c.bytes > maxBytes && c.kept.Len() > 1 {
		c.kept.RemoveOldest()
	}
}

// Changed makes the next caller ask a server again, which says that what it offers has changed.
func (c *Cache) Changed(server toolserver.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.kept.Keys() {
		if at.server != server {
			continue
		}
		if l, ok := c.kept.Peek(at); ok {
			l.stale = true
		}
	}
}
