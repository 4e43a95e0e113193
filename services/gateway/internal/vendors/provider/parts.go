package provider

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
)

// maxParts is the largest number of concurrent calls for one request.
const maxParts = 4

// PartialError is the failure of a request with several calls, some of which the vendor answered or was processing: it
// bills those all the same.
type PartialError struct {
	// Err is the failure.
	Err error
	// Usage is the sum of those calls. Estimated reports that the vendor did not report the usage of each, so that some
	// of it was estimated.
	Usage     Usage
	Estimated bool
}

// Error returns the text of the failure.
func (e *PartialError) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *PartialError) Unwrap() error { return e.Err }

// Parts makes the n calls of one request, a few at a time, and returns their answers in order. call returns the usage
// that the vendor reported, or nil; estimate returns an estimate for a call without a reported usage. The first failure
// ends the other calls and is the error; it is a *PartialError if the vendor bills some of them.
func Parts[T any](ctx context.Context, n int, call func(ctx context.Context, part int) (T, *Usage, error), estimate func(part int) Usage) ([]T, error) {
	answers, bills := make([]T, n), make([]partBill, n)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(maxParts)
	for i := range n {
		group.Go(panics.Guard(func() (err error) {
			if within.Err() != nil && ctx.Err() == nil {
				return within.Err() // Another part has failed; its error counts.
			}
			receipt := ReceiptOf(ctx).Part()
			var usage *Usage
			answers[i], usage, err = call(WithReceipt(within, receipt), i)
			bills[i].usage = usage.Reported()
			bills[i].due = err == nil || within.Err() != nil && receipt.Sent() && !refused(err)
			return err
		}))
	}
	if err := group.Wait(); err != nil {
		return nil, partial(err, bills, estimate)
	}
	return answers, nil
}

// partBill is what is known about the bill of one call. due reports that the vendor answered it, or was processing it
// when it was ended.
type partBill struct {
	due   bool
	usage *Usage
}

// refused reports whether the vendor itself ended a call, with an error status.
func refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status != 0 && e.Status/100 != 2
}

// partial adds to err the usage that is due for other calls, if there is any.
func partial(err error, bills []partBill, estimate func(part int) Usage) error {
	failed, some := &PartialError{Err: err}, false
	for i, b := range bills {
		switch {
		case !b.due:
			continue
		case b.usage != nil:
			failed.Usage.Add(*b.usage)
		default:
			failed.Usage.Add(estimate(i))
			failed.Estimated = true
		}
		some = true
	}
	if !some {
		return err
	}
	return failed
}
