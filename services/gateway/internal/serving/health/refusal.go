package health

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxRefused bounds the refused credentials that are kept until they are taken, and maxFailing those that are watched.
	maxRefused, maxFailing = 1024, 4096
	// refusedAgain is how long after the first refusal another one shows that a credential fails: calls that were in
	// flight together count once.
	refusedAgain = keyCooldown
	// refusedLife is how long a first refusal waits for another one.
	refusedLife = time.Hour
)

// CredentialID names a credential, whatever its secret is at the moment.
type CredentialID struct {
	// Organization is empty for a credential of the fleet.
	Organization string
	Provider     string
	// Name is that in the provider's pool; empty for the only one, and for an organization's.
	Name string
}

// id returns the ID of the call's credential; false for a call without one.
func (c *Call) id() (CredentialID, bool) {
	id := CredentialID{Provider: c.Target.Provider, Name: c.Pooled}
	if c.Byok {
		id.Organization = c.Organization
	}
	return id, c.Credential != ""
}

// RefusedCredential is a credential that its vendor refuses.
type RefusedCredential struct {
	CredentialID

	// Status is the HTTP status of the last refusal.
	Status int
}

// TakenCredential is a credential that was failing, and that its vendor has taken for a call.
type TakenCredential struct {
	CredentialID

	// Begun is when the call began.
	Begun time.Time
}

// refusals holds the credentials that vendors refuse, until they are reported.
type refusals struct {
	// active reports whether there is anything to look up for a good call.
	active atomic.Bool

	mu      sync.Mutex
	refused map[CredentialID]refused
	failing map[CredentialID]bool
	taken   map[CredentialID]time.Time
}

// refused counts the refusals of a credential since its last good call.
type refused struct {
	first  time.Time
	status int
	failed bool
}

// next returns the state after a refusal. One refusal shows that a credential fails, unless it may be that of the call's
// model alone (403), or the credential renews itself: then another one does that comes later, without a good call between.
func (r refused) next(status int, renews bool, now time.Time) refused {
	if r.first.IsZero() || now.Sub(r.first) >= refusedLife {
		r = refused{first: now}
	}
	r.status = status
	r.failed = r.failed || !renews && status != http.StatusForbidden || now.Sub(r.first) >= refusedAgain
	return r
}

// refuse records that a vendor refused the credential of a call.
func (r *refusals) refuse(c *Call, status int, now time.Time) {
	id, ok := c.id()
	if !ok || status == 0 { // Nothing was sent.
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.refused[id]
	if !known && len(r.refused) >= maxRefused {
		return
	}
	if r.refused == nil {
		r.refused = make(map[CredentialID]refused)
	}
	r.refused[id] = before.next(status, c.Renews, now)
	r.active.Store(true)
}

// good records that a vendor took the credential of a call.
func (r *refusals) good(c *Call, begun time.Time) {
	if !r.active.Load() {
		return
	}
	id, _ := c.id()
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, known := r.refused[id]; known && begun.After(before.first) {
		delete(r.refused, id)
	}
	if r.failing[id] && begun.After(r.taken[id]) {
		if r.taken == nil {
			r.taken = make(map[CredentialID]time.Time)
		}
		r.taken[id] = begun
	}
}

// TakeCredentials returns the credentials that were found to fail since it was called last, and those of the failing ones
// that calls were made with. What is lost with a failure to record it is found again by the next calls.
func (m *Monitor) TakeCredentials() (refused []RefusedCredential, taken []TakenCredential) {
	now, r := m.now(), &m.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, found := range r.refused {
		if found.failed {
			refused = append(refused, RefusedCredential{id, found.status})
		}
		if found.failed || now.Sub(found.first) >= refusedLife {
			delete(r.refused, id)
		}
	}
	for id, begun := range r.taken {
		taken = append(taken, TakenCredential{id, begun})
	}
	r.taken = nil
	r.active.Store(len(r.refused) > 0 || len(r.failing) > 0)
	return refused, taken
}

// WatchCredentials sets the credentials that are known to fail, at most 4,096 of them: good calls with them are reported.
func (m *Monitor) WatchCredentials(failing []CredentialID) {
	set := make(map[CredentialID]bool, min(len(failing), maxFailing))
	for _, id := range failing[:min(len(failing), maxFailing)] {
		set[id] = true
	}
	r := &m.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = set
	r.active.Store(len(r.refused) > 0 || len(set) > 0)
}
