// Package dispatch sends deliveries. The enqueue that stores a new delivery leases it to its own replica, which sends
// it from memory. Deliveries that wait in the store (retries, overflow, those of a dead replica) are claimed flow by
// flow. No database connection is held during a request, and results are settled in batches, each under the fence of
// its lease.
//
//	enqueue --Send--> jobs --> worker: sign, send, decide --> settle
//	                   ^                                        |
//	        claim <----+------------- due rows <----------------+
package dispatch

import (
	"context"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// Store claims and settles. Its errors are temporary, so the engine tries again, except for delivery.ErrRejected.
type Store interface {
	// Claim leases due rows: it passes the ready flows to Grant and takes at most the granted number of rows of each.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Settle records results. It returns, for each, whether its lease was still held; if not, only the attempt is
	// recorded, as late.
	Settle(ctx context.Context, results []Result) (held []bool, err error)
}

// Claim is a request for work.
type Claim struct {
	Replica int64
	Lease   time.Duration
	// Flows bounds how many flows are examined.
	Flows int
	// FullFlows and FullOrganizations are skipped.
	FullFlows         []int64
	FullOrganizations []string
	// Bytes bounds the bodies of all rows together.
	Bytes int
	// Grant decides on the picked flows, in their order. It is called once, within the transaction.
	Grant func(ctx context.Context, picked []Picked) []Grant
}

// Picked is a flow that a claim examines.
type Picked struct {
	Flow delivery.Flow
	// Target identifies the flow's circuit; OfHost identifies its host's.
	Target breaker.Target
	// Held flows wait for something that the service lacks: a single row tries whether it is there.
	Held bool
	// Own and Host are the stored states of the flow's and the host's circuit.
	Own, Host breaker.State
	// Ready is when the flow became ready. The flows of a host take turns to probe it in this order.
	Ready time.Time
	// Rate is how many deliveries may begin per second; zero for no limit.
	Rate float64
}

// Grant is how many rows to take of a flow. With neither rows nor a wait, the flow keeps its place.
type Grant struct {
	Rows int
	// Wait is the least time until the flow is examined again.
	Wait time.Duration
	// Park is the reason for which the flow is parked during the wait.
	Park delivery.Fault
	// ByHost reports whether the host's circuit parks the flow, rather than the flow's own.
	ByHost bool
	// Admitted and AdmittedByHost report whether the flow's and the host's circuit count the rows.
	Admitted, AdmittedByHost bool
}

// Claimed is the result of a claim.
type Claimed struct {
	Jobs []delivery.Job
	// Flows is how many flows were examined; Drained are those of them without further due rows.
	Flows   int
	Drained []int64
	// Gone are rows without a delivery. They were removed.
	Gone []delivery.ID
	// Next is the time until a flow becomes ready; negative when none is planned.
	Next time.Duration
}

// Result is the outcome of a leased job.
type Result struct {
	Job  delivery.Job
	Step delivery.Step
	// Attempt is nil when no request was made. Answer is what the request led to.
	Attempt *delivery.Attempt
	Answer  delivery.Answer
	// Own and Host are the changes of the flow's and the host's circuit. They apply whether or not the lease is still
	// held.
	Own, Host breaker.Move
}

// Passes reports whether both circuits let the flow's deliveries through.
func (r *Result) Passes() bool {
	return r.Own.State.Phase == breaker.Closed && r.Host.State.Phase == breaker.Closed
}

// Secrets finds the signing secrets of an organization, the current one first.
type Secrets interface {
	Of(ctx context.Context, organization string) []secret.Value
}

// Opener decrypts what delivery.Sealer encrypted for owner.
type Opener interface {
	Open(sealed []byte, owner string) ([]byte, error)
}

// Request is one request to a target, a POST.
type Request struct {
	URL    string
	Header map[string]string
	Body   []byte
	// Client is nil for a request without a client certificate.
	Client *Client
}

// Sender makes one request. It never follows a redirect.
type Sender interface {
	Send(ctx context.Context, r Request) Reply
}

// Tokens gets the access tokens of endpoints, as auth.Tokens does.
type Tokens interface {
	// Get returns a token other than refused, which may be zero.
	Get(ctx context.Context, endpoint delivery.ID, a auth.Auth, refused secret.Value) (secret.Value, error)
}

// Replica is the membership of this process among its peers.
type Replica interface {
	// ID is the owner of new leases; it changes when the other replicas had removed this one.
	ID() int64
	// Leave gives back all leases of this replica.
	Leave(ctx context.Context) error
}
