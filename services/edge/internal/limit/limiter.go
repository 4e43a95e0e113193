package limit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Bucket is a named limit. Holders of the same name share it, on every replica.
type Bucket struct {
	Name  string
	Limit Limit
}

// BucketState is the state of a bucket after a request.
type BucketState struct {
	Limit Limit // the zero Limit without a limit
	// Remaining is how many requests would be admitted at once, Full the time until nothing is spent any more.
	Remaining int
	Full      time.Duration
}

// Verdict holds the states of a request's key and organization.
type Verdict struct{ Key, Organization BucketState }

// Spending is what a replica has spent of a bucket. Cost is the time in which the bucket earns it back.
type Spending struct {
	Name string
	Cost time.Duration
}

// Fleet is the shared state with which replicas settle.
type Fleet interface {
	// Settle adds what was spent to each bucket, and returns how far ahead of now each is then spent by all replicas,
	// in the same order.
	Settle(ctx context.Context, spent []Spending) (ahead []time.Duration, err error)
}

// Limiter admits requests. It is safe for concurrent use.
type Limiter struct {
	fleet Fleet
	mu    sync.RWMutex
	// accounts holds the accounts of buckets that are not full, by name.
	accounts map[string]*account
	// due holds the accounts with spendings to report.
	dueMu  sync.Mutex
	due    []*account
	work   chan struct{} // something is due
	urgent chan struct{} // a request waits for it
	// bypassUntil, in Unix nanoseconds: until then no request waits for the fleet.
	bypassUntil atomic.Int64
}

// account is a replica's local state of a bucket.
type account struct {
	name string
	mu   sync.Mutex
	// full is when the bucket is full again, as far as this replica knows.
	full     time.Time
	interval time.Duration
	// owed counts admitted requests that are not reported to the fleet yet.
	owed int64
	// settled is not nil while a request waits; the next report closes it.
	settled chan struct{}
	gone    bool // removed from the accounts
}

// New returns a Limiter; the caller has to start Run. Without a fleet each replica uses its local state.
func New(fleet Fleet) *Limiter {
	return &Limiter{fleet: fleet, accounts: make(map[string]*account), work: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
}

// Take admits a request of a key and its organization, or refuses it with an apierr that contains the wait. A refused
// request costs neither. A request that would overdraw a lease waits for the settlement, for at most waitTime. Take
// allocates nothing without a limit, or for a holder that was seen recently.
func (x *Limiter) Take(ctx context.Context, key, organization Bucket) (Verdict, error) {
	for budget := waitTime; ; {
		v, settled, err := x.try(key, organization, budget > 0)
		if settled == nil {
			return v, err
		}
		asked := time.Now()
		x.wait(ctx, settled)
		budget -= time.Since(asked)
	}
}

// try makes one decision. If a lease is used up and the caller is willing to wait, it returns the channel to wait for
// instead.
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

// lock returns the locked account of a bucket; nil without a limit.
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

// overdrawn returns the channel to wait for if the lease is used up, nil otherwise.
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

// commit records an admitted request and queues its report.
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

// signal sends to a channel of capacity one, unless a signal is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
