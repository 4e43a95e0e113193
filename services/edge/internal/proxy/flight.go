package proxy

import (
	"time"

	"switchyard.dev/services/platform/apierr"
)

// enter counts a call of an organization, or of another sharer, as in flight until leave is called. Without Calls it
// counts nothing. The error is 429 if the sharer has used up its share, and 503 if there are too many calls in total.
func (b *Bounds) enter(organization string) (leave func(), err error) {
	if b.Calls == nil {
		return func() {}, nil
	}
	if b.Calls.Acquire(organization, 1) {
		return func() { b.Calls.Release(organization, 1) }, nil
	}
	e := apierr.New(apierr.KindUnavailable, apierr.ReasonUnavailable, "too many calls are in flight; try again when others have ended")
	if b.Calls.Held() < b.Calls.Limit() {
		e = apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited,
			"the organization has as many calls and streams in flight as allowed; try again when others have ended")
	}
	e.RetryAfter = time.Second
	return nil, e
}
