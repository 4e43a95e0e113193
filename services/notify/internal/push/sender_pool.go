package push

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/fairshare"
)

// Bounds of the key pairs that broadcasts share.
const (
	maxSenders = 64
	senderLife = 10 * time.Minute
)

// senders caches the sender of each current broadcast.
type senders struct {
	mu  sync.Mutex
	all map[uuid.UUID]agedSender
}

type agedSender struct {
	sender *webpush.Sender
	made   time.Time
}

func newSenders() *senders { return &senders{all: map[uuid.UUID]agedSender{}} }

// of returns the sender of a broadcast, a new one when the cached one is too old.
func (s *senders) of(send uuid.UUID, now time.Time) (*webpush.Sender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.all[send]; ok && now.Sub(known.made) < senderLife {
		return known.sender, nil
	}
	sender, err := webpush.NewSender()
	if err != nil {
		return nil, err
	}
	if len(s.all) >= maxSenders {
		s.drop(now)
	}
	s.all[send] = agedSender{sender, now}
	return sender, nil
}

// drop removes all old senders, or else all.
func (s *senders) drop(now time.Time) {
	for id, known := range s.all {
		if now.Sub(known.made) >= senderLife {
			delete(s.all, id)
		}
	}
	if len(s.all) >= maxSenders {
		clear(s.all)
	}
}

// hostShare is the largest share of a push service's places, in percent, that one organization may hold.
const hostShare = 50

// hostLimiter bounds the concurrent requests to each host. Organizations share the places of a host.
type hostLimiter struct {
	size int

	mu    sync.Mutex
	hosts map[string]*hostPlaces
}

// hostPlaces is a host's places. users counts the callers that hold one or wait for one.
type hostPlaces struct {
	*fairshare.Places

	users int
}

func newHostLimiter(size int) *hostLimiter {
	return &hostLimiter{size: size, hosts: map[string]*hostPlaces{}}
}

// enter waits until an organization gets a place at a host, or ctx ends. leave gives the place back.
func (t *hostLimiter) enter(ctx context.Context, host, organization string) (leave func(), err error) {
	t.mu.Lock()
	at, ok := t.hosts[host]
	if !ok {
		at = &hostPlaces{Places: fairshare.NewPlaces(t.size, hostShare)}
		t.hosts[host] = at
	}
	at.users++
	t.mu.Unlock()
	release, err := at.Acquire(ctx, organization)
	if err != nil {
		t.forget(host, at)
		return nil, err
	}
	return func() { release(); t.forget(host, at) }, nil
}

// forget ends a caller's use of a host. The last one removes the host.
func (t *hostLimiter) forget(host string, at *hostPlaces) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(t.hosts, host)
	}
}
