package dispatch

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/platform/lifecycle"
)

// lateGrant is how late a reserved slot of a rate may be used. Later ones, after a pause of all replicas, would come
// in a burst.
const lateGrant = time.Second

// heldDelay is how long a message waits for an earlier one to the same recipient, if nothing makes it due before.
const heldDelay = time.Second

// unreadableDelay is how long a message waits that cannot be opened with the current key.
const unreadableDelay = time.Minute

// protected is handle with a recovered panic. A panic uses up an attempt, so the recipient fails after the usual
// number of attempts. The message may have been sent.
func (e *Engine) protected(sending context.Context, l Leased) (r Result) {
	began := e.o.Now()
	err := lifecycle.Protect(sending, "notify attempt", func() error {
		r = e.handle(sending, l)
		return nil
	})
	if err == nil {
		return r
	}
	e.o.Log.ErrorContext(sending, "an attempt panicked", slog.String("channel", string(e.o.Channel)),
		slog.String("notification_id", l.Notification.String()), slog.String("error", err.Error()))
	r = Result{Leased: l, Attempts: l.Attempts, Doubtful: l.Doubtful}
	return e.follow(r, channel.Lost(channel.ClassPanic), began, 0)
}

// handle decides whether a recipient may be tried now, tries it, and decides what follows.
func (e *Engine) handle(sending context.Context, l Leased) Result {
	r := Result{Leased: l, Attempts: l.Attempts, Doubtful: l.Doubtful, Granted: l.Granted}
	now := e.o.Now()
	if l.Lost && !e.o.Idempotent {
		r.note(Try{Number: l.Attempts + 1, Outcome: channel.Lost(channel.ClassLease), StartedAt: now})
	}
	switch {
	case l.Superseded && l.DeliveryID == "":
		r.Superseded, r.Step = true, channel.Step{Ended: true}
		return r
	case !now.Before(l.Deadline):
		return r.end(channel.Failed(channel.ClassExpired, 0, ""), now)
	case l.Held:
		return r.wait(until(l.Deadline, now, heldDelay))
	case r.Attempts >= e.o.Policy.MaxAttempts:
		r.Step = channel.Step{Ended: true}
		return r
	case sending.Err() != nil:
		return r.wait(0)
	}
	if !e.share.enter(l.Organization) {
		return r.wait(until(l.Deadline, now, shareWait))
	}
	defer func() {
		if e.share.leave(l.Organization) {
			e.Wake()
		}
	}()
	if wait := e.o.Breaker.Admit(sending, e.host(&l), laneOf(&l), e.o.Lease); wait > 0 {
		return r.wait(until(l.Deadline, now, wait))
	}
	if wait := e.pace(sending, &l); wait > 0 {
		e.o.Breaker.Release(sending, e.host(&l), laneOf(&l))
		r.Granted = true
		return r.wait(until(l.Deadline, now, wait))
	}
	r.Granted = false
	work, err := e.o.Opener.Open(l.Sealed, send.Owner(l.Notification, e.o.Channel))
	if err != nil {
		o := channel.Unsent(channel.Retry(channel.ClassUnreadable, 0, unreadableDelay))
		e.report(sending, &l, o)
		return e.follow(r, o, now, 0)
	}
	outcome, took := e.try(sending, l, work, r.Attempts+1)
	e.report(sending, &l, outcome)
	if outcome.Kind == channel.NoPlace {
		return r.wait(until(l.Deadline, e.o.Now(), outcome.After))
	}
	if sending.Err() != nil && outcome.Kind == channel.RetryAfter {
		return r.wait(0) // Cancelled by the drain before it was sent: not counted.
	}
	return e.follow(r, outcome, now, took)
}

// pace applies the lane's rate limit; zero means that the attempt may begin.
func (e *Engine) pace(ctx context.Context, l *Leased) time.Duration {
	if l.Lane == "" || e.o.Limiter == nil {
		return 0
	}
	if l.Granted && l.Late < lateGrant && !e.o.Limiter.Held(ctx, l.Lane) {
		return 0
	}
	return e.o.Limiter.Reserve(ctx, l.Lane)
}

