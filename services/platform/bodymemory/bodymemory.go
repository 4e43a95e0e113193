// Package bodymemory bounds the memory that request bodies take in a replica while their calls last: in total, and for
// one organization.
package bodymemory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/platform/apierr"
)

// Free is how much of each body is not charged, in bytes: as much as a connection may take for headers.
const Free = 64 << 10

// Budget is a replica's memory for request bodies. Safe for concurrent use; a nil Budget has no bound.
type Budget struct {
	limit, share, weight int64

	mu      sync.Mutex
	held    int64
	by      map[string]int64 // what organizations hold that hold any
	refused int64
}

// New returns a budget of limit bytes, of which one organization may hold share. A byte of a body is charged weight
// times: as often as it is in memory while its call lasts.
func New(limit, share, weight int64) *Budget {
	return &Budget{limit: limit, share: share, weight: weight, by: make(map[string]int64)}
}

// take charges an organization. The share is checked before the total, because then the organization's own bodies are
// the cause.
func (b *Budget) take(organization string, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.by[organization]+n > b.share:
		b.refused++
		return refusal(apierr.KindRateLimited, apierr.ReasonRateLimited, "the request bodies of this organization are too large together")
	case b.held+n > b.limit:
		b.refused++
		return refusal(apierr.KindUnavailable, apierr.ReasonUnavailable, "too many large request bodies at once")
	}
	b.held += n
	b.by[organization] += n
	return nil
}

func refusal(kind apierr.Kind, reason apierr.Reason, text string) error {
	e := apierr.New(kind, reason, text+"; try again when others have ended")
	e.RetryAfter = time.Second
	return e
}

// give returns what was taken.
func (b *Budget) give(organization string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
	if b.by[organization] -= n; b.by[organization] == 0 {
		delete(b.by, organization)
	}
}

// Measure registers the budget's metrics with meter.
func (b *Budget) Measure(meter metric.Meter) error {
	now := func() (held, refused int64) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.held, b.refused
	}
	_, errHeld := meter.Int64ObservableGauge("switchyard.bodies.held", metric.WithUnit("By"),
		metric.WithDescription("Memory charged at present for large request bodies."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			held, _ := now()
			o.Observe(held)
			return nil
		}))
	_, errRefused := meter.Int64ObservableCounter("switchyard.bodies.refused",
		metric.WithDescription("Requests refused because the memory for bodies, or the organization's share of it, was used up."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			_, refused := now()
			o.Observe(refused)
			return nil
		}))
	if err := errors.Join(errHeld, errRefused); err != nil {
		return fmt.Errorf("instruments of request bodies: %w", err)
	}
	return nil
}

// Hold is the memory that one body holds. Its methods must not be called at the same time.
type Hold struct {
	budget        *Budget
	organization  string
	size, charged int64
}

// Open begins a body of an organization. The caller closes it when nothing of the body is needed any more.
func (b *Budget) Open(organization string) Hold { return Hold{budget: b, organization: organization} }

// Grow charges n more bytes, before they are allocated. The error is a refusal for the caller of the service.
func (h *Hold) Grow(n int64) error {
	if h.budget == nil {
		return nil
	}
	more := h.budget.weight*max(h.size+n-Free, 0) - h.charged
	if more > 0 {
		if err := h.budget.take(h.organization, more); err != nil {
			return err
		}
		h.charged += more
	}
	h.size += n
	return nil
}

// Move returns what h holds, which h holds no more: for who closes it later.
func (h *Hold) Move() Hold {
	moved := *h
	*h = Hold{}
	return moved
}

// Close gives everything back.
func (h *Hold) Close() {
	if h.charged > 0 {
		h.budget.give(h.organization, h.charged)
	}
	h.size, h.charged = 0, 0
}

// ReadAll reads a body that the caller has bounded to its end, of announced bytes; -1 means unknown. What is announced is
// charged before it arrives, so that of many bodies the first ones are read and not a part of each, but it is only a
// claim: memory is allocated for what arrives. After a refusal of the budget ReadAll reads the rest without keeping it,
// so that the sender gets its answer.
func (h *Hold) ReadAll(r io.Reader, announced int64) (body []byte, err error) {
	if announced > 0 {
		err = h.Grow(announced)
	}
	for err == nil && int64(len(body)) != announced {
		if len(body) == cap(body) {
			if body, err = h.enlarge(body, announced); err != nil {
				break
			}
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF) && int64(len(body)) < announced:
			return nil, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
	if err != nil {
		_, _ = io.Copy(io.Discard, r) // The refusal is the error.
		return nil, err
	}
	return body, nil
}

// enlarge returns the bytes with room for as many again, and not for more than were announced. It charges what was not
// announced.
func (h *Hold) enlarge(body []byte, announced int64) ([]byte, error) {
	size := max(2*int64(cap(body)), 512)
	if announced > 0 {
		size = min(max(size, Free), announced)
	} else if err := h.Grow(size - int64(cap(body))); err != nil {
		return nil, err
	}
	return append(make([]byte, 0, size), body...), nil
}
