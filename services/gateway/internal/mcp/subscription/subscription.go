// Package subscription keeps of which resources the clients of older sessions want to be notified. All replicas share
// them, so that the stream of a session follows what was subscribed to on any of them, and learns of it at once. They are
// kept for a while without a stream, as clients begin another one where one has ended. Package api/mcp subscribes and
// follows.
package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/platform/apierr"
)

const (
	// MaxURIs is how many resources a session may subscribe to.
	MaxURIs = 50
	// Life is how long subscriptions are kept without a stream.
	Life = time.Hour
	// checkEvery is how often a stream looks for changes that it was not notified of, and restEach the least time between
	// two looks.
	checkEvery, restEach = time.Minute, 500 * time.Millisecond
	// storeTime bounds each call of the store.
	storeTime = 500 * time.Millisecond
)

// Session names a session.
type Session struct{ Organization, ID string }

// Store stores subscriptions; all replicas share it.
type Store interface {
	// Add adds a resource to those of a session, and keeps them for a time. It returns ErrFull where there are too many.
	Add(ctx context.Context, of Session, uri string, life time.Duration) error
	Remove(ctx context.Context, of Session, uri string) error
	// List returns the resources of a session, and keeps them for a time from now on.
	List(ctx context.Context, of Session, life time.Duration) ([]string, error)
	// Watch calls f for each session whose resources have changed, until ctx ends. Some changes may be missed.
	Watch(ctx context.Context, f func(of Session)) error
}

// Errors of subscriptions.
var (
	// ErrFull is the error of a subscription that is not kept.
	ErrFull = apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited,
		"the session subscribes to 50 resources, or too many sessions of the organization subscribe to any")
	errAway = apierr.Unavailable("the subscriptions of the session can't be read or stored at the moment", nil)
)

// Manager keeps subscriptions, and wakes the streams of this replica. Safe for concurrent use.
type Manager struct {
	store Store

	mu      sync.Mutex
	streams map[Session]map[chan struct{}]bool
}

// New returns a Manager of a store.
func New(store Store) *Manager {
	return &Manager{store: store, streams: make(map[Session]map[chan struct{}]bool)}
}

func nameOf(s *session.Session) Session { return Session{s.Owner.Organization, s.ID} }

// Run wakes the streams of sessions whose subscriptions change on any replica, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.store.Watch(ctx, m.wake); err != nil {
		return fmt.Errorf("watch subscriptions: %w", err)
	}
	return nil
}

// Add subscribes a session to a resource. The error is ErrFull, or says that the store is away.
func (m *Manager) Add(ctx context.Context, s *session.Session, uri string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	err := m.store.Add(ctx, nameOf(s), uri, Life)
	if err != nil && !errors.Is(err, ErrFull) {
		return errAway.Wrap(err)
	}
	m.wake(nameOf(s))
	return err
}

// Remove ends the subscription of a session to a resource, if there is one. The error says that the store is away.
func (m *Manager) Remove(ctx context.Context, s *session.Session, uri string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := m.store.Remove(ctx, nameOf(s), uri); err != nil {
		return errAway.Wrap(err)
	}
	m.wake(nameOf(s))
	return nil
}

// Follow calls changed with the resources of a session in order, if there are any, and whenever they have changed, until
// ctx ends. It calls again a minute later where changed reports false.
func (m *Manager) Follow(ctx context.Context, s *session.Session, changed func(uris []string) (whole bool)) {
	woken := make(chan struct{}, 1)
	of := nameOf(s)
	m.enter(of, woken)
	defer m.leave(of, woken)
	var known []string
	for whole, due := true, time.Now(); ; {
		uris, err := m.list(ctx, of)
		if err == nil && (!slices.Equal(uris, known) || !whole && !time.Now().Before(due)) {
			known, due = uris, time.Now().Add(checkEvery)
			whole = changed(uris)
		}
		if !wait(ctx, restEach, nil) || !wait(ctx, checkEvery, woken) {
			return
		}
	}
}

func (m *Manager) list(ctx context.Context, of Session) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	uris, err := m.store.List(ctx, of, Life)
	slices.Sort(uris)
	return uris, err
}

// wait waits for a time, or until it is woken. It reports false when ctx ends.
func wait(ctx context.Context, span time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-woken:
	case <-timer.C:
	}
	return true
}

func (m *Manager) enter(of Session, woken chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams[of] == nil {
		m.streams[of] = make(map[chan struct{}]bool)
	}
	m.streams[of][woken] = true
}

func (m *Manager) leave(of Session, woken chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if delete(m.streams[of], woken); len(m.streams[of]) == 0 {
		delete(m.streams, of)
	}
}

// wake wakes the streams of a session. It doesn't wait.
func (m *Manager) wake(of Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for woken := range m.streams[of] {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}