// try makes the attempt. A transport that panics may have sent the message.
func (e *Engine) try(ctx context.Context, l Leased, work []byte, number int) (o channel.Outcome, took time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	began := time.Now()
	e.meters.begin(ctx)
	defer e.meters.end(ctx)
	err := lifecycle.Protect(ctx, "notify transport", func() error {
		o = e.o.Transport.Deliver(ctx, channel.Task{
			Channel: e.o.Channel, Notification: l.Notification, Organization: l.Organization, Recipient: l.ID,
			Subscription: l.Subscription, Work: work, Number: number, DeliveryID: l.DeliveryID,
			AcceptedAt: l.AcceptedAt, Deadline: l.Deadline, Update: l.Updates != nil, Reference: l.Reference,
		})
		return nil
	})
	if err != nil {
		e.o.Log.ErrorContext(ctx, "transport panicked", slog.String("channel", string(e.o.Channel)),
			slog.String("notification_id", l.Notification.String()), slog.String("error", err.Error()))
		o = channel.Lost(channel.ClassPanic)
		o.Untested = true
	}
	return o, time.Since(began)
}

// host returns the breaker's key for a recipient's destination. An origin contains no space, so keys are unique.
func (e *Engine) host(l *Leased) string {
	if !e.o.OwnBreakers {
		return l.Destination
	}
	return l.Destination + " " + l.Organization
}

// laneOf returns the recipient's lane for the breaker. Each registered device is a lane.
func laneOf(l *Leased) string {
	if l.Subscription != nil {
		return l.Subscription.String()
	}
	return l.Lane
}

// report reports an outcome to the breaker, and a rate limit to the lane.
func (e *Engine) report(ctx context.Context, l *Leased, o channel.Outcome) {
	switch {
	case ctx.Err() != nil:
		return // Cancelled: this says nothing about the destination.
	case o.Untested:
		e.o.Breaker.Release(ctx, e.host(l), laneOf(l))
		return
	}
	opened := e.o.Breaker.Report(ctx, e.host(l), laneOf(l), o.HostFailed, o.LaneFailed(), o.After)
	if opened != "" {
		e.meters.opened(ctx, opened)
		e.o.Log.WarnContext(ctx, "circuit opened", slog.String("circuit", opened), slog.String("channel", string(e.o.Channel)),
			slog.String("destination", e.host(l)), slog.String("class", string(o.Class)))
	}
	if o.Class == channel.ClassRate && l.Lane != "" && e.o.Limiter != nil {
		e.o.Limiter.Hold(ctx, l.Lane, max(o.After, time.Second))
	}
}

// follow logs an attempt and plans the next one.
func (e *Engine) follow(r Result, o channel.Outcome, began time.Time, took time.Duration) Result {
	r.DeliveryID = o.DeliveryID
	number := r.Attempts
	if o.Kind != channel.Handed {
		r.Duplicate = r.Doubtful && (o.Kind == channel.OK || o.Kind == channel.Unknown)
		number++
		r.note(Try{Number: number, Outcome: o, StartedAt: began, Took: took})
	}
	r.Step = e.o.Policy.Next(number, o, e.o.Now(), r.Leased.Deadline, e.o.Random())
	return r
}

// note adds an attempt to the log of a result.
func (r *Result) note(t Try) {
	r.Tries = append(r.Tries, t)
	r.Attempts = t.Number
	if t.Outcome.Kind == channel.Unknown {
		r.Doubtful = true
	}
}

// end ends a recipient without a further attempt.
func (r Result) end(o channel.Outcome, now time.Time) Result {
	r.note(Try{Number: r.Attempts + 1, Outcome: o, StartedAt: now})
	r.Step = channel.Step{Ended: true}
	return r
}

// wait returns a recipient to the queue untried.
func (r Result) wait(d time.Duration) Result {
	r.Step = channel.Step{Delay: d}
	return r
}

// until moves a time after the deadline to the deadline itself, where the recipient expires.
func until(deadline, now time.Time, wait time.Duration) time.Duration {
	return max(0, min(wait, deadline.Sub(now)))
}
