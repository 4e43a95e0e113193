package health

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// A credential is reported as failing once refusals show that it is the credential.
func TestFailingCredentials(t *testing.T) {
	unauthorized, forbidden := http.StatusUnauthorized, http.StatusForbidden
	type step struct {
		status int // 0 is a good call
		after  time.Duration
	}
	for name, tt := range map[string]struct {
		change func(*Call)
		steps  []step
		want   int // the status that is reported; 0 for none
	}{
		"a refused key":                         {nil, []step{{unauthorized, 0}}, unauthorized},
		"a key that Gemini refuses":             {nil, []step{{http.StatusBadRequest, 0}}, http.StatusBadRequest},
		"nothing was sent":                      {nil, []step{{-1, 0}}, 0},
		"no credential":                         {func(c *Call) { c.Credential = "" }, []step{{unauthorized, 0}}, 0},
		"a model that is not the key's":         {nil, []step{{forbidden, 0}}, 0},
		"twice":                                 {nil, []step{{forbidden, 0}, {forbidden, 10 * time.Second}}, forbidden},
		"twice, of calls that were in flight":   {nil, []step{{forbidden, 0}, {forbidden, 9 * time.Second}}, 0},
		"twice, another model works":            {nil, []step{{forbidden, 0}, {0, time.Second}, {forbidden, 10 * time.Second}}, 0},
		"twice, a long time apart":              {nil, []step{{forbidden, 0}, {forbidden, 2 * time.Hour}}, 0},
		"an access token that has ended":        {func(c *Call) { c.Renews = true }, []step{{unauthorized, 0}, {0, time.Second}}, 0},
		"an identity that is refused for good":  {func(c *Call) { c.Renews = true }, []step{{unauthorized, 0}, {unauthorized, 10 * time.Second}}, unauthorized},
		"a key that is taken again immediately": {nil, []step{{unauthorized, 0}, {0, time.Second}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, c := New(Options{}), call()
				if tt.change != nil {
					tt.change(&c)
				}
				id, _ := c.id()
				for _, s := range tt.steps {
					time.Sleep(s.after)
					if s.status == 0 {
						m.refusals.good(&c, m.now())
						continue
					}
					m.refusals.refuse(&c, max(s.status, 0), m.now())
				}
				var want []RefusedCredential
				if tt.want != 0 {
					want = []RefusedCredential{{id, tt.want}}
				}
				got, _ := m.TakeCredentials()
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if again, _ := m.TakeCredentials(); again != nil {
					t.Errorf("reported again: %v", again)
				}
			})
		})
	}
}

// A permit reports refusals of its credential, and a good call with one that is watched, if it began later.
func TestTakenCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := New(Options{}), call()
		own.Byok, own.Organization = true, "acme"
		do(t, m, own, &provider.Error{Class: apierr.ClassAuth, Status: http.StatusUnauthorized})
		id := CredentialID{Organization: "acme", Provider: own.Target.Provider}
		refused, taken := m.TakeCredentials()
		if diff := cmp.Diff([]RefusedCredential{{id, http.StatusUnauthorized}}, refused); diff != "" || taken != nil {
			t.Errorf("taken %v; refused (-want +got):\n%s", taken, diff)
		}
		m.WatchCredentials([]CredentialID{id})
		time.Sleep(keyCooldown)
		other := call()
		other.Organization = "acme" // the fleet's credential
		do(t, m, other, nil)
		if _, taken := m.TakeCredentials(); taken != nil {
			t.Errorf("another credential was taken: %v", taken)
		}
		begun := m.now()
		do(t, m, own, nil)
		if _, taken = m.TakeCredentials(); len(taken) != 1 || taken[0].CredentialID != id || taken[0].Begun.Before(begun) {
			t.Errorf("taken %+v, want %+v at %s", taken, id, begun)
		}
		m.WatchCredentials(nil)
		do(t, m, own, nil)
		if _, taken := m.TakeCredentials(); taken != nil || m.refusals.active.Load() {
			t.Errorf("taken %v of none that are watched", taken)
		}
	})
}

// Callers with ever new organizations take a bounded part of the memory.
func TestRefusalsAreBounded(t *testing.T) {
	m, c := New(Options{}), call()
	c.Byok = true
	failing := make([]CredentialID, 2*maxFailing)
	for i := range failing {
		c.Organization = strconv.Itoa(i)
		m.refusals.refuse(&c, http.StatusForbidden, m.now())
		failing[i] = CredentialID{Organization: c.Organization}
	}
	m.WatchCredentials(failing)
	if len(m.refusals.refused) != maxRefused || len(m.refusals.failing) != maxFailing {
		t.Errorf("%d are kept and %d watched", len(m.refusals.refused), len(m.refusals.failing))
	}
}
