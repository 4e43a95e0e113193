package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/routing"
)

// Store keeps what operators set.
type Store interface {
	// Deprecations are all, and the version of the topic that they are level with.
	Deprecations(ctx context.Context) ([]Deprecation, int64, error)
	// Deprecate stores one, with its audit. One that is there already keeps its time
	// and, where the new one has none, its cutoff.
	Deprecate(ctx context.Context, d Deprecation) error
}

// Book is the registry in force on this replica. Safe for concurrent use.
type Book struct {
	store Store

	mu       sync.Mutex // of changes
	catalog  *Catalog
	set      []Deprecation
	registry atomic.Pointer[Registry]
}

// NewBook returns a book without models.
func NewBook(store Store) *Book {
	b := &Book{store: store}
	b.registry.Store(&Registry{})
	return b
}

// Put takes a policy's catalog into force.
func (b *Book) Put(c *Catalog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.catalog = c
	b.write()
}

// write makes the registry anew. The caller holds the lock.
func (b *Book) write() {
	if b.catalog != nil {
		b.registry.Store(NewRegistry(b.catalog, b.set))
	}
}

// Load takes what operators set into force; see control.Load.
func (b *Book) Load(ctx context.Context, since int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set, level, err := b.store.Deprecations(ctx)
	if err != nil {
		return since, err
	}
	b.set = set
	b.write()
	return max(level, since), nil
}

// Registry is the one in force.
func (b *Book) Registry() *Registry { return b.registry.Load() }

// Deprecate stores a wish and gives the model's row after it.
func (b *Book) Deprecate(ctx context.Context, w Wish) (Row, error) {
	d, err := b.Registry().Deprecate(w)
	if err != nil {
		return Row{}, err
	}
	if err := b.store.Deprecate(ctx, d); err != nil {
		return Row{}, err
	}
	if _, err := b.Load(ctx, 0); err != nil {
		return Row{}, err
	}
	row, _ := b.Registry().find(d.Target)
	return row, nil
}

// Life implements routing.Lives.
func (b *Book) Life(t routing.Target) *routing.Life { return b.registry.Load().lives[t] }

// Gone implements routing.Lives.
func (b *Book) Gone(provider, model string, now time.Time) (routing.Target, *routing.Life) {
	return b.registry.Load().Gone(provider, model, now)
}
