package provider

import (
	"context"
	"sync/atomic"
)

// Receipt is what a vendor's answer says of the call itself, whatever came of
// it. The zero value is empty. Safe for concurrent use.
type Receipt struct {
	id   atomic.Pointer[string]
	sent atomic.Bool
	// whole is that of the request that the call is a part of; nil where it is all of it.
	whole *Receipt
}

type receiptKey struct{}

// WithReceipt makes the calls under the context fill r in.
func WithReceipt(ctx context.Context, r *Receipt) context.Context {
	return context.WithValue(ctx, receiptKey{}, r)
}

// ReceiptOf returns the receipt that a call under the context fills in; nil where
// the context has none.
func ReceiptOf(ctx context.Context) *Receipt {
	r, _ := ctx.Value(receiptKey{}).(*Receipt)
	return r
}

// Note keeps the vendor's own id of the call. Where one request takes several
// calls, that of the first to be answered stays.
func (r *Receipt) Note(id string) {
	if r != nil && id != "" {
		r.id.CompareAndSwap(nil, &id)
		r.whole.Note(id)
	}
}

// NoteSent says that the whole of a request has gone to the vendor: from then on
// it may be at work, and bill for it.
func (r *Receipt) NoteSent() {
	if r != nil {
		r.sent.Store(true)
		r.whole.NoteSent()
	}
}

// part returns the receipt of one of several calls. What it is told, r is told too.
func (r *Receipt) part() *Receipt { return &Receipt{whole: r} }

// Sent reports whether a request has gone to the vendor.
func (r *Receipt) Sent() bool { return r != nil && r.sent.Load() }

// ID is the vendor's own id of the call; empty where it gave none.
func (r *Receipt) ID() string {
	if r == nil {
		return ""
	}
	if id := r.id.Load(); id != nil {
		return *id
	}
	return ""
}
