package export

import (
	"context"
	"fmt"
	"time"
)

// holdTime is how long events that fail alone may hold back their page.
const holdTime = time.Hour

// setAside returns refusals of the failing events if they have held back their page for holdTime while the destination
// decides on other events. The destination shows that by recognizing an event of the page that it has taken, so an
// outage sets nothing aside.
func (s *sender) setAside(ctx context.Context, c Cursor, failing, settled []Event, now time.Time) []Refusal {
	if len(failing) == 0 || !heldBack(c, s.destination.Kind.memory(), now) {
		return nil
	}
	refused, err := s.Store.Refused(ctx, c.Destination, identifiers(settled))
	if err != nil {
		return nil
	}
	taken := unsettled(settled, refused) // A refused event could be taken now, and a back-fill would send it once more.
	if len(taken) == 0 {
		return nil
	}
	if done, err := s.vendor.send(ctx, taken[:1]); err != nil || len(done.taken) == 0 {
		return nil
	}
	return uncertain(failing, "answered with 5xx", c.UnsureSince, "while the destination took other events")
}

// heldBack reports whether a page has waited for holdTime for events that may have been taken, and the destination still
// recognizes those that it took since the page's first failure. memory is zero for a destination that never forgets.
func heldBack(c Cursor, memory time.Duration, now time.Time) bool {
	if c.UnsureSince.IsZero() || c.FailingSince.IsZero() {
		return false
	}
	failing := now.Sub(c.FailingSince)
	return now.Sub(c.UnsureSince) >= holdTime && failing >= holdTime && (memory == 0 || failing < memory)
}

// forgets reports whether a destination of this kind may no longer recognize events of a cursor's page that it has taken.
// Sent again, they could count twice.
func (k Kind) forgets(c Cursor, now time.Time) bool {
	memory := k.memory()
	return memory > 0 && !c.UnsureSince.IsZero() && now.Sub(c.UnsureSince) >= memory
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
