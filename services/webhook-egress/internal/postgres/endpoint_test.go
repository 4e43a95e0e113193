package postgres_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

func subscription(organization, owner string, types ...string) endpoint.Endpoint {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return endpoint.Endpoint{
		ID: delivery.NewID(now), Organization: organization, Owner: owner, URL: "https://example.com/hook", EventTypes: types,
		Active: true, SigningMode: "org_timestamp", Created: now, Updated: now, Signatures: []string{"spec", "v1"},
	}
}

func register(t *testing.T, s *postgres.Store, e endpoint.Endpoint) endpoint.Endpoint {
	t.Helper()
	registry := postgres.Endpoints{Store: s}
	if err := registry.Add(t.Context(), e, 100); err != nil {
		t.Fatal(err)
	}
	got, err := registry.Get(t.Context(), endpoint.Scope{Organization: e.Organization, Owner: e.Owner}, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func change(t *testing.T, s *postgres.Store, e endpoint.Endpoint, c endpoint.Change) endpoint.Endpoint {
	t.Helper()
	got, err := postgres.Endpoints{Store: s}.Update(t.Context(), endpoint.Scope{Organization: e.Organization, Owner: e.Owner}, e.ID,
		func(e endpoint.Endpoint) (endpoint.Endpoint, error) {
			return c.Apply(e, time.Now().UTC().Truncate(time.Microsecond))
		})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func statusIs(t *testing.T, s *postgres.Store, organization string, id delivery.ID, want delivery.Status) delivery.Record {
	t.Helper()
	record, err := s.Get(t.Context(), organization, "", id, false)
	if err != nil {
		t.Fatal(err)
	}
	if record.Status != want {
		t.Errorf("delivery is %s, want %s", record.Status, want)
	}
	return record
}

func TestEndpointIsReadAsWritten(t *testing.T) {
	s, _ := open(t)
	e := subscription("acme", "ann", "order.paid", "user.*")
	e.SigningMode, e.Secret, e.RatePerSecond, e.Description = "endpoint_body", []byte{1, 2}, 2.5, "a note"
	got := register(t, s, e)
	e.FlowID = got.FlowID
	normal := cmp.Transformer("utc", func(at time.Time) time.Time { return at.UTC() })
	if diff := cmp.Diff(e, got, normal); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
	until := time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond)
	rotated := change(t, s, got, endpoint.Change{Secret: []byte{3}, Overlap: time.Hour, Description: new("")})
	want := rotated
	want.Secret, want.Description = []byte{3}, ""
	if diff := cmp.Diff(want, rotated); diff != "" {
		t.Errorf("rotated (-want +got):\n%s", diff)
	}
	if got := rotated.Earlier; len(got) != 1 || !bytes.Equal(got[0].Sealed, []byte{1, 2}) || got[0].Until.Sub(until).Abs() > time.Minute {
		t.Errorf("earlier secrets %v, want one that signs until %s", got, until)
	}
	again, err := postgres.Endpoints{Store: s}.Get(t.Context(), endpoint.Scope{Organization: "acme", Owner: "ann"}, e.ID)
	if diff := cmp.Diff(rotated, again, normal); diff != "" || err != nil {
		t.Errorf("read again (-want +got):\n%s%v", diff, err)
	}
}

// Headers, authentication and signatures are stored, reach the attempts of an endpoint from the next claim on, and are
// forgotten with the endpoint.
func TestEndpointAccess(t *testing.T) {
	s, pool := open(t)
	e := subscription("acme", "", "*")
	e.Headers, e.Signatures = map[string][]byte{"X-A": {1}, "X-B": {2}}, []string{"spec", "v1a"}
	e.Auth, e.SealedAuth = &auth.Info{Kind: auth.OAuth2, TokenURL: "https://t.example/", Scopes: []string{"a"}}, []byte{3}
	got := register(t, s, e)
	e.FlowID = got.FlowID
	normal := cmp.Transformer("utc", func(at time.Time) time.Time { return at.UTC() })
	if diff := cmp.Diff(e, got, normal); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
	job := func(what string, want delivery.JobEndpoint) {
		t.Helper()
		emit(t, s, happening("acme", "", "a"))
		jobs := claim(t, s, 1, 8).Jobs
		if len(jobs) != 1 {
			t.Fatalf("%s: %d jobs", what, len(jobs))
		}
		want.ID = e.ID
		if diff := cmp.Diff(&want, jobs[0].Endpoint); diff != "" {
			t.Errorf("%s: endpoint of the job (-want +got):\n%s", what, diff)
		}
	}
	job("as registered", delivery.JobEndpoint{Headers: e.Headers, Auth: []byte{3}, Signatures: e.Signatures})
	change(t, s, got, endpoint.Change{
		Headers: map[string][]byte{"X-A": nil, "X-B": {4}, "X-C": {5}}, Signatures: []string{"spec"},
		Auth: &endpoint.AuthChange{Info: &auth.Info{Kind: auth.Bearer}, Sealed: []byte{6}},
	})
	job("as changed", delivery.JobEndpoint{Headers: map[string][]byte{"X-B": {4}, "X-C": {5}}, Auth: []byte{6}, Signatures: []string{"spec"}})
	change(t, s, got, endpoint.Change{Headers: map[string][]byte{"X-B": nil, "X-C": nil}, Auth: &endpoint.AuthChange{}})
	job("without", delivery.JobEndpoint{Signatures: []string{"spec"}})
	change(t, s, got, endpoint.Change{Headers: map[string][]byte{"X-B": {4}}, Auth: &endpoint.AuthChange{Info: &auth.Info{Kind: auth.Bearer}, Sealed: []byte{6}}})
	if err := (postgres.Endpoints{Store: s}).Delete(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM endpoints WHERE custom_headers IS NOT NULL OR auth IS NOT NULL OR sealed_auth IS NOT NULL"); n != 0 {
		t.Errorf("%d deleted endpoints keep credentials", n)
	}
}

// Stored headers that can't be decoded hold back the endpoint's deliveries, and no claim.
func TestClaimOfUnreadableEndpointHeaders(t *testing.T) {
	s, pool := open(t)
	register(t, s, subscription("acme", "", "*"))
	testkit.Exec(t, pool, `UPDATE endpoints SET custom_headers = '{"X-A": 1}'`)
	emit(t, s, happening("acme", "", "a"))
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 1 || !jobs[0].HeadersUnreadable {
		t.Errorf("jobs %+v", jobs)
	}
}

// By id an endpoint with an owner is there for that owner only; lists are for
// all owners unless one is named.
func TestEndpointScope(t *testing.T) {
	s, _ := open(t)
	registry := postgres.Endpoints{Store: s}
	owned, shared := register(t, s, subscription("acme", "ann", "a")), register(t, s, subscription("acme", "", "a"))
	register(t, s, subscription("other", "ann", "a"))
	for name, tt := range map[string]struct {
		scope  endpoint.Scope
		id     delivery.ID
		status int
	}{
		"the owner":                 {endpoint.Scope{Organization: "acme", Owner: "ann"}, owned.ID, http.StatusOK},
		"another owner":             {endpoint.Scope{Organization: "acme", Owner: "bob"}, owned.ID, http.StatusNotFound},
		"no owner":                  {endpoint.Scope{Organization: "acme"}, owned.ID, http.StatusNotFound},
		"another organization":      {endpoint.Scope{Organization: "other", Owner: "ann"}, owned.ID, http.StatusNotFound},
		"one without owner, by one": {endpoint.Scope{Organization: "acme", Owner: "bob"}, shared.ID, http.StatusNotFound},
		"one without owner":         {endpoint.Scope{Organization: "acme"}, shared.ID, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			same := func(e endpoint.Endpoint) (endpoint.Endpoint, error) { return e, nil }
			_, read := registry.Get(t.Context(), tt.scope, tt.id)
			_, updated := registry.Update(t.Context(), tt.scope, tt.id, same)
			errs := []error{read, updated}
			if tt.status != http.StatusOK {
				errs = append(errs, registry.Delete(t.Context(), tt.scope, tt.id))
			}
			for _, err := range errs {
				if got := statusOf(err); got != tt.status {
					t.Errorf("status %d (%v), want %d", got, err, tt.status)
				}
			}
		})
	}
	for owner, want := range map[string]int{"": 2, "ann": 1, "bob": 0} {
		page, err := registry.List(t.Context(), endpoint.Filter{Scope: endpoint.Scope{Organization: "acme", Owner: owner}}, delivery.LastID, 10)
		if err != nil || len(page) != want {
			t.Errorf("owner %q: %d endpoints, %v; want %d", owner, len(page), err, want)
		}
	}
}

func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return apierr.From(err).Kind.HTTPStatus()
}

