package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/circuit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// targets returns those of a list, read page by page.
func targets(t *testing.T, s *postgres.Store, organization string, every, waiting bool, limit int) (all []circuit.Stored) {
	t.Helper()
	for after := (breaker.Target{Organization: organization}); ; after = all[len(all)-1].Target {
		page, err := s.Targets(t.Context(), organization, every, waiting, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page...); len(page) < limit {
			return all
		}
	}
}

func TestTargets(t *testing.T) {
	s, pool := openOne(t)
	var drafts []*delivery.Draft
	for _, at := range []delivery.Target{
		{Organization: "acme", Scheme: "https", Host: "a.example", Port: 443},
		{Organization: "acme", Scheme: "http", Host: "a.example", Port: 443},
		{Organization: "acme", Scheme: "https", Host: "a.example", Port: 8443},
		{Organization: "acme", Scheme: "https", Host: "b.example", Port: 443},
		{Organization: "beta", Scheme: "https", Host: "a.example", Port: 443},
		{Organization: "gamma", Scheme: "https", Host: "a.example", Port: 443},
	} {
		d := draft(at.Organization)
		d.Target = at
		drafts = append(drafts, d)
	}
	enqueue(t, s, leaseOf(1, false), drafts...)
	testkit.Exec(t, pool, "UPDATE flow SET endpoint_id = gen_random_uuid() WHERE scheme = 'http'")
	for _, job := range claim(t, s, 1, 1).Jobs {
		if job.Organization == "beta" || job.Port == 8443 {
			settle(t, s, moved(job, breaker.State{Phase: breaker.Open, Opened: 2, Until: time.Now().Add(time.Minute)}))
		}
	}
	target := func(organization, host string, port int) breaker.Target {
		return breaker.Target{Organization: organization, Host: host, Port: port}
	}
	all := []breaker.Target{
		target("acme", "a.example", 443), target("acme", "a.example", 8443), target("acme", "b.example", 443),
		target("beta", "a.example", 443), target("gamma", "a.example", 443),
	}
	for name, tt := range map[string]struct {
		organization   string
		every, waiting bool
		want           []breaker.Target
	}{
		"all":             {"", true, false, all},
		"waiting":         {"", true, true, []breaker.Target{all[1], all[3]}},
		"of one":          {"acme", false, false, all[:3]},
		"of one, waiting": {"acme", false, true, all[1:2]},
		"of the last":     {"gamma", false, false, all[4:]},
		"of none":         {"zeta", false, false, nil},
		"of no name":      {"", false, false, nil},
	} {
		for _, limit := range []int{1, 2, 50} {
			var got []breaker.Target
			for _, one := range targets(t, s, tt.organization, tt.every, tt.waiting, limit) {
				got = append(got, one.Target)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, pages of %d (-want +got):\n%s", name, limit, diff)
			}
		}
	}
	found := targets(t, s, "", true, false, 50)
	closed, open := found[0], found[3]
	if closed.Waiting || !closed.OpenedAt.IsZero() || !closed.ParkedUntil.IsZero() || closed.Openings != 0 || closed.Endpoints != 1 {
		t.Errorf("the closed one: %+v", closed)
	}
	if !open.Waiting || time.Since(open.OpenedAt) > time.Hour || time.Until(open.ParkedUntil) < 30*time.Second || open.Openings != 2 ||
		open.Failures != 1 || time.Since(open.LastFailedAt) > time.Hour || !open.LastDeliveredAt.IsZero() || open.Endpoints != 0 {
		t.Errorf("the open one: %+v", open)
	}
}

// The time at which a circuit opened stays until it closes, whichever release moves the flow and whatever else parks it.
func TestWhenACircuitOpened(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draft("acme"))
	opened := func() time.Time {
		if at := targets(t, s, "acme", false, false, 9)[0]; len(at.Flows) > 0 {
			return at.Flows[0].OpenedAt
		}
		return time.Time{}
	}
	park := func(reason string) {
		testkit.Exec(t, pool, "UPDATE flow SET state = 'open', parked_reason = $1, parked_until = now() + interval '1 minute'", reason)
	}
	if at := opened(); !at.IsZero() {
		t.Errorf("opened at %v before it has", at)
	}
	park("breaker_open")
	first := opened()
	if first.IsZero() {
		t.Fatal("there is no time at which it opened")
	}
	park("breaker_open") // The probe has failed.
	if again := opened(); !again.Equal(first) {
		t.Errorf("opened at %v, want still %v", again, first)
	}
	for name, other := range map[string]string{
		"closed": "UPDATE flow SET state = 'closed', parked_reason = NULL, parked_until = '-infinity'",
		"paused": "UPDATE flow SET parked_reason = 'endpoint_paused'",
	} {
		park("breaker_open")
		testkit.Exec(t, pool, other)
		if at := opened(); !at.IsZero() {
			t.Errorf("%s: opened at %v", name, at)
		}
	}
	park("breaker_open")
	if again := opened(); !again.After(first) {
		t.Errorf("opened again at %v, want later than %v", again, first)
	}
}
