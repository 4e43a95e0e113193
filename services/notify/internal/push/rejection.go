package push

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// rejectionsEvery is the interval at which rejected keys are recorded, rejectionsTime the bound of that.
	rejectionsEvery, rejectionsTime = 2 * time.Second, 10 * time.Second
	// maxRejections bounds the keys at push services that are kept; callers name hosts below those of push services.
	maxRejections = 256
	// rejectionLife is how long a first refusal waits for another one.
	rejectionLife = time.Hour
)

// KeyAt is a VAPID key at a push service.
type KeyAt struct {
	// Service is the push service's scheme, host and port, KeyID the id of the key.
	Service, KeyID string
}

// Rejection is a key that a push service refuses, with the HTTP status of its answer.
type Rejection struct {
	KeyAt

	Status int
}

// RejectionStore records rejected keys.
type RejectionStore interface {
	// Reject records keys, with an event for each once a day.
	Reject(ctx context.Context, rejected []Rejection) error
}

// Rejections finds VAPID keys that push services refuse, and records them. It is safe for concurrent use.
type Rejections struct {
	store RejectionStore
	log   *slog.Logger

	mu    sync.Mutex
	found map[KeyAt]rejection
}

// rejection is the refusals of a key since its last accepted push.
type rejection struct {
	first    time.Time
	status   int
	rejected bool
}

// NewRejections returns a Rejections that records nothing until Run.
func NewRejections(store RejectionStore, log *slog.Logger) *Rejections {
	return &Rejections{store: store, log: log, found: make(map[KeyAt]rejection)}
}

// refused notes that a push which began at a time was refused with its key. The token of the first one may have been
// old, or its subscription faulty; one that began later, without an accepted push between, shows that it is the key.
func (r *Rejections) refused(key KeyAt, status int, began, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.found[key]
	switch {
	case known && now.Sub(before.first) < rejectionLife:
		before.status, before.rejected = status, before.rejected || began.After(before.first)
		r.found[key] = before
	case known || len(r.found) < maxRejections:
		r.found[key] = rejection{first: now, status: status}
	}
}

// accepted notes that a push service took a key.
func (r *Rejections) accepted(key KeyAt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.found, key)
}

// take returns the keys that were found to be rejected since it was called last, and forgets old refusals.
func (r *Rejections) take(now time.Time) (rejected []Rejection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, found := range r.found {
		if found.rejected {
			rejected = append(rejected, Rejection{key, found.status})
		}
		if found.rejected || now.Sub(found.first) >= rejectionLife {
			delete(r.found, key)
		}
	}
	return rejected
}

// Run records rejected keys until ctx ends. It is a part of the service's lifecycle. What can't be recorded is found again
// by the next pushes.
func (r *Rejections) Run(ctx context.Context) error {
	return lifecycle.Repeat{Every: rejectionsEvery, Log: r.log, Name: "events of VAPID keys", Do: func(ctx context.Context) error {
		rejected := r.take(time.Now())
		if len(rejected) == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, rejectionsTime)
		defer cancel()
		return r.store.Reject(ctx, rejected)
	}}.Run(ctx)
}
