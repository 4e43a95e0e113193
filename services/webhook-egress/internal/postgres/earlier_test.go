package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// secretsOf returns the secrets that the endpoint of the next job has, the current one first, and checks that reads of
// the endpoint find the same.
func secretsOf(t *testing.T, s *postgres.Store, e endpoint.Endpoint) (secrets []byte) {
	t.Helper()
	read, err := postgres.Endpoints{Store: s}.Get(t.Context(), endpoint.Scope{Organization: e.Organization}, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	emit(t, s, happening(e.Organization, "", "a"))
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	if diff := cmp.Diff(read.Earlier, jobs[0].Endpoint.Earlier); diff != "" {
		t.Errorf("earlier secrets of the endpoint and of its job (-endpoint +job):\n%s", diff)
	}
	secrets = append(secrets, jobs[0].Endpoint.Secret...)
	for _, earlier := range jobs[0].Endpoint.Earlier {
		secrets = append(secrets, earlier.Sealed...)
	}
	return secrets
}

func ownSecret(t *testing.T, s *postgres.Store) endpoint.Endpoint {
	t.Helper()
	e := subscription("acme", "", "*")
	e.SigningMode, e.Secret = "endpoint_body", []byte{1}
	return register(t, s, e)
}

// Earlier secrets are stored with their ends, three at most, and are forgotten with the endpoint.
func TestEarlierSecrets(t *testing.T) {
	s, pool := open(t)
	e := ownSecret(t, s)
	for i, tt := range []struct {
		overlap time.Duration
		want    []byte
	}{
		{time.Hour, []byte{2, 1}},
		{2 * time.Hour, []byte{3, 2, 1}},
		{3 * time.Hour, []byte{4, 3, 2, 1}},
		{4 * time.Hour, []byte{5, 4, 3, 2}},
		{0, []byte{6}},
		{time.Hour, []byte{7, 6}},
		{time.Hour, []byte{8, 7, 6}},
	} {
		rotated := change(t, s, e, endpoint.Change{Secret: []byte{byte(i + 2)}, Overlap: tt.overlap})
		if diff := cmp.Diff(tt.want, secretsOf(t, s, e)); diff != "" {
			t.Fatalf("rotation %d (-want +got):\n%s", i+1, diff)
		}
		read, err := postgres.Endpoints{Store: s}.Get(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID)
		if diff := cmp.Diff(rotated.Earlier, read.Earlier, cmp.Transformer("utc", func(at time.Time) time.Time { return at.UTC() })); diff != "" || err != nil {
			t.Errorf("rotation %d, read again (-want +got):\n%s%v", i+1, diff, err)
		}
	}
	if got := change(t, s, e, endpoint.Change{URL: new("https://example.com/other")}); len(got.Earlier) != 2 {
		t.Errorf("after another change: %d earlier secrets", len(got.Earlier))
	}
	if diff := cmp.Diff([]byte{8, 7, 6}, secretsOf(t, s, e)); diff != "" {
		t.Errorf("after another change (-want +got):\n%s", diff)
	}
	if err := (postgres.Endpoints{Store: s}).Delete(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, `SELECT count(*) FROM endpoints WHERE sealed_previous_secret IS NOT NULL
		OR cardinality(sealed_older_secrets) > 0 OR cardinality(older_secrets_expire_at) > 0`); n != 0 {
		t.Errorf("%d deleted endpoints keep earlier secrets", n)
	}
}

// Rotations of the release before migration 00017, which writes the previous secret alone, and those of this one.
func TestEarlierSecretsOfThePreviousRelease(t *testing.T) {
	s, pool := open(t)
	e := ownSecret(t, s)
	rotate := func(to byte, previous any) {
		t.Helper()
		testkit.Exec(t, pool, `UPDATE endpoints SET sealed_secret = $1, sealed_previous_secret = $2,
			previous_secret_expires_at = CASE WHEN $2::bytea IS NULL THEN NULL ELSE now() + interval '1 hour' END`, []byte{to}, previous)
	}
	signs := func(what string, want ...byte) {
		t.Helper()
		if diff := cmp.Diff(want, secretsOf(t, s, e)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	own := func(to byte) { t.Helper(); change(t, s, e, endpoint.Change{Secret: []byte{to}, Overlap: time.Hour}) }
	rotate(2, []byte{1})
	signs("an old row", 2, 1)
	own(3)
	own(4)
	signs("rotations after it", 4, 3, 2, 1)
	rotate(5, []byte{4})
	signs("one of the previous release, which drops the secret before", 5, 4, 2, 1)
	own(6)
	signs("one after that", 6, 5, 4, 2)
	rotate(7, nil)
	signs("one without an overlap", 7)
	rotate(8, []byte{7})
	signs("one after it, which brings no older secret back", 8, 7)
	own(9)
	testkit.Exec(t, pool, `UPDATE endpoints SET active = false, deleted_at = now(), sealed_previous_secret = NULL, previous_secret_expires_at = NULL`)
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM endpoints WHERE cardinality(sealed_older_secrets) > 0"); n != 0 {
		t.Error("an endpoint that the previous release deleted keeps earlier secrets")
	}
}

// The schema refuses what no release writes.
func TestEarlierSecretsAreChecked(t *testing.T) {
	s, pool := open(t)
	e := ownSecret(t, s)
	change(t, s, e, endpoint.Change{Secret: []byte{2}, Overlap: time.Hour})
	for name, set := range map[string]string{
		"three older ones":  `sealed_older_secrets = '{a,b,c}', older_secrets_expire_at = ARRAY[now(), now(), now()]`,
		"one without end":   `sealed_older_secrets = '{a}'`,
		"an end of none":    `older_secrets_expire_at = ARRAY[now()]`,
		"a null":            `sealed_older_secrets = '{NULL}', older_secrets_expire_at = ARRAY[now()]`,
		"an end that is no": `sealed_older_secrets = '{a}', older_secrets_expire_at = '{NULL}'`,
	} {
		if _, err := pool.Exec(t.Context(), "UPDATE endpoints SET "+set); err == nil {
			t.Errorf("%s: stored", name)
		}
	}
	got, err := postgres.Endpoints{Store: s}.Get(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID)
	if want := []delivery.EarlierSecret{{Sealed: []byte{1}, Until: got.Earlier[0].Until}}; err != nil || cmp.Diff(want, got.Earlier) != "" {
		t.Errorf("%+v, %v", got.Earlier, err)
	}
}
