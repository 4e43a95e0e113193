package push

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/webpush"
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

// hostLimiter bounds the concurrent requests to each host.
type hostLimiter struct {
	size int

	mu    sync.Mutex
	hosts map[string]*hostSlots
}

type hostSlots struct {
	places chan struct{}
	users  int
}

func newHostLimiter(size int) *hostLimiter {
	return &hostLimiter{size: size, hosts: map[string]*hostSlots{}}
}

// enter waits for a slot of a host until ctx ends. leave releases it.
func (t *hostLimiter) enter(ctx context.Context, host string) (leave func(), err error) {
	t.mu.Lock()
	g, ok := t.hosts[host]
	if !ok {
		g = &hostSlots{places: make(chan struct{}, t.size)}
		t.hosts[host] = g
	}
	g.users++
	t.mu.Unlock()
	done := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if g.users--; g.users == 0 {
			delete(t.hosts, host)
		}
	}
	select {
	case g.places <- struct{}{}:
		return func() { <-g.places; done() }, nil
	case <-ctx.Done():
		done()
		return nil, context.Cause(ctx)
	}
}
