package channel

import "time"

// maxDelay bounds how far ahead an attempt is planned, by the schedule or by an Outcome's After.
const maxDelay = 24 * time.Hour

// jitterShare is the largest random extension of a delay, as a share of it, so that messages which failed together
// are not retried together.
const jitterShare = 0.2

// Policy holds when and how often a recipient is retried.
type Policy struct {
	// Schedule holds the delays after the first, second ... failed attempt; the last one repeats.
	Schedule []time.Duration
	// MaxAttempts is the largest number of attempts.
	MaxAttempts int
}

// Step is the decision after an attempt.
type Step struct {
	// Ended reports that no further attempt follows, Delivered that the message arrived.
	Ended, Delivered bool
	// Delay is the time until the next attempt.
	Delay time.Duration
}

// Next decides what follows the attempt of that number, which ended at now. random is in [0, 1) and spreads the
// retries. An attempt that would come too late is planned for the deadline, where the recipient expires.
func (p Policy) Next(number int, o Outcome, now, deadline time.Time, random float64) Step {
	switch {
	case o.Kind == OK:
		return Step{Ended: true, Delivered: true}
	case o.Kind == Handed:
		return Step{Delay: min(max(o.After, 0), max(deadline.Sub(now), 0))}
	case o.Final, o.Kind == Gone, o.Kind == Permanent, number >= p.MaxAttempts:
		return Step{Ended: true}
	}
	delay := max(p.Schedule[min(number, len(p.Schedule))-1], o.After)
	delay += time.Duration(float64(delay) * jitterShare * random)
	return Step{Delay: max(0, min(delay, maxDelay, deadline.Sub(now)))}
}
