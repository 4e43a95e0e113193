package identity

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// One organization's hanging token servers delay neither the fleet's renewals nor another organization's.
func TestOrganizationHasItsShareOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, acme, hostile := newTokenServer(time.Hour), newTokenServer(time.Hour), newTokenServer(time.Hour)
		m, _ := newManager(t, fleet, nil)
		defer run(t, m)()
		held := []*Identity{must(m.Fleet(openAIConfig))}
		for n := range 40 {
			held = append(held, m.Client("hostile", fmt.Sprint("hostile ", n), hostile))
		}
		held = append(held, m.Client("acme", "acme", acme))
		for _, i := range held {
			use(t, i)
		}
		hostile.mu.Lock()
		hostile.takes = time.Hour // An exchange times out after 20 s.
		hostile.mu.Unlock()
		time.Sleep(50 * time.Minute) // Renewals are due after 48 minutes.
		for name, server := range map[string]*tokenServer{"the fleet's": fleet, "another organization's": acme} {
			server.mu.Lock()
			if n := len(server.times); n != 2 || server.times[n-1] > 48*time.Minute+time.Second {
				t.Errorf("%s credential was exchanged at %v, want its renewal after 48 minutes", name, server.times)
			}
			server.mu.Unlock()
		}
		if n := m.turns.HeldBy("hostile"); n != m.turns.Share() {
			t.Errorf("%d of the organization's renewals are under way, want its share of %d", n, m.turns.Share())
		}
		for _, i := range held {
			_ = i.Status() // The manager holds identities weakly.
		}
	})
}
