package api_test

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// BenchmarkCheck is all that stands between a request and its relay: the key,
// its product and scope, and the two rate limits.
func BenchmarkCheck(b *testing.B) {
	pepper, err := apikey.NewPepper(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		b.Fatal(err)
	}
	keys := postgres.NewKeys(testkit.Postgres(b, migrations.FS))
	_, text, err := apikey.NewManager(pepper, keys, nil, []string{"ai"}, testkit.Logger(b)).Create(b.Context(), apikey.Actor{Name: "bench"},
		apikey.Request{Organization: "org-1", Product: "ai", Permissions: []apikey.Permission{apikey.Read}})
	if err != nil {
		b.Fatal(err)
	}
	authorization, need := "Bearer "+text.Reveal(), apikey.NewNeed([]string{"platform", "ai"}, apikey.Read, "ai:chat:invoke")
	wide := limit.Limit{Requests: 1_000_000, Window: time.Second, Burst: 1_000_000}
	for name, bound := range map[string]limit.Limit{"unbounded": {}, "bounded": wide} {
		verifier := apikey.NewVerifier(pepper, keys, 1000, time.Minute, apikey.Limits{Key: bound, Organization: bound})
		limiter := limit.New(nil)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				key, err := verifier.Verify(b.Context(), authorization)
				if err != nil {
					b.Fatal(err)
				}
				if err := key.May(need); err != nil {
					b.Fatal(err)
				}
				if _, err := limiter.Take(b.Context(), key.Buckets.Key, key.Buckets.Organization); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
