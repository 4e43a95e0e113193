package dispatch

import (
	"sync"
	"time"
)

// shareWait is how long a recipient is put back for which its organization has no
// attempt left. Claims pass over the organization meanwhile.
const shareWait = 250 * time.Millisecond

// share bounds how many attempts of one organization are under way, so that one
// whose receivers are slow leaves slots to the others.
type share struct {
	most int // of one organization; zero for no bound

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

// leave reports whether the organization had none left, so that its next may wait.
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

// full are the organizations with as many attempts as they may have; never nil.
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
