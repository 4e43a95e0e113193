package export

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
)

// verdict is what a vendor said of a batch: it took all, or none, because of some of them or for an unknown part.
type verdict struct {
	taken bool
	// unacceptable has the reasons by the index of an event; an empty reason means that the vendor has the event already.
	unacceptable map[int]string
	// reason is why the vendor refuses a batch without saying which event it means.
	reason string
}

// postBatch posts a batch of events to a vendor.
type postBatch func(ctx context.Context, events []Event) (verdict, error)

// maxLost is how many single events a send tries if the vendor loses all of them and decides on no other event.
const maxLost = 3

// sendAll sends events to a vendor that takes all of a batch or none. It leaves out events that the vendor rejects by
// index, and halves a batch that the vendor refuses without naming an event. After the first lost batch it starts over at
// a random event. After every lost batch it sends a single event, then doubles the batch each time one is taken. This
// finds the events that are lost alone and delivers all others. sendAll makes fewer than three posts per event, and
// 1 + maxLost posts if the vendor is down.
func sendAll(ctx context.Context, events []Event, post postBatch) (settlement, error) {
	var done settlement
	var lost []error
	size := len(events)
	for len(events) > 0 && (len(done.failing) < maxLost || len(done.taken)+len(done.refused) > 0) {
		batch, rest := events[:min(size, len(events))], events[min(size, len(events)):]
		v, err := post(ctx, batch)
		if err != nil {
			lost = append(lost, err)
		}
		if isLost(ctx, err) {
			done.lost = append(done.lost, batch...)
		}
		switch {
		case errors.Is(err, errNoTime):
			return done, errors.Join(lost...)
		case err != nil && !isLost(ctx, err):
			done.failing = nil
			return done, errors.Join(lost...)
		case err != nil && len(batch) == 1:
			done.failing, events = append(done.failing, batch[0]), postpone(rest, batch[0])
		case err != nil && len(lost) == 1:
			start := rand.IntN(len(events)) //nolint:gosec // It spreads tries and protects no secret.
			size, events = 1, slices.Concat(events[start:], events[:start])
		case err != nil:
			size = 1
		case v.taken:
			done.taken = append(done.taken, batch...)
			size, events = 2*len(batch), rest
		case len(v.unacceptable) > 0:
			acceptable, decided := without(batch, v.unacceptable)
			done.add(decided)
			events = slices.Concat(acceptable, rest)
		case len(batch) == 1:
			done.refused, events = append(done.refused, Refusal{Event: batch[0], Reason: v.reason}), rest
		default:
			size = len(batch) / 2
		}
	}
	if len(events)+len(done.failing) == 0 {
		return done, nil
	}
	return done, errors.Join(lost...)
}

// postpone moves events of the same customer and meter as e behind the others, because they may fail like e.
func postpone(events []Event, e Event) []Event {
	var others, same []Event
	for _, o := range events {
		if o.Customer == e.Customer && o.Name == e.Name {
			same = append(same, o)
		} else {
			others = append(others, o)
		}
	}
	return append(others, same...)
}

// without returns the acceptable events, and what the vendor decided on the others.
func without(events []Event, unacceptable map[int]string) (rest []Event, decided settlement) {
	for i, e := range events {
		switch why, out := unacceptable[i]; {
		case !out:
			rest = append(rest, e)
		case why != "":
			decided.refused = append(decided.refused, Refusal{Event: e, Reason: why})
		default:
			decided.taken = append(decided.taken, e)
		}
	}
	return rest, decided
}
