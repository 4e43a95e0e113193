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

// Scopes are stored beside read and write, as they are; anything else is refused.
func TestScopes(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	keys := postgres.NewKeys(pool)
	key := apikey.Key{
		ID: "key_1", Organization: "org-1", Product: "platform", Environment: "test", CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		Permissions: append(apikey.Scopes(), apikey.Read, apikey.Write, "webhooks:*"),
	}
	if err := keys.Insert(t.Context(), key, apikey.Digest{1}, entry(key, "key.create")); err != nil {
		t.Fatal(err)
	}
	got, err := keys.KeyByDigest(t.Context(), apikey.Digest{1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(key.Permissions, got.Permissions); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
	for _, permissions := range []string{
		"{}", "{NULL}", "{admin}", "{read,NULL}", "{READ}", `{"read write"," "}`, `{""}`, "{webhooks}", "{*}", "{:*}", "{a:b}", "{a:b:c:d}", "{a:*:c}",
	} {
		if _, err := pool.Exec(t.Context(), "UPDATE api_keys SET permissions = $1::text::text[]", permissions); err == nil {
			t.Errorf("%s was stored", permissions)
		}
	}
}
