package quota

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Times of the shared books, which every Store keeps.
const (
	// Life is how long a replica counts as alive after its last exchange.
	Life = 5 * time.Second
	// Silence is the time without any exchange after which the books are taken for lost: replicas then went on
	// alone, or the server came back with an old copy.
	Silence = 3 * time.Second
	// Gathering is how long replicas have to appear when an epoch begins.
	Gathering = 1500 * time.Millisecond
	// OrderWait is when a place that is behind others asks again.
	OrderWait = 100 * time.Millisecond
	// WaitingSlack is how long after its announced wait a waiting caller keeps its place before those of other replicas.
	WaitingSlack = 1500 * time.Millisecond
	// ConcurrentWait is when a call that is one too many asks again.
	ConcurrentWait = 250 * time.Millisecond
)

// Memory is a Store in memory: for a replica alone, and for tests. Its zero value is empty.
type Memory struct {
	// alone: there is one replica, and its books are never incomplete.
	alone bool

	mu                 sync.Mutex
	epoch              string
	started, heartbeat time.Time
	trusted            bool
	members            map[string]time.Time
	expected           map[string]bool // replicas that have yet to replay
	replayed           map[string]bool
	sequences          map[string]int64
	subjects           map[Subject]*shared
	queues             map[string]*turns
	swept              time.Time
}

// shared is what all replicas booked of a subject.
type shared struct {
	window   Window
	outside  Outside
	holds    map[string]time.Time
	replayed map[int64]replay
}

// replay is what replicas granted in a slot before the books began: their sum, and the most that one knows of.
type replay struct{ own, known Amount }

func (r replay) booked() Amount { return r.own.max(r.known) }

var _ Store = (*Memory)(nil)

// Reserve implements Store.
func (m *Memory) Reserve(_ context.Context, r Request) (Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	g := Grant{Alternative: -1, Now: now}
	if !m.alone && (m.epoch == "" || m.epoch != r.Epoch || !m.trusted || now.Sub(m.heartbeat) > Silence) {
		return g, ErrEpoch
	}
	var q *turns
	if r.Place != nil {
		q = m.queue(r.Place.Queue)
		served := q.served[r.Place.Organization]
		if !q.known(r.Place.Organization) {
			served = r.Place.Served
		}
		g.Served, g.Reached = served, q.reached
		if r.Place.Joins {
			g.Served = max(served, q.least(m.members, now))
		}
		if q.behind(r, g.Served, m.members, now) {
			g.Short = []Shortage{{CauseOrder, -1, OrderWait}}
			q.wait(r, g, now)
			return g, nil
		}
	}
	for i, bookings := range r.Alternatives {
		short := m.short(bookings, now)
		if short.Wait > 0 {
			g.Short = append(g.Short, short)
			continue
		}
		g.Alternative, g.Leases, g.Short = i, m.commit(r, bookings, now), nil
		g.Used = m.used(r.Alternatives[:i+1], now)
		q.serve(r, &g, now)
		return g, nil
	}
	g.Used = m.used(r.Alternatives, now)
	if q != nil {
		q.wait(r, g, now)
	}
	return g, nil
}

func (m *Memory) used(alternatives [][]Booking, now time.Time) [][]Amount {
	all := make([][]Amount, len(alternatives))
	for i, bookings := range alternatives {
		for _, b := range bookings {
			all[i] = append(all[i], m.subject(b.Subject).window.used(now.Unix()))
		}
	}
	return all
}

// short returns the longest of the shortages of bookings.
func (m *Memory) short(bookings []Booking, now time.Time) (longest Shortage) {
	for i, b := range bookings {
		s := m.subject(b.Subject)
		wait, cause := check(&s.window, s.outside, b.Limit, b.amount(), b.Steady, now)
		if b.Limit.Concurrent > 0 && wait == 0 {
			maps.DeleteFunc(s.holds, func(_ string, until time.Time) bool { return !until.After(now) })
			if len(s.holds) >= b.Limit.Concurrent {
				wait, cause = ConcurrentWait, CauseConcurrent
			}
		}
		if wait > longest.Wait {
			longest = Shortage{cause, i, wait}
		}
	}
	return longest
}

// commit books what fits, and leases what is left of it.
func (m *Memory) commit(r Request, bookings []Booking, now time.Time) []Amount {
	leases := make([]Amount, len(bookings))
	for i, b := range bookings {
		s := m.subject(b.Subject)
		s.window.Add(now.Unix(), b.amount())
		if b.Lease != (Amount{}) {
			if wait, _ := check(&s.window, s.outside, b.Limit, b.Lease, b.Steady, now); wait == 0 {
				s.window.Add(now.Unix(), b.Lease)
				leases[i] = b.Lease
			}
		}
		if b.Limit.Concurrent > 0 {
			s.holds[r.ID] = now.Add(r.Hold)
		}
	}
	return leases
}

