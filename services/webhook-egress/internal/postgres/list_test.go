package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestListDeliveries(t *testing.T) {
	s, _ := open(t)
	begin := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Minute) }
	all := ended(t, s, "acme", 6, delivery.StatusFailed, func(i int, d *delivery.Draft) {
		d.ID = delivery.NewID(at(i))
		if i%2 == 1 {
			d.Owner, d.EventType = "ann", "odd"
			d.URL, d.Target.Host, d.Target.Port = "https://odd.example:8443/x", "odd.example", 8443
		}
	})
	fresh := draft("acme")
	enqueue(t, s, leaseOf(1, true), fresh)
	all = append(all, fresh.ID)
	enqueue(t, s, leaseOf(1, false), draft("other"))
	for name, tt := range map[string]struct {
		filter delivery.Filter
		want   []int
	}{
		"all":               {delivery.Filter{}, []int{6, 5, 4, 3, 2, 1, 0}},
		"dead letters":      {delivery.Filter{Statuses: []delivery.Status{delivery.StatusFailed}}, []int{5, 4, 3, 2, 1, 0}},
		"delivering":        {delivery.Filter{Statuses: []delivery.Status{delivery.StatusDelivering}}, []int{6}},
		"two statuses":      {delivery.Filter{Statuses: []delivery.Status{delivery.StatusDelivering, delivery.StatusFailed}, EventType: "e"}, []int{6, 4, 2, 0}},
		"an owner":          {delivery.Filter{Owner: "ann"}, []int{5, 3, 1}},
		"a type":            {delivery.Filter{EventType: "odd"}, []int{5, 3, 1}},
		"a host":            {delivery.Filter{Host: "ODD.example"}, []int{5, 3, 1}},
		"a host and port":   {delivery.Filter{Host: "odd.example:8443"}, []int{5, 3, 1}},
		"its default port":  {delivery.Filter{Host: "example.com:443"}, []int{6, 4, 2, 0}},
		"another port":      {delivery.Filter{Host: "odd.example:443"}, nil},
		"no part of a host": {delivery.Filter{Host: "d.example"}, nil},
		"no pattern":        {delivery.Filter{Host: "odd?example"}, nil},
		"from":              {delivery.Filter{CreatedFrom: at(3)}, []int{6, 5, 4, 3}},
		"to":                {delivery.Filter{CreatedTo: at(3)}, []int{2, 1, 0}},
		"from and to":       {delivery.Filter{CreatedFrom: at(1), CreatedTo: at(2)}, []int{1}},
		"no endpoint":       {delivery.Filter{EndpointID: all[0].String()}, nil},
		"no event":          {delivery.Filter{EventID: all[0].String()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tt.filter.Organization = "acme"
			var want []delivery.ID
			for _, i := range tt.want {
				want = append(want, all[i])
			}
			for _, limit := range []int{1, 2, 3, 50} {
				if diff := cmp.Diff(want, listed(t, s, tt.filter, limit)); diff != "" {
					t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
				}
			}
		})
	}
}

// A filter that lets little through looks at no more than so many deliveries.
func TestListIsBounded(t *testing.T) {
	s, pool := open(t)
	d := draft("acme")
	enqueue(t, s, leaseOf(1, false), d)
	testkit.Exec(t, pool, `INSERT INTO deliveries (id, created_at, organization_id, flow_id, url, event_type, signing_mode, status, max_attempts, updated_at)
		SELECT (substr(replace(id::text, '-', ''), 1, 12) || '7fff' || '8' || lpad(to_hex(n), 15, '0'))::uuid, created_at, organization_id, flow_id, url, 'other', signing_mode, 'queued', 3, now()
		FROM deliveries, generate_series(1, 12000) n`)
	first, next, err := s.List(t.Context(), delivery.Filter{Organization: "acme", EventType: "e"}, delivery.LastID, 10)
	if err != nil || len(first) != 0 || next == (delivery.ID{}) {
		t.Fatalf("%d found, next %s, %v", len(first), next, err)
	}
	if got := listed(t, s, delivery.Filter{Organization: "acme", EventType: "e"}, 10); len(got) != 1 || got[0] != d.ID {
		t.Errorf("found %v", got)
	}
}

// A list of every organization has the deliveries and dead letters of all, newest first, also those of days ago, and no
// list of one organization has another's.
func TestListEveryOrganization(t *testing.T) {
	s, _ := open(t)
	begin := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	var all []delivery.ID
	for hour, organization := range []string{"acme", "beta", "acme", "gamma"} {
		all = append(all, ended(t, s, organization, 1, delivery.StatusFailed, func(_ int, d *delivery.Draft) {
			d.ID = delivery.NewID(begin.Add(time.Duration(hour) * time.Minute))
		})...)
	}
	queued := draft("beta")
	enqueue(t, s, leaseOf(1, false), queued)
	slices.Reverse(all)
	newest := append([]delivery.ID{queued.ID}, all...)
	dead := []delivery.Status{delivery.StatusFailed}
	for name, tt := range map[string]struct {
		filter delivery.Filter
		want   []delivery.ID
	}{
		"all":              {delivery.Filter{Every: true}, newest},
		"dead letters":     {delivery.Filter{Every: true, Statuses: dead}, all},
		"in flight":        {delivery.Filter{Every: true, Statuses: []delivery.Status{delivery.StatusQueued}}, newest[:1]},
		"from":             {delivery.Filter{Every: true, Statuses: dead, CreatedFrom: begin.Add(time.Minute)}, all[:3]},
		"to":               {delivery.Filter{Every: true, Statuses: dead, CreatedTo: begin.Add(time.Minute)}, all[3:]},
		"one organization": {delivery.Filter{Organization: "acme", Statuses: dead}, []delivery.ID{all[1], all[3]}},
		"none":             {delivery.Filter{}, nil},
	} {
		for _, limit := range []int{1, 2, 50} {
			if diff := cmp.Diff(tt.want, listed(t, s, tt.filter, limit)); diff != "" {
				t.Errorf("%s, pages of %d (-want +got):\n%s", name, limit, diff)
			}
		}
	}
}
