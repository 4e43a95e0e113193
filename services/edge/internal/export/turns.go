package export

import (
	"cmp"
	"slices"
)

// maxTurns bounds the customers and meters that turns remembers.
const maxTurns = 10_000

// customerMeter is a meter of a customer, in the destination's names.
type customerMeter struct{ customer, name string }

// turns remembers the customers and meters whose requests a destination lost, so that the others' events are sent first.
// The zero turns remembers none. After a restart it learns them anew.
type turns struct {
	// losses has the number of each one's last loss. Later losses have higher numbers.
	losses map[customerMeter]int
	number int
}

// order sorts events. Customers and meters whose last request was not lost come first. The others follow, with the
// earliest loss first.
func (t *turns) order(events []Event) {
	loss := func(e Event) int { return t.losses[customerMeter{e.Customer, e.Name}] }
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(loss(a), loss(b)) })
}

// note records what became of the events of a send.
func (t *turns) note(done settlement) {
	if t.losses == nil || len(t.losses) > maxTurns {
		t.losses = make(map[customerMeter]int)
	}
	for _, e := range done.lost {
		t.number++
		t.losses[customerMeter{e.Customer, e.Name}] = t.number
	}
	for _, e := range done.taken {
		delete(t.losses, customerMeter{e.Customer, e.Name})
	}
	for _, r := range done.refused {
		delete(t.losses, customerMeter{r.Customer, r.Name})
	}
	for _, e := range done.failing {
		t.number++
		t.losses[customerMeter{e.Customer, e.Name}] = t.number
	}
}
