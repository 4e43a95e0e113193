// Package replica maintains the list of live replicas, so that the leases of a killed one are taken over within
// seconds, before they expire. Each replica sends a heartbeat once a second. One that has been silent for three
// seconds is removed, and its leases are freed. A replica that was only slow finds that it was removed and joins
// again under a new number; the fence of each lease rejects the results that it still had in flight.
package replica

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Intervals of the heartbeats.
const (
	// Period is the time between two heartbeats.
	Period = time.Second
	// Silence is how long a replica may go without a heartbeat.
	Silence = 3 * time.Second
	// steadyHeartbeats is how many heartbeats in a row a replica must have succeeded with before it removes others:
	// after an outage of the database all of them look silent.
	steadyHeartbeats = 3
)

// Store persists the list.
type Store interface {
	// Join adds a replica and returns its number, which is never used again.
	Join(ctx context.Context, name string) (int64, error)
	// Heartbeat records that the replica is alive. It reports whether the replica was still listed.
	Heartbeat(ctx context.Context, id int64) (listed bool, err error)
	// RemoveSilent removes all silent replicas except self, and frees the leases of every replica that is not listed.
	// It returns how many leases it freed.
	RemoveSilent(ctx context.Context, self int64, silence time.Duration) (freed int, err error)
	// Leave removes a replica and frees its leases.
	Leave(ctx context.Context, id int64) error
}

// Member is this process's entry in the list.
type Member struct {
	store Store
	name  string
	log   *slog.Logger
	freed func()

	mu   sync.Mutex
	id   int64
	left bool
}

// Join adds this process to the list. freed is called whenever leases of other replicas were freed, which means that
// work is waiting.
func Join(ctx context.Context, store Store, name string, log *slog.Logger, freed func()) (*Member, error) {
	id, err := store.Join(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("join replicas: %w", err)
	}
	return &Member{store: store, name: name, log: log, freed: freed, id: id}, nil
}

// ID returns the number that new leases carry.
func (m *Member) ID() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// Run sends heartbeats until ctx ends. It continues while the database is unavailable.
func (m *Member) Run(ctx context.Context) error {
	ticker := time.NewTicker(Period)
	defer ticker.Stop()
	for steady := 0; ; {
		if err := m.heartbeat(ctx); err != nil {
			steady = 0
			m.log.WarnContext(ctx, "heartbeat failed", slog.String("error", err.Error()))
		} else if steady++; steady >= steadyHeartbeats {
			m.removeSilent(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (m *Member) heartbeat(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, Period)
	defer cancel()
	listed, err := m.store.Heartbeat(ctx, m.id)
	if err != nil || listed {
		return err
	}
	id, err := m.store.Join(ctx, m.name)
	if err != nil {
		return err
	}
	m.log.WarnContext(ctx, "the other replicas had removed this one; joined again",
		slog.Int64("replica", m.id), slog.Int64("as", id))
	m.id = id
	return nil
}

// removeSilent may take no longer than a heartbeat period: the next heartbeat waits for it, and a replica that waits
// too long looks silent itself.
func (m *Member) removeSilent(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Period)
	defer cancel()
	freed, err := m.store.RemoveSilent(ctx, m.ID(), Silence)
	switch {
	case err != nil:
		m.log.WarnContext(ctx, "taking over from silent replicas failed", slog.String("error", err.Error()))
	case freed > 0:
		m.log.InfoContext(ctx, "took over the leases of silent replicas", slog.Int("leases", freed))
		m.freed()
	}
}

// Leave ends the membership: all leases of this process are freed.
func (m *Member) Leave(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	err := m.store.Leave(ctx, m.id)
	if err != nil { // A pooled connection may be stale after a restart of Postgres; the next one is new.
		err = m.store.Leave(ctx, m.id)
	}
	if err != nil {
		return fmt.Errorf("leave replicas: %w", err)
	}
	return nil
}
