package breaker

import (
	"sync"
	"time"

	"switchyard.dev/services/platform/alive"
)

const (
	// maxAnswered is the largest number of hosts whose answers a replica remembers.
	maxAnswered = 10_000
	// recent is how long an answer counts that only this replica saw. It is shorter than Policy.Window, because another
	// replica may have seen the flow fail since.
	recent = 15 * time.Second
	// noteEvery is the shortest time between two updates of a flow's last answer.
	noteEvery = time.Second
)

// answers remembers which flows of each host got an answer at this replica. While nothing fails, replicas don't share
// this; the first failure at a host takes it into account. It is safe for concurrent use.
type answers struct {
	mu    sync.Mutex
	hosts map[Target]*alive.Flows
}

// note records an outcome that is reported to a host.
func (a *answers) note(o Observation, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	flows := a.hosts[o.Target]
	switch {
	case o.Event == Failed && flows != nil:
		*flows = flows.Without(o.Flow)
	case o.Event == Passed && flows == nil:
		if len(a.hosts) >= maxAnswered {
			a.forget()
		}
		made := alive.Flows{}.With(o.Flow, now)
		a.hosts[o.Target] = &made
	case o.Event == Passed && now.Sub(flows.Last(o.Flow)) >= noteEvery:
		*flows = flows.With(o.Flow, now)
	}
}

// of returns the flows of a host that got an answer.
func (a *answers) of(host Target) alive.Flows {
	a.mu.Lock()
	defer a.mu.Unlock()
	if flows := a.hosts[host]; flows != nil {
		return *flows
	}
	return alive.Flows{}
}

// forget makes room for an eighth of all hosts at once.
func (a *answers) forget() {
	for host := range a.hosts {
		if len(a.hosts) <= maxAnswered-maxAnswered/8 {
			return
		}
		delete(a.hosts, host)
	}
}
