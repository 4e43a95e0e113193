package fairshare

import (
	"container/list"
	"context"
	"sync"
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
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	release = func() { p.release(organization) }
	p.mu.Lock()
	h := p.holders[organization]
	if h == nil {
		h = &holder{}
		p.holders[organization] = h
	}
	if p.held < p.limit && h.held < p.share {
		p.held++
		h.held++
		p.mu.Unlock()
		return release, nil
	}
	granted := make(chan struct{})
	waiter := h.waiting.PushBack(granted)
	if h.turn == nil {
		h.turn = p.line.PushBack(h)
	}
	p.mu.Unlock()
	select {
	case <-granted:
		return release, nil
	case <-ctx.Done():
	}
	if !p.leave(organization, h, waiter, granted) {
		release() // The place was granted meanwhile.
	}
	return nil, context.Cause(ctx)
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

func (p *Places) release(organization string) {
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
		if h.held >= p.share {
			continue
		}
		granted, _ := h.waiting.Remove(h.waiting.Front()).(chan struct{})
		p.held++
		h.held++
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

// forget drops an organization that neither holds places nor waits.
func (p *Places) forget(organization string, h *holder) {
	if h.held == 0 && h.waiting.Len() == 0 {
		delete(p.holders, organization)
	}
}
