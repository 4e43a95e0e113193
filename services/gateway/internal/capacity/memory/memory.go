// Package memory bounds the memory that vendors' answers and fetched images take in a replica: in total, per
// organization and per answer. Package inference opens a Hold for each request; packages wire, sse and imagefetch
// charge it as bytes arrive. The charge is given back when the request has ended.
package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/platform/fairshare"
)

// Weight is how many times a byte of an answer is charged: it is in memory once as it was received, and once more as it
// was decoded. The copy that joins an answer's pieces is freed before the second is made.
const Weight = 2

// DefaultLimit is the limit of a Budget without a setting, in bytes.
const DefaultLimit = 128 << 20

// ErrFull is the error of a charge that the memory for answers has no room for. It says nothing about the vendor.
var ErrFull = errors.New("the memory for answers is used up at the moment")

// spared divides the budget: each request may use limit/spared bytes without charging the budget, so that an ordinary
// answer succeeds while endless answers of other requests hold the whole budget. The number of requests in flight is
// bounded elsewhere.
const spared = 1024

// Budget is a replica's memory for answers. Safe for concurrent use; a nil Budget has no bound.
type Budget struct {
	pool  *fairshare.Pool
	spare int64
}

// New returns a budget of limit bytes, of which one organization may hold percent.
func New(limit int64, percent int) *Budget {
	return &Budget{pool: fairshare.New(limit, percent), spare: limit / spared}
}

// Held returns the bytes that are charged at present.
func (b *Budget) Held() int64 { return b.pool.Held() }

// Measure registers the budget's metrics with meter.
func (b *Budget) Measure(meter metric.Meter) error {
	_, errHeld := meter.Int64ObservableGauge("switchyard.gateway.answers.held", metric.WithUnit("By"),
		metric.WithDescription("Memory charged at present for answers of vendors and fetched images."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(b.pool.Held())
			return nil
		}))
	_, errRefused := meter.Int64ObservableCounter("switchyard.gateway.answers.refused",
		metric.WithDescription("Answers refused because the memory for them, or the organization's share of it, was used up."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(b.pool.Refused()))
			return nil
		}))
	if err := errors.Join(errHeld, errRefused); err != nil {
		return fmt.Errorf("memory instruments: %w", err)
	}
	return nil
}

// Hold is the memory that one request holds. Its methods do nothing on nil. Safe for concurrent use.
type Hold struct {
	budget       *Budget
	organization string
	// largest is the maximum size of one answer in bytes; 0 means the caller's default.
	largest int64
	// spare is what is left of the request's free part, held is what it took from the budget; both in bytes.
	spare, held atomic.Int64
	ended       atomic.Bool
}

// Open begins a request of an organization whose answers may have largest bytes each. On a nil Budget the Hold bounds
// single answers only.
func (b *Budget) Open(organization string, largest int64) *Hold {
	h := &Hold{budget: b, organization: organization, largest: largest}
	if b != nil {
		h.spare.Store(b.spare)
	}
	return h
}

// Organization returns the organization that made the request; empty for a nil Hold.
func (h *Hold) Organization() string {
	if h == nil {
		return ""
	}
	return h.organization
}

// Charge takes memory for n bytes that are about to be read. The error is ErrFull.
func (h *Hold) Charge(n int) error {
	if h == nil || h.budget == nil || n <= 0 {
		return nil
	}
	charge := Weight * int64(n)
	free := take(&h.spare, charge)
	if charge == free {
		return nil
	}
	if !h.budget.pool.Acquire(h.organization, charge-free) {
		h.spare.Add(free)
		return ErrFull
	}
	h.held.Add(charge - free)
	if h.ended.Load() { // Close ran meanwhile, and no later Close would give this back.
		h.Close()
	}
	return nil
}

// Return gives back the memory for n bytes before the request has ended.
func (h *Hold) Return(n int) {
	if h == nil || h.budget == nil || n <= 0 {
		return
	}
	charge := Weight * int64(n)
	given := take(&h.held, charge)
	h.release(given)
	h.spare.Add(charge - given)
}

// take subtracts up to n from the value and returns how much it subtracted.
func take(from *atomic.Int64, n int64) int64 {
	for {
		left := from.Load()
		taken := min(left, n)
		if from.CompareAndSwap(left, left-taken) {
			return taken
		}
	}
}

// Close gives everything back. What is charged after Close is given back at once.
func (h *Hold) Close() {
	if h == nil || h.budget == nil {
		return
	}
	h.ended.Store(true)
	h.release(h.held.Swap(0))
}

func (h *Hold) release(n int64) {
	if n > 0 {
		h.budget.pool.Release(h.organization, n)
	}
}

// Largest returns the maximum size of one answer in bytes, or otherwise if the Hold sets none.
func (h *Hold) Largest(otherwise int64) int64 {
	if h == nil || h.largest == 0 {
		return otherwise
	}
	return h.largest
}

type holdKey struct{}

// NewContext returns a context whose calls charge h.
func NewContext(ctx context.Context, h *Hold) context.Context {
	return context.WithValue(ctx, holdKey{}, h)
}

// FromContext returns the Hold that calls under ctx charge, or nil.
func FromContext(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// ErrTooLarge is the error of an answer that is larger than the maximum for one answer.
var ErrTooLarge = errors.New("the answer is larger than the maximum")

// An answer is read in pieces, each as large as all before it, up to largestPiece. An announced length is trusted up to
// believed bytes only: otherwise vendors that announce much and send nothing would use the memory up.
const (
	firstPiece   = 8 << 10
	believed     = 16 << 10
	largestPiece = 1 << 20
)

// ReadAll reads r to its end, at most largest bytes, and charges h for each piece before it is read. announced is the
// length that the sender announced; negative means unknown. The charge stays if the error is nil, and is given back
// otherwise. Errors are ErrFull, ErrTooLarge and those of r.
func ReadAll(h *Hold, r io.Reader, announced, largest int64) (body []byte, err error) {
	if announced > largest {
		return nil, ErrTooLarge
	}
	pieces := [][]byte{}
	charged, read := 0, int64(0)
	defer func() {
		if err != nil {
			h.Return(charged)
		}
	}()
	size := int64(firstPiece)
	if announced >= 0 && announced < believed {
		size = announced + 1 // One more, for the read that meets the end.
	}
	for {
		if err := h.Charge(int(size)); err != nil {
			return nil, err
		}
		charged += int(size)
		piece := make([]byte, 0, size)
		for len(piece) < cap(piece) {
			n, err := r.Read(piece[len(piece):cap(piece)])
			piece, read = piece[:len(piece)+n], read+int64(n)
			switch {
			case read > largest:
				return nil, ErrTooLarge
			case errors.Is(err, io.EOF):
				body = join(append(pieces, piece), int(read))
				h.Return(charged - cap(body))
				return body, nil
			case err != nil:
				return nil, err
			}
		}
		pieces = append(pieces, piece)
		size = min(max(read, firstPiece), largestPiece)
	}
}

// join concatenates pieces, and releases each piece as soon as it is copied.
func join(pieces [][]byte, size int) []byte {
	if len(pieces) == 1 {
		return pieces[0]
	}
	whole := make([]byte, 0, size)
	for i, piece := range pieces {
		whole = append(whole, piece...)
		pieces[i] = nil
	}
	return whole
}
