package quota

import (
	"fmt"
	"time"
)

// Cause is why a call was refused.
type Cause string

// The causes of a refusal.
const (
	CauseNone Cause = ""
	// CauseTooLarge: the worst case of the call is larger than the whole limit, so that it will never fit.
	CauseTooLarge Cause = "too_large"
	// CauseLimit: the minute's tokens or requests are used up.
	CauseLimit Cause = "limit"
	// CauseConcurrent: too many calls are in flight.
	CauseConcurrent Cause = "concurrent"
	// CauseVendor: the vendor has refused, and the time that it named is not over.
	CauseVendor Cause = "vendor"
	// CausePace: some of the limit is free, and is granted to waiting callers steadily.
	CausePace Cause = "pace"
	// CauseOrder: others wait that got less.
	CauseOrder Cause = "order"
	// CauseQueue: too many callers wait, or the wait would be too long.
	CauseQueue Cause = "queue"
	// CauseWaited: the caller waited as long as it may.
	CauseWaited Cause = "waited"
	// CauseSubjects: the replica keeps books of as many subjects as it may.
	CauseSubjects Cause = "subjects"
	// CauseStore: the shared books are not available, and the replica has no part of the limit.
	CauseStore Cause = "store"
)

// RefusedError is the refusal of a call that may not be sent now. A refused call has booked nothing.
type RefusedError struct {
	Cause Cause
	// Subject is the one that was short, "" if there is none.
	Subject Subject
	// RetryAfter is the time after which the call would fit if nothing else is booked; 0 if it never will.
	RetryAfter time.Duration
	// Waited is how long the caller has waited.
	Waited time.Duration
	// own: the shortage is one of the caller's own claims, so that others in the queue need not wait for it.
	own bool
	// served is what the organization was served, negative if the store was not asked.
	served float64
}

// Error says what to do.
func (r *RefusedError) Error() string {
	wait := r.RetryAfter.Round(100 * time.Millisecond)
	switch r.Cause {
	case CauseTooLarge:
		return fmt.Sprintf("the call may take more tokens than the %s limit allows in a minute; ask for fewer tokens", r.Subject.Kind())
	case CauseConcurrent:
		return fmt.Sprintf("too many calls of this %s are in flight; try again in %s", r.Subject.Kind(), wait)
	case CauseQueue, CauseOrder, CauseWaited:
		return fmt.Sprintf("too many calls wait for this model; try again in %s", wait)
	case CauseSubjects:
		return "the replica keeps books of as many subjects as it may; try again in " + wait.String()
	case CauseStore:
		return fmt.Sprintf("the shared books of the %s limit are not available, and this replica's part of it is used up; try again in %s", r.Subject.Kind(), wait)
	default:
		return fmt.Sprintf("the %s limit of tokens or requests per minute is used up; try again in %s", r.Subject.Kind(), wait)
	}
}
