package export

import (
	"context"
	"strings"
	"testing"
	"time"
)

// failsSome is a vendor that answers 5xx for some events, each in a request to itself, and takes the others.
type failsSome struct {
	fails func(identifier string) bool
	got   map[string]int
}

func (*failsSome) batch() int { return 20 }

func (f *failsSome) send(_ context.Context, events []Event) (done settlement, err error) {
	for _, e := range events {
		f.got[e.Identifier]++
		if f.fails(e.Identifier) {
			done.failing = append(done.failing, e)
			err = &lostError{&laterError{status: 500}}
			continue
		}
		done.taken = append(done.taken, e)
	}
	return done, err
}

// Events that fail alone for an hour are set aside, and their page goes on. As long as the destination takes no other
// event, or an event failed for less than an hour, all wait.
func TestEventsThatFailAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		after time.Duration
		// outage reports whether every event fails by then.
		outage bool
		// failingSince is when the page's failures began.
		failingSince time.Time
		refused      bool // The destination refused the other events, so none shows that it takes events.
		aside        int
	}{
		"for an hour":            {time.Hour, false, hour, false, 2},
		"for less":               {59 * time.Minute, false, hour, false, 0},
		"in an outage":           {time.Hour, true, hour, false, 0},
		"just now":               {time.Hour, false, hour.Add(30 * time.Minute), false, 0},
		"others are unsure, too": {2 * time.Hour, false, hour.Add(-22 * time.Hour), false, 0},
		"others are refused":     {time.Hour, false, hour, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := &memory{fence: 1}
			store.fill(30)
			poison := map[string]bool{store.growths[7].Entry().ID + "/llm_requests": true, store.growths[25].Entry().ID + "/llm_requests": true}
			outage := false
			v := &failsSome{fails: func(id string) bool { return outage || poison[id] }, got: make(map[string]int)}
			s := newSender(t, store, v)
			s.destination.Kind = Stripe
			for range 2 { // The second batch is sent once the first has only its failing event left.
				if _, err := s.round(t.Context(), hour); err == nil {
					t.Fatal("the page did not fail")
				}
			}
			if tt.refused {
				for _, id := range store.cursor.Settled {
					store.refused = append(store.refused, Refusal{Event: Event{Identifier: id}})
				}
			}
			before := len(store.refused)
			outage, store.cursor.FailingSince = tt.outage, tt.failingSince
			_, err := s.round(t.Context(), hour.Add(tt.after))
			aside := store.refused[before:]
			if len(aside) != tt.aside || (err == nil) != (tt.aside > 0) || (store.cursor.Position == "30") != (tt.aside > 0) {
				t.Fatalf("%v, cursor %+v, set aside %+v; want %d", err, store.cursor, aside, tt.aside)
			}
			for _, r := range aside {
				if !poison[r.Identifier] || !strings.HasPrefix(r.Reason, "uncertain: ") {
					t.Errorf("set aside %+v", r)
				}
			}
		})
	}
}

// If all events of a page fail alone, the event that the destination took last shows whether it is up. A process that has
// just begun knows that event, too. An event that the destination may have forgotten, or that another account took, is
// not sent.
func TestEventThatShowsThatADestinationIsUp(t *testing.T) {
	here := Destination{Name: "d", Kind: Stripe, Meters: map[string]string{"llm_requests": "calls"}}
	for name, tt := range map[string]struct {
		last  LastTaken
		aside bool
	}{
		"none":            {LastTaken{}, false},
		"an hour ago":     {LastTaken{Event{Identifier: "last"}, hour, here.account()}, true},
		"forgotten":       {LastTaken{Event{Identifier: "last"}, hour.Add(-22 * time.Hour), here.account()}, false},
		"another account": {LastTaken{Event{Identifier: "last"}, hour, "stripe https://elsewhere"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := &memory{fence: 1}
			store.fill(5)
			v := &failsSome{fails: func(id string) bool { return id != "last" }, got: make(map[string]int)}
			for _, at := range []time.Time{hour, hour.Add(time.Hour)} {
				s := newSender(t, store, v)
				s.destination = here
				_, _ = s.round(t.Context(), at)
				store.last = tt.last
			}
			if aside := len(store.refused) == 5; aside != tt.aside || v.got["last"] > 0 != tt.aside {
				t.Errorf("%d of 5 events are set aside, the last was sent %d times; want %t", len(store.refused), v.got["last"], tt.aside)
			}
		})
	}
}
