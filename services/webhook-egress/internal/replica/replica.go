// Package replica keeps the list of processes that are alive, so that what a
// killed one had leased is taken over within seconds and not when its leases
// end. Each replica beats once a second; who has been silent for three is
// struck off, and its leases are free. A replica that was only slow finds
// itself struck off and joins again under a new number; the fence of each lease
// keeps what it still had in hand from counting.
package replica

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Times of the list.
const (
	// Period is between two beats.
	Period = time.Second
	// Silence is how long a replica may go without one.
	Silence = 3 * time.Second
	// steadyBeats is how many of its own beats a replica must have got through
	// in a row before it judges others: after an outage of the database all
	// look silent.
	steadyBeats = 3
)

// Store keeps the list.
type Store interface {
	// Join adds a replica and gives its number, which is never used again.
	Join(ctx context.Context, name string) (int64, error)
	// Beat reports whether the replica was still on the list.
	Beat(ctx context.Context, id int64) (listed bool, err error)
	// Bury strikes off all silent replicas but self and frees what is leased to
	// any that is not on the list; it gives the number of leases freed.
	Bury(ctx context.Context, self int64, silence time.Duration) (freed int, err error)
	// Leave strikes off one and frees its leases.
	Leave(ctx context.Context, id int64) error
}

// Member is this process on the list.
type Member struct {
	store Store
	name  string
	log   *slog.Logger
	freed func()

	mu   sync.Mutex
	id   int64
	left bool
}

// Join puts this process on the list. freed is called when leases of others
// were freed, that is, when there is work.
func Join(ctx context.Context, store Store, name string, log *slog.Logger, freed func()) (*Member, error) {
	id, err := store.Join(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("join replicas: %w", err)
	}
	return &Member{store: store, name: name, log: log, freed: freed, id: id}, nil
}

// ID is the number that leases carry now.
func (m *Member) ID() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// Run beats until ctx ends. It keeps on while the database is away.
func (m *Member) Run(ctx context.Context) error {
	ticker := time.NewTicker(Period)
	defer ticker.Stop()
	for steady := 0; ; {
		if err := m.beat(ctx); err != nil {
			steady = 0
			m.log.WarnContext(ctx, "heartbeat failed", slog.String("error", err.Error()))
		} else if steady++; steady >= steadyBeats {
			m.bury(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (m *Member) beat(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, Period)
	defer cancel()
	listed, err := m.store.Beat(ctx, m.id)
	if err != nil || listed {
		return err
	}
	id, err := m.store.Join(ctx, m.name)
	if err != nil {
		return err
	}
	m.log.WarnContext(ctx, "was given up by the other replicas; joined again",
		slog.Int64("replica", m.id), slog.Int64("as", id))
	m.id = id
	return nil
}

// bury may take no longer than a beat: the next one waits for it, and a replica
// that waits too long is silent itself.
func (m *Member) bury(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Period)
	defer cancel()
	freed, err := m.store.Bury(ctx, m.ID(), Silence)
	switch {
	case err != nil:
		m.log.WarnContext(ctx, "take over of silent replicas failed", slog.String("error", err.Error()))
	case freed > 0:
		m.log.InfoContext(ctx, "took over the leases of silent replicas", slog.Int("leases", freed))
		m.freed()
	}
}

// Leave ends the membership: all that is leased to this process is free.
func (m *Member) Leave(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	err := m.store.Leave(ctx, m.id)
	if err != nil { // A pooled connection may have died with an earlier Postgres; the next one is new.
		err = m.store.Leave(ctx, m.id)
	}
	if err != nil {
		return fmt.Errorf("leave replicas: %w", err)
	}
	return nil
}
