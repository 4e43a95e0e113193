package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// DeprecationStore stores operators' deprecations.
type DeprecationStore interface {
	// Deprecations returns all deprecations and the version of the topic that they include.
	Deprecations(ctx context.Context) ([]Deprecation, int64, error)
	// Deprecate stores a deprecation with its audit entry. An existing one keeps its time and, if the new one has none,
	// its cutoff.
	Deprecate(ctx context.Context, d Deprecation) error
}

// Store holds the registry in force on this replica. It is safe for concurrent use.
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

// Put puts a policy's catalog in force.
func (s *Store) Put(c *Catalog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalog = c
	s.write()
}

// write rebuilds the registry. The caller holds the lock.
func (s *Store) write() {
	if s.catalog != nil {
		s.registry.Store(NewRegistry(s.catalog, s.set))
	}
}

// Load puts the stored deprecations in force; see control.Load.
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

// Registry returns the registry in force.
func (s *Store) Registry() *Registry { return s.registry.Load() }

// Deprecate checks and stores a deprecation and returns the model's row after it.
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
