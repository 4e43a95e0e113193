package identity

import (
	"context"
	"sync"
	"time"
)

const (
	// renewers bounds how many of the fleet's identities are renewed concurrently, and separately how many of the
	// organizations'. One organization may use renewerShare percent of the latter.
	renewers, renewerShare = 8, 25
	// maxPause is the longest that Run waits before it looks again; minPause the shortest.
	maxPause = time.Minute
	minPause = 10 * time.Millisecond
)

// Run renews the credentials of identities before they end, until ctx ends. It returns nil.
func (m *Manager) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-m.wake:
		}
		timer.Reset(m.renew(ctx, &group, time.Now()))
	}
}

// renew begins the exchanges that are due and returns how long to wait for the next one.
func (m *Manager) renew(ctx context.Context, group *sync.WaitGroup, now time.Time) time.Duration {
	pause := maxPause
	for _, i := range m.all() {
		at, ok := i.due(now)
		if !ok {
			i.rest(now)
			continue
		}
		if wait := at.Sub(now); wait > 0 {
			pause = min(pause, max(wait, minPause))
			continue
		}
		m.begin(ctx, group, i)
	}
	return pause
}

// begin exchanges an identity in the background. If there is no room, the next one to end makes Run look again.
func (m *Manager) begin(ctx context.Context, group *sync.WaitGroup, i *Identity) {
	turns := m.turns
	if i.owner == ownerFleet {
		turns = m.fleetTurns
	}
	if !turns.Acquire(i.organization, 1) {
		return
	}
	i.running.Store(true)
	group.Go(func() {
		defer m.look()
		defer turns.Release(i.organization, 1)
		defer i.running.Store(false)
		_, _, _ = i.flight.Do("", func() (any, error) { return nil, i.exchange(ctx) })
	})
}
