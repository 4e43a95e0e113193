package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fleet is the peers' shared state in memory, which can be out of reach.
type fleet struct {
	mu      sync.Mutex
	away    bool
	lives   map[string]time.Time
	reports map[string][]Report
	at      map[string]time.Time
	leases  map[Circuit]time.Time
	asked   int
}

func newFleet() *fleet {
	return &fleet{lives: map[string]time.Time{}, reports: map[string][]Report{}, at: map[string]time.Time{}, leases: map[Circuit]time.Time{}}
}

type seat struct {
	*fleet
	name string
}

var errAway = errors.New("away")

func (s seat) Exchange(_ context.Context, reports []Report, _ bool) (View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return View{}, errAway
	}
	now := time.Now()
	s.reports[s.name], s.at[s.name] = reports, now
	view := View{Self: s.name}
	for name, reports := range s.reports {
		age := now.Sub(s.at[name])
		if age > 5*time.Second {
			continue
		}
		view.Replicas++
		for _, r := range reports {
			r.Replica, r.Age, r.For = name, r.Age+age, r.For-age
			view.Reports = append(view.Reports, r)
		}
	}
	return view, nil
}

func (s seat) Lease(_ context.Context, c Circuit, life time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.away {
		return false, errAway
	}
	if time.Now().Before(s.leases[c]) {
		return false, nil
	}
	s.leases[c] = time.Now().Add(life)
	return true, nil
}

func (s seat) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

func (f *fleet) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

// join starts n replicas that share f.
func join(t *testing.T, f *fleet, n int) (monitors []*Monitor, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range n {
		m := New(Options{Peers: seat{f, fmt.Sprint("replica-", i)}})
		m.find(here, false)
		monitors = append(monitors, m)
		wg.Go(func() { _ = m.Run(ctx) })
	}
	return monitors, func() { cancel(); wg.Wait() }
}

func trip(t *testing.T, m *Monitor) {
	t.Helper()
	for range 5 {
		do(t, m, call(), failure(500))
	}
}

func TestReplicasFollowAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 3)
		defer leave()
		time.Sleep(2 * time.Second)
		trip(t, m[0])
		time.Sleep(2 * time.Second)
		if phase(m[1]) != Closed || phase(m[2]) != Closed {
			t.Fatal("one bad replica took the vendor from the others")
		}
		trip(t, m[1])
		time.Sleep(2 * time.Second)
		if phase(m[2]) != Open || m[2].Snapshot()[0].Own {
			t.Fatal("the third does not follow two of three")
		}
		// One of the replicas that saw the failures probes; the others learn of it and may call at once.
		time.Sleep(5 * time.Second)
		if r := do(t, m[0], call(), nil); r != nil || phase(m[0]) != Closed {
			t.Fatalf("the probe: %v", r)
		}
		time.Sleep(2 * time.Second)
		if phase(m[0]) != Closed {
			t.Error("the others took the recovered replica back")
		}
		if phase(m[2]) != Closed {
			t.Error("the follower does not follow back")
		}
		if r := do(t, m[1], call(), nil); r != nil || phase(m[1]) != Closed {
			t.Errorf("the second: %v", r)
		}
	})
}

// Of replicas whose circuits opened together, one probes at a time.
func TestOneReplicaProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 2)
		defer leave()
		for _, one := range m {
			trip(t, one)
		}
		time.Sleep(7 * time.Second)
		probe, r := m[0].Acquire(t.Context(), call())
		if r != nil {
			t.Fatal(r)
		}
		if _, r := m[1].Acquire(t.Context(), call()); r == nil || r.Cause != CauseOpen {
			t.Errorf("both probe: %v", r)
		}
		probe.Fail(t.Context(), failure(500), false)
		time.Sleep(20 * time.Second)
		if r := do(t, m[1], call(), nil); r != nil || phase(m[1]) != Closed {
			t.Errorf("once the lease is over: %v", r)
		}
	})
}

func TestPeersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 3)
		defer leave()
		trip(t, m[0])
		trip(t, m[1])
		time.Sleep(2 * time.Second)
		if phase(m[2]) != Open {
			t.Fatal("the third does not follow")
		}
		f.set(true)
		time.Sleep(2 * time.Second)
		if phase(m[2]) != Closed || phase(m[0]) != Open {
			t.Error("each must go by what it sees itself")
		}
		trip(t, m[2])
		if phase(m[2]) != Open {
			t.Error("a replica alone opens no circuit")
		}
		time.Sleep(7 * time.Second)
		for i, one := range m {
			if r := do(t, one, call(), nil); r != nil || phase(one) != Closed {
				t.Errorf("replica %d alone can't probe: %v", i, r)
			}
		}
		// Within reach again: the changes made meanwhile are reported.
		f.set(false)
		time.Sleep(2 * time.Second)
		trip(t, m[0])
		trip(t, m[2])
		time.Sleep(2 * time.Second)
		if phase(m[1]) != Open {
			t.Error("two of three see it, and the other does not follow")
		}
	})
}

// The reports of a replica that dies end with it.
func TestDeadReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		m, leave := join(t, f, 1)
		defer leave()
		dead := seat{f, "dead"}
		if _, err := dead.Exchange(t.Context(), []Report{{Circuit: Circuit{"acme", "m-1"}, Open: true, For: time.Hour}}, true); err != nil {
			t.Fatal(err)
		}
		other := seat{f, "dead too"}
		if _, err := other.Exchange(t.Context(), []Report{{Circuit: Circuit{"acme", "m-1"}, Open: true, For: time.Hour}}, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if phase(m[0]) != Open {
			t.Fatal("two of three: does not follow")
		}
		time.Sleep(6 * time.Second)
		if phase(m[0]) != Closed {
			t.Error("the dead still vote")
		}
	})
}

// A closed circuit acquires no lease.
func TestClosedCircuitCostsNoRoundTrip(t *testing.T) {
	f := newFleet()
	m := New(Options{Peers: seat{f, "a"}})
	for range 100 {
		do(t, m, call(), nil)
	}
	if f.asked != 0 {
		t.Errorf("%d leases were asked for", f.asked)
	}
}
