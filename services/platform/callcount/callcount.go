// Package callcount lets a service record the calls that its customers are billed for, in the transaction or the file
// that makes the calls' own records durable.
//
// The edge names a call's metric in a request header, and the service confirms the count in a response header. A handler
// whose own record can hold the count takes it from the context ([Take]). If a successful answer begins with the count not
// taken, package rpc records it with the service's [Recorder]. In both cases the answer is completed after its count is
// durable, and a call counts once.
//
// Package countfeed stores counts in Postgres and lists them for the reader that bills them.
package callcount

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// HeaderCounted is a response header that says that the call's count is recorded. Its value is "1".
const HeaderCounted = "X-Counted"

// Count says that a customer's call succeeded. Its JSON is the format in spools.
type Count struct {
	// ID identifies the count, so that a repeated write counts once.
	ID           uuid.UUID `json:"id,omitzero"`
	Organization string    `json:"organization_id,omitzero"`
	Key          string    `json:"key_id,omitzero"`
	// Metric is the name under which the call is billed, such as "deliveries".
	Metric string `json:"metric"`
	// User and Tags are as the caller named them; both may be empty.
	User string            `json:"user_id,omitzero"`
	Tags map[string]string `json:"tags,omitzero"`
	// At is when the answer began.
	At time.Time `json:"at,omitzero"`
}

// Recorder makes counts durable.
type Recorder interface {
	// Record begins to record a count. The function that it returns blocks until the count is durable; its error means
	// that the count may be lost.
	Record(ctx context.Context, count Count) (settled func() error, err error)
}

// Call is a call to be counted once.
type Call struct {
	count Count
	taken atomic.Bool
}

// New returns a call whose count has everything but its ID and time.
func New(count Count) *Call { return &Call{count: count} }

// Take returns the call's count, for a record that will be durable before the answer is complete. It reports false if the
// count was taken before.
func (c *Call) Take(at time.Time) (Count, bool) {
	if c.taken.Swap(true) {
		return Count{}, false
	}
	count := c.count
	count.ID, count.At = uuid.New(), at
	return count, true
}

// PutBack makes the count available again, for a taker whose record could not be stored.
func (c *Call) PutBack() { c.taken.Store(false) }

type contextKey struct{}

// With returns a context that carries a call to be counted; nil for one that counts nothing.
func With(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, contextKey{}, call)
}

// Take takes the count of the context's call. It reports false if there is none, or if it was taken before.
func Take(ctx context.Context, at time.Time) (Count, bool) {
	call, _ := ctx.Value(contextKey{}).(*Call)
	if call == nil {
		return Count{}, false
	}
	return call.Take(at)
}

// PutBack puts the count of the context's call back, which Take returned.
func PutBack(ctx context.Context) {
	if call, _ := ctx.Value(contextKey{}).(*Call); call != nil {
		call.PutBack()
	}
}
