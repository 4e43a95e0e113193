// Package poll repeats a reading of what other processes change. Packages apikey, plan and usertoken keep what they know
// current with it.
package poll

import (
	"context"
	"log/slog"
	"time"
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
	what   string
	read   func(ctx context.Context) error
	log    *slog.Logger
	wanted chan chan struct{}
}

// New returns a Loop; the caller has to start Run. what names in the log what is read, such as "the key feed".
func New(what string, read func(ctx context.Context) error, log *slog.Logger) *Loop {
	return &Loop{what: what, read: read, log: log, wanted: make(chan chan struct{})}
}

// Run reads until ctx ends. It continues after every failure and logs only the first of a row.
func (l *Loop) Run(ctx context.Context) error {
	ticks := time.NewTicker(Every)
	defer ticks.Stop()
	failing := false
	for {
		var done chan struct{} // nil unless Refresh waits
		select {
		case <-ctx.Done():
			return nil
		case done = <-l.wanted:
		case <-ticks.C:
		}
		err := l.read(ctx)
		if done != nil {
			close(done)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			l.log.WarnContext(ctx, "changes cannot be read", "what", l.what, "error", err.Error())
		case err == nil && failing:
			l.log.InfoContext(ctx, "changes can be read again", "what", l.what)
		}
		failing = err != nil
	}
}

// Refresh returns once Run has read the changes that were made before, or has failed to. It waits for at most
// RefreshTime: Run finds the changes later anyway.
func (l *Loop) Refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, RefreshTime)
	defer cancel()
	done := make(chan struct{})
	select {
	case l.wanted <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}
