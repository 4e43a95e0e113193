// Package memory bounds what answers of vendors, and images that are fetched, take
// in a replica: all together, of one organization, and of one answer. Package
// inference opens a Hold for each request; package wire, sse and imagefetch charge
// it as bytes arrive, and what they were charged for is given back when the
// request has ended.
package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/capacity/fairshare"
)

// Weight is how many times a byte of an answer is charged: it is there once as it
// came, and once more as it was read. The copy that is put together of an answer's
// pieces is gone before the second is made.
const Weight = 2

// DefaultLimit is the memory of a Budget without a setting, in bytes.
const DefaultLimit = 128 << 20

// ErrFull is the error of a charge that the memory for answers has no room for. It
// says nothing about the vendor.
var ErrFull = errors.New("the memory for answers is used up at the moment")

// spared is the part of the memory that each request has beside it, without asking:
// an ordinary answer comes through while endless ones of others hold all there is.
// How many requests are under way is bounded elsewhere.
const spared = 1024

// Budget is the memory for answers of a replica. Safe for concurrent use; nil has
// no bound.
type Budget struct {
	pool  *fairshare.Pool
	spare int64
}

// New returns a budget of limit bytes, of which one organization may hold percent.
func New(limit int64, percent int) *Budget {
	return &Budget{pool: fairshare.New(limit, percent), spare: limit / spared}
}

// Held is what is charged at present, in bytes.
func (b *Budget) Held() int64 { return b.pool.Held() }

// Measure offers the budget as metrics.
func (b *Budget) Measure(meter metric.Meter) error {
	_, errHeld := meter.Int64ObservableGauge("switchyard.gateway.answers.held", metric.WithUnit("By"),
		metric.WithDescription("Memory charged for answers of vendors and fetched images that are held at present."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(b.pool.Held())
			return nil
		}))
	_, errRefused := meter.Int64ObservableCounter("switchyard.gateway.answers.refused",
		metric.WithDescription("Answers given up since the memory for them, or the organization's part of it, was used up."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(b.pool.Refused()))
			return nil
		}))
	if err := errors.Join(errHeld, errRefused); err != nil {
		return fmt.Errorf("memory instruments: %w", err)
	}
	return nil
}

// Hold is what one request holds. Its methods do nothing on nil. Safe for
// concurrent use.
type Hold struct {
	budget       *Budget
	organization string
	// largest answer in bytes.
	largest int64
	// spare is left of what it has without asking, held is what it took of the budget.
	spare, held atomic.Int64
	ended       atomic.Bool
}

// Open begins a request of an organization, whose answers have largest bytes at the
// most. nil of a nil budget bounds single answers only.
func (b *Budget) Open(organization string, largest int64) *Hold {
	h := &Hold{budget: b, organization: organization, largest: largest}
	if b != nil {
		h.spare.Store(b.spare)
	}
	return h
}

// Charge takes memory for n bytes that are about to come; the error is ErrFull.
func (h *Hold) Charge(n int) error {
	if h == nil || h.budget == nil || n <= 0 {
		return nil
	}
	charge := Weight * int64(n)
	free := take(&h.spare, charge)
	if charge == free {
		return nil
	}
	if !h.budget.pool.Take(h.organization, charge-free) {
		h.spare.Add(free)
		return ErrFull
	}
	h.held.Add(charge - free)
	if h.ended.Load() { // It was closed meanwhile, and no later Close would give this back.
		h.Close()
	}
	return nil
}

// Return gives the memory for n bytes back before the request has ended.
func (h *Hold) Return(n int) {
	if h == nil || h.budget == nil || n <= 0 {
		return
	}
	charge := Weight * int64(n)
	given := take(&h.held, charge)
	h.give(given)
	h.spare.Add(charge - given)
}

// take takes what there is, at most n.
func take(from *atomic.Int64, n int64) int64 {
	for {
		left := from.Load()
		taken := min(left, n)
		if from.CompareAndSwap(left, left-taken) {
			return taken
		}
	}
}

// Close gives all back. What is charged after it is given back at once.
func (h *Hold) Close() {
	if h == nil || h.budget == nil {
		return
	}
	h.ended.Store(true)
	h.give(h.held.Swap(0))
}

func (h *Hold) give(n int64) {
	if n > 0 {
		h.budget.pool.Give(h.organization, n)
	}
}

// Largest is the most bytes that one answer may have, or otherwise where nothing
// says so.
func (h *Hold) Largest(otherwise int64) int64 {
	if h == nil || h.largest == 0 {
		return otherwise
	}
	return h.largest
}

type holdKey struct{}

// With makes calls under the context charge h.
func With(ctx context.Context, h *Hold) context.Context {
	return context.WithValue(ctx, holdKey{}, h)
}

// Of is what calls under the context charge; nil for nothing.
func Of(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// ErrTooLarge is the error of an answer that is larger than one may be.
var ErrTooLarge = errors.New("larger than an answer may be")

// Sizes of the pieces that an answer comes in: each as large as all before it, up to
// the largest. An announced length is believed up to believed, or vendors that
// announce much and send nothing would use the memory up.
const (
	firstPiece   = 8 << 10
	believed     = 16 << 10
	largestPiece = 1 << 20
)

// ReadAll reads to the end of r, at most largest bytes, and charges h for the
// pieces before they come. announced is how much is said to come; negative is
// unknown. What was charged stays so where the error is
// nil, and is given back otherwise. Errors are ErrFull, ErrTooLarge and r's own.
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

// join puts pieces together, and lets go of each as soon as it is copied.
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
