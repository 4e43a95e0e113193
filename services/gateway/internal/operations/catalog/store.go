package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// DeprecationStore keeps what operators set.
type DeprecationStore interface {
	// Deprecations are all, and the version of the topic that they are level with.
	Deprecations(ctx context.Context) ([]Deprecation, int64, error)
	// Deprecate stores one, with its audit. One that is there already keeps its time
	// and, where the new one has none, its cutoff.
	Deprecate(ctx context.Context, d Deprecation) error
}

// Store is the registry in force on this replica. Safe for concurrent use.
type Store struct {
	store DeprecationStore

	mu       sync.Mutex // of changes
	catalog  *Catalog
	set      []Deprecation
	registry atomic.Pointer[Registry]
}

// NewStore returns a Store without models.
func NewStore(store DeprecationStore) *Store {
	s := &Store{store: store}
	s.registry.Store(&Registry{})
	return s
}

// Put takes a policy's catalog into force.
func (s *Store) Put(c *Catalog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalog = c
	s.write()
}

// write makes the registry anew. The caller holds the lock.
func (s *Store) write() {
	if s.catalog != nil {
		s.registry.Store(NewRegistry(s.catalog, s.set))
	}
}

// Load takes what operators set into force; see control.Load.
func (s *Store) Load(ctx context.Context, since int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set, level, err := s.store.Deprecations(ctx)
	if err != nil {
		return since, err
	}
	s.set = set
	s.write()
	return max(level, since), nil
}

// Registry is the one in force.
func (s *Store) Registry() *Registry { return s.registry.Load() }

// Deprecate stores a request and gives the model's row after it.
func (s *Store) Deprecate(ctx context.Context, w DeprecationRequest) (Row, error) {
	d, err := s.Registry().Deprecate(w)
	if err != nil {
		return Row{}, err
	}
	if err := s.store.Deprecate(ctx, d); err != nil {
		return Row{}, err
	}
	if _, err := s.Load(ctx, 0); err != nil {
		return Row{}, err
	}
	row, _ := s.Registry().find(d.Target)
	return row, nil
}

// Lifecycle implements routing.Lifecycles.
func (s *Store) Lifecycle(t provider.Target) *routing.Lifecycle {
	return s.registry.Load().lifecycles[t]
}

// FindRetired implements routing.Lifecycles.
func (s *Store) FindRetired(provider, model string, now time.Time) (provider.Target, *routing.Lifecycle) {
	return s.registry.Load().FindRetired(provider, model, now)
}
