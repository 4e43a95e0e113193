package admission

import (
	"hash/maphash"
	"sync"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/budget"
)

// shards keep requests of different organizations out of each other's way.
const shards = 64

// maxSessions bounds what a replica says of its sessions in flight.
const maxSessions = 10000

// live are the requests in flight of this replica, by organization, so that
// ending them costs what they are and no more.
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

func (l *live) leave(g *grant) {
	s := l.shard(g.organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[g.organization]
	if delete(of, g); len(of) == 0 {
		delete(s.of, g.organization)
	}
}

// hold notes the reservation that a request has.
func (l *live) hold(g *grant, reserved uuid.UUID) {
	s := l.shard(g.organization)
	s.mu.Lock()
	defer s.mu.Unlock()
	g.reserved = reserved
}

// endCall ends the request that holds a reservation. It looks at all of them,
// since it is rare.
func (l *live) endCall(reserved uuid.UUID, cause error) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, of := range s.of {
			for g := range of {
				if g.reserved == reserved {
					g.cancel(cause)
				}
			}
		}
		s.mu.Unlock()
	}
}

// end ends the requests of an organization, or of one run of it.
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

// sessions counts the requests in flight of each run.
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

// of counts those of one run.
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
