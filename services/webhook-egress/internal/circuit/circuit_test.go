package circuit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

var begin = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

// What the breaker knows comes before what the store does, and the store's time of the opening before the phase's.
func TestCircuitOf(t *testing.T) {
	waiting := Stored{Waiting: true, OpenedAt: at(1), ParkedUntil: at(40), Openings: 2, Failures: 7, LastFailedAt: at(3), LastDeliveredAt: at(-9), Endpoints: 1}
	known := func(c Circuit) Circuit {
		c.Failures, c.LastFailedAt, c.LastDeliveredAt, c.Endpoints = 7, at(3), at(-9), 1
		return c
	}
	earlier := waiting
	earlier.OpenedAt = time.Time{}
	for name, tt := range map[string]struct {
		stored Stored
		state  breaker.State
		want   Circuit
	}{
		"neither knows it":      {Stored{}, breaker.State{}, Circuit{State: StateClosed}},
		"only the store":        {waiting, breaker.State{}, known(Circuit{State: StateOpen, OpenedAt: at(1), NextAttemptAt: at(40), Openings: 2})},
		"both":                  {waiting, breaker.State{Phase: breaker.Open, Since: at(9), Changed: at(9), Opened: 3, Until: at(80)}, known(Circuit{State: StateOpen, OpenedAt: at(1), NextAttemptAt: at(80), Openings: 3})},
		"only the breaker":      {Stored{}, breaker.State{Phase: breaker.Open, Since: at(9), Changed: at(9), Opened: 1, Until: at(19)}, Circuit{State: StateOpen, OpenedAt: at(9), NextAttemptAt: at(19), Openings: 1}},
		"it is being tried":     {waiting, breaker.State{Phase: breaker.HalfOpen, Since: at(9), Changed: at(9), Opened: 2}, known(Circuit{State: StateHalfOpen, OpenedAt: at(1), Openings: 2})},
		"it has just closed":    {waiting, breaker.State{Changed: at(50), Opened: 2}, known(Circuit{State: StateClosed})},
		"before the migration":  {earlier, breaker.State{Phase: breaker.Open, Since: at(9), Changed: at(9), Opened: 2, Until: at(80)}, known(Circuit{State: StateOpen, OpenedAt: at(9), NextAttemptAt: at(80), Openings: 2})},
		"failures, but not yet": {Stored{Failures: 2}, breaker.State{Changed: at(1), Row: 2}, Circuit{State: StateClosed, Failures: 2}},
	} {
		tt.want.Host = tt.want.State
		if diff := cmp.Diff(tt.want, circuitOf(tt.stored, tt.state, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// If the host's circuit is closed, the circuits of its flows count, except those that have closed meanwhile.
func TestCircuitsOfFlows(t *testing.T) {
	open := func(seconds int) StoredFlow {
		return StoredFlow{ID: 1, Endpoint: delivery.ID{1}, OpenedAt: at(seconds), ParkedUntil: at(90), Openings: seconds, Failures: 5}
	}
	stored := Stored{Flows: []StoredFlow{open(1), open(2), open(3)}, WaitingFlows: 30}
	half := breaker.State{Phase: breaker.HalfOpen, Since: at(5), Changed: at(5), Opened: 4}
	closed := breaker.State{Changed: at(50)}
	first := Flow{Endpoint: delivery.ID{1}, State: StateHalfOpen, OpenedAt: at(1), Openings: 4, Failures: 5}
	third := Flow{Endpoint: delivery.ID{1}, State: StateOpen, OpenedAt: at(3), NextAttemptAt: at(90), Openings: 3, Failures: 5}
	for name, tt := range map[string]struct {
		states []breaker.State
		want   Circuit
	}{
		"one is open":     {[]breaker.State{{}, half, closed, {}}, Circuit{Host: StateClosed, State: StateOpen, OpenedAt: at(1), NextAttemptAt: at(90), Openings: 4, Flows: []Flow{first, third}, WaitingFlows: 29}},
		"one is tried":    {[]breaker.State{{}, half, closed, closed}, Circuit{Host: StateClosed, State: StateHalfOpen, OpenedAt: at(1), Openings: 4, Flows: []Flow{first}, WaitingFlows: 28}},
		"all have closed": {[]breaker.State{{}, closed, closed, closed}, Circuit{Host: StateClosed, State: StateClosed, WaitingFlows: 27}},
		"the host's, too": {[]breaker.State{half, half, closed, closed}, Circuit{Host: StateHalfOpen, State: StateHalfOpen, OpenedAt: at(5), Openings: 4, Flows: []Flow{first}, WaitingFlows: 28}},
	} {
		if diff := cmp.Diff(tt.want, circuitOf(stored, tt.states[0], tt.states[1:])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// fake has targets of the organization acme, by their ports: every tenth is open, or by the breaker half-open.
type fake struct {
	targets int
	asked   int
	err     error
}

func (f *fake) Targets(_ context.Context, organization string, _, waiting bool, after breaker.Target, limit int) (found []Stored, err error) {
	f.asked++
	if organization == "other" {
		return nil, f.err
	}
	for port := after.Port + 1; port <= f.targets && len(found) < limit; port++ {
		if open := port%10 == 0; open || !waiting {
			found = append(found, Stored{Target: breaker.Target{Organization: "acme", Host: "h", Port: port}, Waiting: open})
		}
	}
	return found, f.err
}

func (f *fake) States(_ context.Context, targets []breaker.Target) []breaker.State {
	states := make([]breaker.State, len(targets))
	for i, target := range targets {
		if target.Port%20 == 0 {
			states[i] = breaker.State{Phase: breaker.HalfOpen, Changed: begin}
		}
	}
	return states
}

func TestList(t *testing.T) {
	for name, tt := range map[string]struct {
		filter Filter
		want   int
	}{
		"all":               {Filter{Every: true}, 60},
		"closed":            {Filter{Every: true, States: []State{StateClosed}}, 54},
		"open":              {Filter{Organization: "acme", States: []State{StateOpen}}, 3},
		"half-open":         {Filter{Organization: "acme", States: []State{StateHalfOpen}}, 3},
		"open or half-open": {Filter{Every: true, States: []State{StateOpen, StateHalfOpen}}, 6},
		"another's":         {Filter{Organization: "other"}, 0},
	} {
		for _, limit := range []int{1, 7, 59, 60, 200} {
			s := NewService(&fake{targets: 60}, &fake{})
			var ports []int
			for after := (breaker.Target{}); ; {
				page, next, err := s.List(t.Context(), tt.filter, after, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("%s: %d circuits, %v", name, len(page), err)
				}
				for _, c := range page {
					if len(tt.filter.States) > 0 && !cmp.Equal(tt.filter.States[0], c.State) && len(tt.filter.States) == 1 {
						t.Errorf("%s: port %d is %s", name, c.Target.Port, c.State)
					}
					if ports = append(ports, c.Target.Port); len(ports) > 1 && ports[len(ports)-2] >= c.Target.Port {
						t.Fatalf("%s, pages of %d: ports %v", name, limit, ports)
					}
				}
				if after = next; after == (breaker.Target{}) {
					break
				}
			}
			if len(ports) != tt.want {
				t.Errorf("%s, pages of %d: %d circuits, want %d", name, limit, len(ports), tt.want)
			}
		}
	}
}

// A filter that selects little examines a bounded number of targets for each page.
func TestListIsBounded(t *testing.T) {
	store := &fake{targets: 9000}
	page, next, err := NewService(store, &none{}).List(t.Context(), Filter{Every: true, States: []State{StateClosed, StateHalfOpen}}, breaker.Target{}, 200)
	if err != nil || len(page) != 0 || next.Port != listWindow*listWindows+listWindows || store.asked != listWindows {
		t.Errorf("%d circuits up to %+v after %d windows, %v", len(page), next, store.asked, err)
	}
}

// none has every circuit open.
type none struct{}

func (none) States(_ context.Context, targets []breaker.Target) []breaker.State {
	states := make([]breaker.State, len(targets))
	for i := range states {
		states[i] = breaker.State{Phase: breaker.Open, Changed: begin}
	}
	return states
}

func TestListRefuses(t *testing.T) {
	failed := errors.New("away")
	if _, _, err := NewService(&fake{err: failed}, none{}).List(t.Context(), Filter{Every: true}, breaker.Target{}, 1); !errors.Is(err, failed) {
		t.Errorf("%v, want the store's error", err)
	}
	for _, text := range []string{"a\x00", "\xff"} {
		for _, after := range []breaker.Target{{Organization: text}, {Host: text}} {
			_, _, err := NewService(&fake{}, none{}).List(t.Context(), Filter{Every: true}, after, 1)
			if shown := apierr.From(err); err == nil || shown.Kind != apierr.KindInvalid {
				t.Errorf("after %+v: %v, want it refused", after, err)
			}
		}
	}
}
