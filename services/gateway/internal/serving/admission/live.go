package admission

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/budget"
)

// shards is the number of locks that the requests in flight are spread over, so that organizations rarely contend.
const shards = 64

// maxSessions bounds the number of sessions that a replica reports as in flight.
const maxSessions = 10000

// live holds the requests in flight of this replica, by organization, so that ending those of one organization costs
// time in proportion to their number.
type live struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu sync.Mutex
	of map[string]map[*grant]struct{}
}

func newLive() *live {
	l := &live{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].of = make(map[string]map[*grant]struct{})
	}
	return l
}

func (l *live) shard(organization string) *shard {
	return &l.shards[maphash.String(l.seed, organization)%shards]
}

func (l *live) enter(g *grant) {
	s := l.shard(g.organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[g.organization]
	if of == nil {
		of = make(map[*grant]struct{})
		s.of[g.organization] = of
	}
	of[g] = struct{}{}
}

func (l *live) remove(g *grant) {
	s := l.shard(g.organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[g.organization]
	if delete(of, g); len(of) == 0 {
		delete(s.of, g.organization)
	}
}

// replace replaces one of a request's reservations, where uuid.Nil is none, and reports whether there was such a one.
func (l *live) replace(g *grant, old, reserved uuid.UUID) bool {
	s := l.shard(g.organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(g.reserved[:], old)
	if i < 0 {
		return false
	}
	g.reserved[i] = reserved
	return true
}

// endCall ends the request that holds a reservation. It searches all requests in flight: calls are rare.
func (l *live) endCall(reserved uuid.UUID, cause error) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, of := range s.of {
			for g := range of {
				if slices.Contains(g.reserved[:], reserved) {
					g.cancel(cause)
				}
			}
		}
		s.mu.Unlock()
	}
}

// end ends the requests of an organization, or those of one run where run is not empty.
func (l *live) end(organization, run string, cause error) {
	s := l.shard(organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.of[organization] {
		if run == "" || g.run == run {
			g.cancel(cause)
		}
	}
}

// sessions returns the number of requests in flight of each run.
func (l *live) sessions() map[budget.Session]int {
	counts := make(map[budget.Session]int)
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for organization, of := range s.of {
			for g := range of {
				if at := (budget.Session{Organization: organization, Run: g.run}); g.run != "" && (len(counts) < maxSessions || counts[at] > 0) {
					counts[at]++
				}
			}
		}
		s.mu.Unlock()
	}
	return counts
}

// of returns the number of requests in flight of one run.
func (l *live) of(organization, run string) (n int64) {
	s := l.shard(organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.of[organization] {
		if g.run == run {
			n++
		}
	}
	return n
}
