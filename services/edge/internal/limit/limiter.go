package limit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Bucket is a holder's limit. Holders of one name share it, on every replica.
type Bucket struct {
	Name  string
	Limit Limit
}

// BucketState is a bucket after a request.
type BucketState struct {
	Limit Limit // the zero Limit when nothing bounds the holder
	// Remaining is how many requests would be admitted at once, Full how long it
	// takes until nothing is spent any more.
	Remaining int
	Full      time.Duration
}

// Verdict is where a request leaves its key and its organization.
type Verdict struct{ Key, Organization BucketState }

// Spending is what a replica spent of a bucket: Cost is the time in which the
// bucket earns it back.
type Spending struct {
	Name string
	Cost time.Duration
}

// Fleet is where replicas settle.
type Fleet interface {
	// Settle adds what was spent to each bucket and gives how far ahead of now
	// each is spent then, by all replicas, in the same order.
	Settle(ctx context.Context, spent []Spending) (ahead []time.Duration, err error)
}

// Limiter admits requests. Safe for concurrent use.
type Limiter struct {
	fleet Fleet
	mu    sync.RWMutex
	// accounts of buckets that aren't full, by name.
	accounts map[string]*account
	// due are the accounts that owe the fleet a report.
	dueMu  sync.Mutex
	due    []*account
	work   chan struct{} // something is due
	urgent chan struct{} // and a request waits for it
	// awayUntil, in Unix nanoseconds, is until when no request waits for the fleet.
	awayUntil atomic.Int64
}

// account is what a replica knows of a bucket.
type account struct {
	name string
	mu   sync.Mutex
	// full is when the bucket is full again, as far as is known here.
	full     time.Time
	interval time.Duration
	// owed are admitted requests that the fleet doesn't know of.
	owed int64
	// settled, if a request waits, is closed by the next report.
	settled chan struct{}
	gone    bool // no longer among the accounts
}

// New returns a limiter whose Run the caller has to start. Without a fleet each
// replica bounds for itself.
func New(fleet Fleet) *Limiter {
	return &Limiter{fleet: fleet, accounts: make(map[string]*account), work: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
}

// Take admits a request of a key and its organization, or refuses it with an
// apierr that says for how long. A refused request costs neither. Who may make a
// request but would overdraw a lease waits for the settlement, not long. It
// allocates nothing for a holder that nothing bounds, or that was seen lately.
func (x *Limiter) Take(ctx context.Context, key, organization Bucket) (Verdict, error) {
	for patience := waitTime; ; {
		v, settled, err := x.try(key, organization, patience > 0)
		if settled == nil {
			return v, err
		}
		asked := time.Now()
		x.wait(ctx, settled)
		patience -= time.Since(asked)
	}
}

// try is one decision. When a lease is used up, and the caller is willing to
// wait, it gives what to wait for instead.
func (x *Limiter) try(key, organization Bucket, willing bool) (v Verdict, settled <-chan struct{}, err error) {
	k, o := x.lock(key), x.lock(organization) // always in this order
	defer unlock(k)
	defer unlock(o)
	now := time.Now()
	keyAfter, keyWait := spend(key.Limit, k, now)
	organizationAfter, organizationWait := spend(organization.Limit, o, now)
	if keyWait == 0 && organizationWait == 0 {
		if willing && x.settles(now) {
			if settled = k.overdrawn(key.Limit); settled == nil {
				settled = o.overdrawn(organization.Limit)
			}
			if settled != nil {
				return v, settled, nil
			}
		}
		x.commit(key.Limit, k, keyAfter)
		x.commit(organization.Limit, o, organizationAfter)
	}
	switch {
	case keyWait > 0 && keyWait >= organizationWait:
		err = refusal("this API key", key.Limit, keyWait)
	case organizationWait > 0:
		err = refusal("this organization", organization.Limit, organizationWait)
	}
	return Verdict{stateOf(key.Limit, k, now), stateOf(organization.Limit, o, now)}, nil, err
}

func refusal(who string, l Limit, wait time.Duration) error {
	e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited,
		fmt.Sprintf("%s may make %d requests in %d seconds; try again later", who, l.Requests, int(l.Window/time.Second)))
	e.RetryAfter = wait
	return e
}

// lock finds the account of a bucket and locks it; nil if nothing bounds it.
func (x *Limiter) lock(b Bucket) *account {
	if b.Limit == (Limit{}) {
		return nil
	}
	for {
		a := x.account(b.Name)
		a.mu.Lock()
		if !a.gone {
			return a
		}
		a.mu.Unlock()
	}
}

// overdrawn gives what to wait for when the lease is used up, nil otherwise.
func (a *account) overdrawn(l Limit) <-chan struct{} {
	if a == nil || a.owed < l.lease() {
		return nil
	}
	if a.settled == nil {
		a.settled = make(chan struct{})
	}
	return a.settled
}

func (x *Limiter) account(name string) *account {
	x.mu.RLock()
	a := x.accounts[name]
	x.mu.RUnlock()
	if a != nil {
		return a
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if a = x.accounts[name]; a == nil {
		a = &account{name: name}
		x.accounts[name] = a
	}
	return a
}

func unlock(a *account) {
	if a != nil {
		a.mu.Unlock()
	}
}

func spend(l Limit, a *account, now time.Time) (after time.Time, wait time.Duration) {
	if a == nil {
		return time.Time{}, 0
	}
	return l.spend(a.full, now)
}

// commit writes down an admitted request and has it reported.
func (x *Limiter) commit(l Limit, a *account, after time.Time) {
	if a == nil {
		return
	}
	a.full, a.interval = after, l.interval()
	if x.fleet == nil {
		return
	}
	if a.owed++; a.owed == 1 {
		x.dueMu.Lock()
		x.due = append(x.due, a)
		x.dueMu.Unlock()
		signal(x.work)
	}
	if a.owed >= (l.lease()+1)/2 {
		signal(x.urgent)
	}
}

func stateOf(l Limit, a *account, now time.Time) BucketState {
	if a == nil {
		return BucketState{}
	}
	return BucketState{Limit: l, Remaining: l.remaining(a.full, now), Full: max(0, a.full.Sub(now))}
}

// signal leaves a note for one reader, unless there is one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
