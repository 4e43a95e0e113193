package provider

import (
	"context"
	"sync/atomic"
)

// Receipt collects what is known about a call to a vendor, whatever its result. The zero value is empty. Safe for
// concurrent use.
type Receipt struct {
	id   atomic.Pointer[string]
	sent atomic.Bool
	// whole is the receipt of the whole request if the call is one of several; else nil.
	whole *Receipt
}

type receiptKey struct{}

// WithReceipt returns a context whose calls fill in r.
func WithReceipt(ctx context.Context, r *Receipt) context.Context {
	return context.WithValue(ctx, receiptKey{}, r)
}

// ReceiptOf returns the receipt that calls under ctx fill in, or nil.
func ReceiptOf(ctx context.Context) *Receipt {
	r, _ := ctx.Value(receiptKey{}).(*Receipt)
	return r
}

// SetID records the vendor's own ID of the call. If one request takes several calls, the ID of the first to be answered
// stays.
func (r *Receipt) SetID(id string) {
	if r != nil && id != "" {
		r.id.CompareAndSwap(nil, &id)
		r.whole.SetID(id)
	}
}

// SetSent records that the whole request was sent to the vendor: from then on the vendor may process it, and bill for
// it.
func (r *Receipt) SetSent() {
	if r != nil {
		r.sent.Store(true)
		r.whole.SetSent()
	}
}

// Part returns the receipt of one of several calls. What is recorded in it is recorded in r, too; r may be nil.
func (r *Receipt) Part() *Receipt { return &Receipt{whole: r} }

// Sent reports whether a request was sent to the vendor.
func (r *Receipt) Sent() bool { return r != nil && r.sent.Load() }

// ID returns the vendor's own ID of the call, or "" if it gave none.
func (r *Receipt) ID() string {
	if r == nil {
		return ""
	}
	if id := r.id.Load(); id != nil {
		return *id
	}
	return ""
}