// Exchange implements Store.
func (m *Memory) Exchange(_ context.Context, r Report) (View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.epoch == "" || !m.alone && now.Sub(m.heartbeat) > Silence {
		m.begin(r.Candidate, now)
	}
	m.heartbeat, m.members[r.Replica] = now, now
	maps.DeleteFunc(m.members, func(_ string, seen time.Time) bool { return now.Sub(seen) >= Life })
	m.expected[r.Replica] = true
	for _, replica := range r.Members {
		m.expected[replica] = true
	}
	if r.Epoch == m.epoch {
		if r.Sequence > m.sequences[r.Replica] {
			m.sequences[r.Replica] = r.Sequence
			m.apply(r, now)
		}
		if r.Replayed {
			m.replayed[r.Replica] = true
		}
	}
	m.trusted = m.trusted || m.alone || now.Sub(m.started) >= span || now.Sub(m.started) >= Gathering && m.complete()
	if now.Sub(m.swept) > time.Minute {
		m.sweep(now)
	}
	return View{Epoch: m.epoch, Trusted: m.trusted, Members: slices.Sorted(maps.Keys(m.members)), Now: now}, nil
}

func (m *Memory) begin(epoch string, now time.Time) {
	m.epoch, m.started, m.trusted = epoch, now, false
	m.members, m.expected, m.replayed = map[string]time.Time{}, map[string]bool{}, map[string]bool{}
	m.sequences, m.subjects, m.queues = map[string]int64{}, map[Subject]*shared{}, map[string]*turns{}
}

func (m *Memory) complete() bool {
	for replica := range m.expected {
		if !m.replayed[replica] {
			return false
		}
	}
	return true
}

func (m *Memory) apply(r Report, now time.Time) {
	for _, e := range r.Entries {
		s, amount := m.subject(e.Subject), e.Amount
		if e.Replay {
			amount = s.replay(e)
		}
		s.window.advance(now.Unix())
		s.window.Add(min(e.Slot, now.Unix()), amount)
	}
	for _, h := range r.Holds {
		if holds := m.subject(h.Subject).holds; h.For > 0 {
			holds[h.ID] = now.Add(h.For)
		} else {
			delete(holds, h.ID)
		}
	}
	for _, n := range r.News {
		m.subject(n.Subject).outside.Learn(n, now)
	}
	for _, s := range r.Served {
		if q := m.queue(s.Queue); q.known(s.Organization) {
			q.served[s.Organization] += s.Cost
		}
	}
	for _, w := range r.Queues {
		delete(m.queue(w.Queue).waiting, r.Replica)
	}
}

// replay returns what a replayed entry adds to its slot.
func (s *shared) replay(e Entry) Amount {
	if s.replayed == nil {
		s.replayed = make(map[int64]replay)
	}
	before := s.replayed[e.Slot]
	after := replay{before.own.plus(e.Amount), before.known.max(e.Known)}
	s.replayed[e.Slot] = after
	return after.booked().minus(before.booked())
}

// Snapshots implements Store.
func (m *Memory) Snapshots(_ context.Context, epoch string, subjects []Subject) ([]Snapshot, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if epoch != m.epoch {
		return nil, now, ErrEpoch
	}
	all := make([]Snapshot, len(subjects))
	for i, name := range subjects {
		if s := m.subjects[name]; s != nil {
			s.window.advance(now.Unix())
			all[i] = Snapshot{s.window, s.outside}
		}
	}
	return all, now, nil
}

// sweep forgets what would be the same if it were new.
func (m *Memory) sweep(now time.Time) {
	m.swept = now
	maps.DeleteFunc(m.subjects, func(_ Subject, s *shared) bool {
		return s.window.used(now.Unix()) == Amount{} && len(s.holds) == 0 && s.outside.over(now)
	})
	for name, q := range m.queues {
		least := q.least(m.members, now)
		maps.DeleteFunc(q.served, func(_ string, served float64) bool { return served <= least })
		maps.DeleteFunc(q.waiting, func(_ string, h waitingHead) bool { return !h.until.After(now) })
		if len(q.served) == 0 && len(q.waiting) == 0 {
			delete(m.queues, name)
		}
	}
}

func (m *Memory) subject(name Subject) *shared {
	s := m.subjects[name]
	if s == nil {
		s = &shared{holds: make(map[string]time.Time)}
		m.subjects[name] = s
	}
	return s
}

func (m *Memory) queue(name string) *turns {
	q := m.queues[name]
	if q == nil {
		q = &turns{served: make(map[string]float64), waiting: make(map[string]waitingHead)}
		m.queues[name] = q
	}
	return q
}

// Lose forgets everything, as a server does that is restarted without a copy. Only tests need it.
func (m *Memory) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = ""
}
