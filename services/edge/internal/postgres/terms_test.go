package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// Terms are read as they were written, by every way to read a key.
func TestTerms(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	keys := postgres.NewKeys(pool)
	ctx := t.Context()
	digest := apikey.Digest{1}
	key := apikey.Key{
		ID: "key_1", Organization: "org-1", Product: "ai", Permissions: []apikey.Permission{apikey.Read}, Environment: "test",
		CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		Terms:     apikey.Terms{TokensPerMinute: 1 << 40, Models: []string{"b", `a"\`}, Class: apikey.ClassInteractive},
	}
	if err := keys.Insert(ctx, key, digest, entry(key, "key.create")); err != nil {
		t.Fatal(err)
	}
	for _, terms := range []apikey.Terms{
		key.Terms,
		{Budget: apikey.Budget{CeilingCents: 1e12, Period: apikey.PeriodTotal}},
		{},
		{TokensPerMinute: 1, Models: []string{"c"}, Budget: apikey.Budget{CeilingCents: 1, Period: apikey.PeriodDay}, Class: apikey.ClassBulk},
	} {
		changed, _, found, err := keys.Change(ctx, key.ID, func(k *apikey.Key) (apikey.Change, error) {
			k.Terms = terms
			return apikey.Change{}, nil
		})
		if err != nil || !found {
			t.Fatal(found, err)
		}
		byDigest, err := keys.KeyByDigest(ctx, digest)
		if err != nil {
			t.Fatal(err)
		}
		byID, err := keys.Get(ctx, key.ID)
		if err != nil {
			t.Fatal(err)
		}
		list, err := keys.List(ctx, "org-1", "", 10)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		for _, got := range []apikey.Key{changed, *byDigest, *byID, list[0]} {
			if diff := cmp.Diff(terms, got.Terms); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
		}
	}
	for _, columns := range []string{
		"tokens_per_minute = 0", "models = '{}'", "models = '{a,NULL}'", "models = array_fill('a'::text, ARRAY[33])", "class = ''", "class = 'urgent'",
		"budget_period = NULL", "budget_ceiling_cents = NULL", "budget_ceiling_cents = 0", "budget_period = 'week'",
	} {
		if _, err := pool.Exec(ctx, "UPDATE api_keys SET "+columns); err == nil {
			t.Errorf("%s was stored", columns)
		}
	}
}

// The release before writes and reads keys on the new schema.
func TestTermsAreOptionalForTheReleaseBefore(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	keys := postgres.NewKeys(pool)
	for _, statement := range []string{
		`INSERT INTO api_keys (id, digest, organization_id, product, permissions, name, environment, created_at, expires_at,
			limit_requests, limit_window_seconds, limit_burst, origin, position)
		VALUES ('key_1', decode(repeat('00', 32), 'hex'), 'o', 'ai', '{read}', '', 'test', now(), NULL, NULL, NULL, NULL, NULL, 1)`,
		`UPDATE api_keys SET tokens_per_minute = 7`,
		`UPDATE api_keys SET name = 'n', expires_at = NULL, revoked_at = NULL, replaced_by = NULL,
			limit_requests = NULL, limit_window_seconds = NULL, limit_burst = NULL, position = 2 WHERE id = 'key_1'`,
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	got, err := keys.Get(t.Context(), "key_1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(apikey.Terms{TokensPerMinute: 7}, got.Terms); diff != "" {
		t.Errorf("terms (-want +got):\n%s", diff)
	}
}
