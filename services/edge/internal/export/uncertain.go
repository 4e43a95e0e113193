package export

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// holdTime is how long events that fail alone may hold back their page.
const holdTime = time.Hour

// setsAside reports whether events of a page that fail now are set aside: they have held back their page for holdTime
// while the destination decides on other events. The destination shows that by recognizing an event that it has taken,
// so an outage sets nothing aside.
func (s *sender) setsAside(ctx context.Context, c Cursor, settled, taken []Event, now time.Time) bool {
	if !heldBack(c, s.destination.Kind, now) {
		return false
	}
	known := s.known(ctx, slices.Concat(settled, taken), now)
	if len(known) == 0 {
		return false
	}
	done, err := s.vendor.send(ctx, known[:1])
	return err == nil && len(done.taken) > 0
}

// known returns events that the destination has taken and still recognizes: the page's, then the last one recorded. It
// leaves out refused events, which could be taken now, so that a back-fill would send them once more.
func (s *sender) known(ctx context.Context, settled []Event, now time.Time) []Event {
	d := s.destination
	last, err := s.Store.LastTaken(ctx, d.Name)
	if err != nil {
		return nil
	}
	if !last.SentAt.IsZero() && last.Account == d.account() && !d.Kind.forgets(last.SentAt, now) {
		settled = append(slices.Clip(settled), last.Event)
	}
	refused, err := s.Store.Refused(ctx, d.Name, identifiers(settled))
	if err != nil {
		return nil
	}
	return unsettled(settled, refused)
}

// heldBack reports whether a page has waited for holdTime for events that may have been taken, and a destination of a
// kind still recognizes those that it took since the page's first failure.
func heldBack(c Cursor, kind Kind, now time.Time) bool {
	if c.UnsureSince.IsZero() || c.FailingSince.IsZero() || kind.forgets(c.FailingSince, now) {
		return false
	}
	return now.Sub(c.UnsureSince) >= holdTime && now.Sub(c.FailingSince) >= holdTime
}

// forgets reports whether a destination of this kind may no longer recognize an event that was first sent at a time; it
// is zero for an event that was not sent. Sent again, the event could count twice.
func (k Kind) forgets(sent, now time.Time) bool {
	memory := k.memory()
	return memory > 0 && !sent.IsZero() && now.Sub(sent) >= memory
}

// uncertain returns refusals of events that the destination may have taken, and would count a second time. what has
// happened since a time, and why says what rules out a further try.
func uncertain(events []Event, what string, since time.Time, why string) (refused []Refusal) {
	text := fmt.Sprintf("uncertain: %s since %s, %s; if the destination does not have it, back-fill refused events",
		what, since.UTC().Format(time.RFC3339), why)
	for _, e := range events {
		refused = append(refused, Refusal{Event: e, Reason: text})
	}
	return refused
}
