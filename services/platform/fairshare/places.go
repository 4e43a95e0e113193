package fairshare

import (
	"container/list"
	"context"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Places is a bounded number of places. Callers wait in line for them, and their contexts bound the wait. An
// organization holds at most its share of the places. A place that becomes free goes to the next organization in turn,
// however many callers of other organizations wait. Safe for concurrent use.
type Places struct {
	limit, share int

	mu   sync.Mutex
	held int
	// holders has the organizations that hold places or wait for them. line has those that wait, next in turn first.
	holders map[string]*holder
	line    list.List // of *holder
	spare   *holder   // an entry that is not in use; nil for none
}

// holder is an organization that holds places or waits for them.
type holder struct {
	held    int
	waiting list.List     // of chan struct{}; each is closed when its caller gets a place
	turn    *list.Element // the organization's element in the line; nil while none of its callers waits
}

// NewPlaces returns limit places, of which one organization may hold percent (1 to 100) at most, rounded up.
func NewPlaces(limit, percent int) *Places {
	return &Places{limit: limit, share: int(shareOf(int64(limit), percent)), holders: make(map[string]*holder)}
}

// Share returns the largest number of places that one organization may hold.
func (p *Places) Share() int { return p.share }

// Acquire waits for a place and returns the function that gives it back, which must be called once. If ctx ends first,
// the error is the context's cause.
func (p *Places) Acquire(ctx context.Context, organization string) (release func(), err error) {
	if err := p.wait(ctx, organization); err != nil {
		return nil, err
	}
	return func() { p.Release(organization) }, nil
}

// AcquireWithin waits for a place, which Release gives back. If the organization's turn doesn't come within limit, the
// error is an *apierr.Error: 429 with Retry-After, and busy as its text. If ctx ends first, the error is the context's
// cause. Taking a free place allocates nothing.
func (p *Places) AcquireWithin(ctx context.Context, organization string, limit time.Duration, busy string) error {
	if ctx.Err() == nil && p.take(organization) {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := p.wait(waiting, organization)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return busyError(busy)
}

// busyError returns the error for a caller whose turn didn't come in time.
func busyError(text string) error {
	e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, text)
	e.RetryAfter = time.Second
	return e
}

// take takes a place if one is free for the organization, and reports whether it did.
func (p *Places) take(organization string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holder(organization)
	defer p.forget(organization, h)
	return p.grab(h)
}

// wait waits for a place until ctx ends.
func (p *Places) wait(ctx context.Context, organization string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.mu.Lock()
	h := p.holder(organization)
	if p.grab(h) {
		p.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	waiter := h.waiting.PushBack(granted)
	if h.turn == nil {
		h.turn = p.line.PushBack(h)
	}
	p.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	if !p.leave(organization, h, waiter, granted) {
		p.Release(organization) // The place was granted meanwhile.
	}
	return context.Cause(ctx)
}

// holder returns the organization's entry. The caller holds mu, as for the methods below.
func (p *Places) holder(organization string) *holder {
	h := p.holders[organization]
	if h == nil {
		if h, p.spare = p.spare, nil; h == nil {
			h = &holder{}
		}
		p.holders[organization] = h
	}
	return h
}

// grab takes a place if one is free for a holder, and reports whether it did.
func (p *Places) grab(h *holder) bool {
	if p.held >= p.limit || h.held >= p.share {
		return false
	}
	p.held++
	h.held++
	return true
}

// leave removes a waiting caller and reports whether it did: it doesn't if the caller has been granted a place.
func (p *Places) leave(organization string, h *holder, waiter *list.Element, granted <-chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-granted:
		return false
	default:
	}
	h.waiting.Remove(waiter)
	if h.waiting.Len() == 0 {
		p.line.Remove(h.turn)
		h.turn = nil
	}
	p.forget(organization, h)
	return true
}

// Release gives back a place that the organization holds.
func (p *Places) Release(organization string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holders[organization]
	p.held--
	h.held--
	p.grant()
	p.forget(organization, h)
}

// grant gives a free place to the first organization in line that has some of its share left. It skips only
// organizations that hold their whole share; the limit has room for few of them.
func (p *Places) grant() {
	for turn := p.line.Front(); turn != nil; turn = turn.Next() {
		h, _ := turn.Value.(*holder)
		if !p.grab(h) {
			continue
		}
		granted, _ := h.waiting.Remove(h.waiting.Front()).(chan struct{})
		close(granted)
		if h.waiting.Len() == 0 {
			p.line.Remove(turn)
			h.turn = nil
		} else {
			p.line.MoveToBack(turn)
		}
		return
	}
}

// forget drops an organization that neither holds places nor waits. The next one may have its entry.
func (p *Places) forget(organization string, h *holder) {
	if h.held == 0 && h.waiting.Len() == 0 {
		delete(p.holders, organization)
		p.spare = h
	}
}
