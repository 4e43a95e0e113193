package status

import (
	"context"
	"slices"
)

// Reporter combines a Monitor with the facts of this replica.
type Reporter struct {
	Monitor *Monitor
	facts   func() Facts
}

// NewReporter returns a Reporter and lets the monitor record the providers' health from then on. facts returns the
// present facts.
func NewReporter(m *Monitor, facts func() Facts) *Reporter {
	m.watched = func() map[string]string {
		statuses := make(map[string]string)
		for _, p := range Providers(facts()) {
			statuses[providerMark(p.Name)] = string(p.Health)
		}
		return statuses
	}
	return &Reporter{m, facts}
}

func providerMark(provider string) string { return "provider:" + provider }

// Providers returns the configured providers, with the beginning of their health.
func (r *Reporter) Providers() []Provider {
	providers := Providers(r.facts())
	for i := range providers {
		p := &providers[i]
		p.Since = r.Monitor.Mark(providerMark(p.Name), string(p.Health))
	}
	return providers
}

// Availability returns the gateway's dependencies as last measured.
func (r *Reporter) Availability() Availability {
	ready := !slices.ContainsFunc(r.Monitor.Ready(), func(c Check) bool { return c.Err != nil })
	return Assess(r.facts(), func(name string) *Ping {
		if _, configured := r.Monitor.Sources.Pings[name]; !configured {
			return nil
		}
		return new(r.Monitor.Ping(name))
	}, r.Monitor.Fleet().Vendors, ready)
}

// Fleet returns the present verdict.
func (r *Reporter) Fleet() Fleet {
	if fleet := r.Monitor.Fleet(); !fleet.At.IsZero() {
		return fleet
	}
	return r.Monitor.Refresh(context.Background()) // Before the first refresh.
}
