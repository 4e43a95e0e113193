// Package poll repeats a reading of what other processes change. Packages apikey, plan and usertoken keep what they know
// current with it.
package poll

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// Every is the interval of readings. With Most it makes a change known within a second.
	Every = 400 * time.Millisecond
	// Most bounds the time of one reading.
	Most = 500 * time.Millisecond
	// RefreshTime is enough for a reading in progress and the next one.
	RefreshTime = 2 * Most
)

// Loop repeats a reading. New creates it.
type Loop struct {
	repeat lifecycle.Repeat
	read   func(ctx context.Context) error
	wake   chan struct{}
	mu     sync.Mutex
	// waiting are closed after the next reading.
	waiting map[chan struct{}]struct{}
}

// New returns a Loop; the caller has to start Run. name is what the log calls it.
func New(name string, read func(ctx context.Context) error, log *slog.Logger) *Loop {
	l := &Loop{read: read, wake: make(chan struct{}, 1), waiting: make(map[chan struct{}]struct{})}
	l.repeat = lifecycle.Repeat{Every: Every, Wake: l.wake, Do: l.turn, Log: log, Name: name}
	return l
}

// Run reads until ctx ends. It continues after every failure.
func (l *Loop) Run(ctx context.Context) error { return l.repeat.Run(ctx) }

// turn reads once, and lets those go on that waited before.
func (l *Loop) turn(ctx context.Context) error {
	l.mu.Lock()
	waiting := maps.Clone(l.waiting)
	clear(l.waiting)
	l.mu.Unlock()
	defer func() {
		for done := range waiting {
			close(done)
		}
	}()
	return l.read(ctx)
}

// Refresh returns once Run has read the changes that were made before, or has failed to. It waits for at most
// RefreshTime: Run finds the changes later anyway.
func (l *Loop) Refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, RefreshTime)
	defer cancel()
	done := make(chan struct{})
	l.mu.Lock()
	l.waiting[done] = struct{}{}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // A reading that has not begun is due.
	}
	select {
	case <-done:
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.waiting, done)
		l.mu.Unlock()
	}
}
