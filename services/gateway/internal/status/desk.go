package status

import (
	"context"
	"slices"
)

// Desk shows what a Monitor and the fleet's facts come to.
type Desk struct {
	Monitor *Monitor
	facts   func() Facts
}

// NewDesk returns a desk, whose monitor watches the providers from then on. facts
// gives the present ones.
func NewDesk(m *Monitor, facts func() Facts) *Desk {
	m.watched = func() map[string]string {
		statuses := make(map[string]string)
		for _, p := range Providers(facts()) {
			statuses[markOf(p.Name)] = string(p.Health)
		}
		return statuses
	}
	return &Desk{m, facts}
}

func markOf(provider string) string { return "provider:" + provider }

// Providers are those configured, with since when their health holds.
func (d *Desk) Providers() []Provider {
	providers := Providers(d.facts())
	for i := range providers {
		p := &providers[i]
		p.Since = d.Monitor.Mark(markOf(p.Name), string(p.Health))
	}
	return providers
}

// Availability is what the gateway depends on, as it was last measured.
func (d *Desk) Availability() Availability {
	ready := !slices.ContainsFunc(d.Monitor.Ready(), func(c Check) bool { return c.Err != nil })
	return Assess(d.facts(), func(name string) *Ping {
		if _, configured := d.Monitor.Sources.Pings[name]; !configured {
			return nil
		}
		return new(d.Monitor.Ping(name))
	}, d.Monitor.Fleet().Vendors, ready)
}

// Fleet is the verdict of this moment.
func (d *Desk) Fleet() Fleet {
	if fleet := d.Monitor.Fleet(); !fleet.At.IsZero() {
		return fleet
	}
	return d.Monitor.Look(context.Background()) // Before the first beat.
}
