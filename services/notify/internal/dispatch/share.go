package dispatch

import (
	"sync"
	"time"
)

// shareWait is how long a recipient waits whose organization has no attempt left. Claims skip the organization
// meanwhile.
const shareWait = 250 * time.Millisecond

// share bounds the attempts of one organization in flight, so that slow receivers of one leave slots to the others.
type share struct {
	most int // per organization; zero for no bound

	mu    sync.Mutex
	under map[string]int
}

func newShare(most int) *share { return &share{most: most, under: make(map[string]int)} }

// enter reports whether another attempt of an organization may begin; leave ends it.
func (s *share) enter(organization string) bool {
	if s.most == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under[organization] >= s.most {
		return false
	}
	s.under[organization]++
	return true
}

// leave ends an attempt. It reports whether the organization had used up its share, so that its next recipient may
// wait.
func (s *share) leave(organization string) (full bool) {
	if s.most == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	full = s.under[organization] >= s.most
	if s.under[organization]--; s.under[organization] == 0 {
		delete(s.under, organization)
	}
	return full
}

// full returns the organizations that have used up their share; never nil.
func (s *share) full() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := []string{}
	for organization, n := range s.under {
		if s.most > 0 && n >= s.most {
			full = append(full, organization)
		}
	}
	return full
}