func TestListEndpoints(t *testing.T) {
	s, _ := open(t)
	registry := postgres.Endpoints{Store: s}
	var all []delivery.ID
	for i, types := range [][]string{{"order.paid"}, {"order.*"}, {"*"}, {"user.made"}} {
		e := subscription("acme", "", types...)
		e.ID = delivery.NewID(time.Now().Add(time.Duration(i) * time.Millisecond))
		all = append(all, register(t, s, e).ID)
	}
	paused := endpoint.Endpoint{ID: all[1], Organization: "acme"}
	change(t, s, paused, endpoint.Change{Active: new(false)})
	for name, tt := range map[string]struct {
		filter endpoint.Filter
		want   []int
	}{
		"all":        {endpoint.Filter{}, []int{3, 2, 1, 0}},
		"active":     {endpoint.Filter{Active: new(true)}, []int{3, 2, 0}},
		"paused":     {endpoint.Filter{Active: new(false)}, []int{1}},
		"by type":    {endpoint.Filter{EventType: "order.paid"}, []int{2, 1, 0}},
		"by no type": {endpoint.Filter{EventType: "order"}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.filter.Organization = "acme"
			page, err := registry.List(t.Context(), tt.filter, delivery.LastID, 10)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []delivery.ID
			for _, e := range page {
				got = append(got, e.ID)
			}
			for _, i := range tt.want {
				want = append(want, all[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		})
	}
	if page, _ := registry.List(t.Context(), endpoint.Filter{Scope: endpoint.Scope{Organization: "acme"}}, all[2], 1); len(page) != 1 || page[0].ID != all[1] {
		t.Errorf("page below %s: %+v", all[2], page)
	}
}
