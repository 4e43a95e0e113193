package byok

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// lookupTime bounds a question for a configuration that is not known here, the
	// wait for its turn included.
	lookupTime = 500 * time.Millisecond
	// absentFor is how long the answer "there is none" holds: shorter than changes
	// take to come by themselves.
	absentFor = 100 * time.Millisecond
	// maxAbsent bounds how many such answers are kept.
	maxAbsent = 4096
	// maxLookups bounds the questions under way.
	maxLookups = 4
)

// place is where a configuration is kept.
type place struct{ organization, provider string }

// lookups ask the store for configurations that changed so recently that this
// replica does not know them yet. Callers who ask for the same one at a time share
// one question, and its answer holds for absentFor: requests that name a
// configuration which is not there cost the store little, however many they are.
type lookups struct {
	flights singleflight.Group
	turns   chan struct{}

	mu     sync.Mutex
	absent map[place]time.Time // when it was found to be absent
}

func newLookups() *lookups {
	return &lookups{turns: make(chan struct{}, maxLookups), absent: make(map[place]time.Time)}
}

// isAbsent reports whether a question was answered so a moment ago.
func (l *lookups) isAbsent(at place, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, ok := l.absent[at]
	if ok && now.Sub(since) >= absentFor {
		delete(l.absent, at)
		ok = false
	}
	return ok
}

func (l *lookups) setAbsent(at place, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.absent) >= maxAbsent {
		clear(l.absent)
	}
	l.absent[at] = now
}

// lookup finds a configuration that another replica has just stored; nil where
// there is none, or none that could be found within lookupTime.
func (v *Vault) lookup(ctx context.Context, at place) *held {
	if v.lookups.isAbsent(at, time.Now()) {
		return nil
	}
	found := v.lookups.flights.DoChan(at.organization+"\x00"+at.provider, func() (any, error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
		defer cancel()
		return v.ask(bounded, at), nil
	})
	select {
	case result := <-found:
		return result.Val.(*held) //nolint:errcheck,forcetypeassert // ask returns nothing else.
	case <-ctx.Done():
		return nil
	}
}

// ask asks the store, and keeps what it finds until the feed brings it.
func (v *Vault) ask(ctx context.Context, at place) *held {
	select {
	case v.lookups.turns <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-v.lookups.turns }()
	if v.lookups.isAbsent(at, time.Now()) { // The question before this one was answered meanwhile.
		return nil
	}
	config, err := v.feed.Get(ctx, at.organization, at.provider)
	if err == nil && config.Status == StatusActive {
		return v.takeFound(config)
	}
	if err != nil && !errors.Is(err, ErrNone) {
		v.log.WarnContext(ctx, "an organization's configuration can't be looked up", slog.String("organization", at.organization),
			slog.String("provider", at.provider), slog.String("error", err.Error()))
	}
	v.lookups.setAbsent(at, time.Now())
	return nil
}

// takeFound puts a configuration that was looked up in its place. One that the feed
// has told of since is what the feed says: that is never older.
func (v *Vault) takeFound(config Config) *held {
	v.writing.Lock()
	defer v.writing.Unlock()
	h := v.find(config.Organization, config.Provider)
	if h == nil && config.Revision > v.level {
		h = newHeld(config)
		v.set(config.Organization, config.Provider, h)
	}
	return h
}
