package api_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// BenchmarkCheck is all that stands between a request and its relay: the key,
// its product and scope, the two rate limits, and the plans of its key and
// organization.
func BenchmarkCheck(b *testing.B) {
	pepper, err := apikey.NewPepper(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		b.Fatal(err)
	}
	pool := testkit.Postgres(b, migrations.FS)
	keys := postgres.NewKeys(pool)
	_, text, err := apikey.NewManager(pepper, keys, nil, []string{"ai"}, testkit.Logger(b)).Create(b.Context(), apikey.Actor{Name: "bench"},
		apikey.Request{Organization: "org-1", Product: "ai", Permissions: []apikey.Permission{apikey.Read}})
	if err != nil {
		b.Fatal(err)
	}
	authorization, need := "Bearer "+text.Reveal(), apikey.NewNeed([]string{"platform", "ai"}, apikey.Read, "ai:chat:invoke")
	wide := limit.Limit{Requests: 1_000_000, Window: time.Second, Burst: 1_000_000}
	month := []plan.Limit{
		{Meter: plan.Calls, Period: plan.Minute, Amount: 1 << 39, Kind: plan.Hard}, {Meter: plan.Calls, Period: plan.Month, Amount: 1 << 39, Kind: plan.Hard},
	}
	for name, held := range map[string]struct {
		bound limit.Limit
		plans benchPlans
	}{
		"unbounded": {}, "bounded": {bound: wide}, "bounded, on a plan": {wide, benchPlans{"default": {Name: "default", Limits: month}}},
	} {
		bound := held.bound
		verifier := apikey.NewVerifier(pepper, keys, 1000, time.Minute, apikey.Limits{Key: bound, Organization: bound})
		limiter := limit.New(nil)
		quotas, use := quota.New(held.plans, "default", nil, postgres.NewUsage(pool)), quota.UseOf("llm_requests")
		ctx, stop := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = quotas.Run(ctx, testkit.Logger(b)) })
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
				holder := quota.Caller{Key: key.Chain(), Organization: key.Organization, KeyPlan: key.Plan, OrganizationPlan: key.OrganizationPlan}
				if _, err := quotas.Take(b.Context(), holder, use); err != nil {
					b.Fatal(err)
				}
			}
		})
		stop()
		running.Wait()
	}
}

// benchPlans are plans by name.
type benchPlans map[string]*plan.Plan

func (p benchPlans) Plan(name string) *plan.Plan { return p[name] }
