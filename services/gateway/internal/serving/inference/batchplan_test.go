package inference

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

const batchAPI = "/v1/chat/completions"

// batchScript is a scripted provider that runs batches of one API.
type batchScript struct {
	provider.BatchRunner
	*script

	api string
}

func (s batchScript) Name() string                { return s.name }
func (s batchScript) RunsBatches(api string) bool { return api == s.api }

func (s batchScript) Chat(ctx context.Context, c provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	return s.script.Chat(ctx, c, chat)
}

func (s batchScript) StreamChat(ctx context.Context, c provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	return s.script.StreamChat(ctx, c, chat)
}

// batchHosts plans each request by its model: the hosts of the model in this order, then those of the others as substitutes. A
// provider that is named is the only one.
type batchHosts map[string][]string

func (h batchHosts) Plan(r routing.Request) (routing.Plan, error) {
	plan := routing.Plan{Requested: r.Model}
	for _, name := range h[r.Model] {
		if r.Provider == "" || r.Provider == name {
			plan.Candidates = append(plan.Candidates, routing.Candidate{Target: provider.Target{Provider: name, Model: "m"}, Upstream: name + "-up"})
		}
	}
	if r.Substitution {
		plan.Candidates = append(plan.Candidates, routing.Candidate{Target: provider.Target{Provider: "a", Model: "spare"}, Upstream: "spare", Substitute: true})
	}
	return plan, nil
}

// batchPrices: b is the dearest host though it takes half of its price for a batch, and c has no price.
const batchPrices = `providers:
  - {provider: a, batch_percent: 50, models: [{model: m, effective_from: 1999-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}, {model: spare, effective_from: 1999-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
  - {provider: b, batch_percent: 50, models: [{model: m, effective_from: 1999-01-01, input_per_mtok_usd: 10, output_per_mtok_usd: 20}]}
  - {provider: d, models: [{model: m, effective_from: 1999-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}`

// byokKeys has credentials of the organization's own for some providers, and the fleet's for those and the others.
type byokKeys []string

func (k byokKeys) Resolve(_ context.Context, s keyring.Scope, name string) ([]provider.Credential, error) {
	own := slices.Contains(k, name)
	switch {
	case own && s.Byok != keyring.ModeFleet:
		return []provider.Credential{{Source: keyring.SourceByok}}, nil
	case s.Byok == keyring.ModeRequire:
		return nil, keyring.ErrNoKey
	}
	return []provider.Credential{{Source: keyring.SourceFleet}}, nil
}

func batchSetup(t *testing.T, of batchHosts) *bench {
	t.Helper()
	b := setup(t, nil, &script{name: "a"}, &script{name: "b"}, &script{name: "c"}, &script{name: "d"}, &script{name: "live"})
	fleet := b.Fleet()
	fleet.Planner, fleet.Prices = of, pricetest.Table(t, batchPrices)
	for _, name := range []string{"a", "b", "c", "d"} {
		fleet.Providers[name] = batchScript{script: b.scripts[name], api: batchAPI}
	}
	return b
}

// batchRequest returns a request of a batch that can use 8 tokens of input at most, and some of output.
func batchRequest(output int, change ...func(r *Request)) *Request {
	r := request()
	r.Route.Model, r.Chat.MaxTokens = "m", output
	for _, c := range change {
		c(r)
	}
	return r
}

func each(requests ...*Request) iter.Seq2[*Request, error] {
	return func(yield func(*Request, error) bool) {
		for _, r := range requests {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (b *bench) planBatch(t *testing.T, requests ...*Request) (*BatchPlan, error) {
	t.Helper()
	return b.PlanBatch(t.Context(), BatchLimit{API: batchAPI, Most: 3, Body: "body"}, each(requests...))
}

// targetsOf returns the providers of a plan with the sources of their credentials.
func targetsOf(p *BatchPlan) (names string) {
	for _, target := range p.Targets {
		names += " " + target.Provider + "/" + target.Model + "=" + target.Upstream + " " + target.Source
	}
	return strings.TrimSpace(names)
}

// A batch is planned at the hosts of its model that can take each of its requests.
func TestPlanBatch(t *testing.T) {
	pinned := func(r *Request) { r.Route.Substitution = false }
	named := func(name string) func(*Request) { return func(r *Request) { r.Route.Provider = name } }
	for name, c := range map[string]struct {
		of       batchHosts
		keys     Keys
		requests []*Request
		want     string
		reason   apierr.Reason
	}{
		"every host, best first":   {of: batchHosts{"m": {"b", "live", "a"}}, requests: []*Request{batchRequest(9), batchRequest(9)}, want: "b/m=b-up fleet a/m=a-up fleet"},
		"those of each request":    {of: batchHosts{"m": {"a", "b"}}, requests: []*Request{batchRequest(9), batchRequest(9, named("b")), batchRequest(9)}, want: "b/m=b-up fleet"},
		"none in common":           {of: batchHosts{"m": {"a", "b"}}, requests: []*Request{batchRequest(9, named("a")), batchRequest(9, named("b"))}, reason: routing.ReasonCapabilityUnsupported},
		"no host of batches":       {of: batchHosts{"m": {"live"}}, requests: []*Request{batchRequest(9)}, reason: routing.ReasonCapabilityUnsupported},
		"no other host":            {of: batchHosts{"m": {"live", "a", "b"}}, requests: []*Request{batchRequest(9, pinned), batchRequest(9, pinned)}, want: "a/m=a-up fleet"},
		"no other host, in common": {of: batchHosts{"m": {"a", "b"}}, requests: []*Request{batchRequest(9, pinned), batchRequest(9, pinned, named("b"))}, want: "b/m=b-up fleet"},
		"another model":            {of: batchHosts{"m": {"a"}, "n": {"a"}}, requests: []*Request{batchRequest(9), batchRequest(9, func(r *Request) { r.Route.Model = "n" })}, reason: apierr.ReasonInvalidRequest},
		"too many":                 {of: batchHosts{"m": {"a"}}, requests: []*Request{batchRequest(9), batchRequest(9), batchRequest(9), batchRequest(9)}, reason: apierr.ReasonTooLarge},
		"as many as may be":        {of: batchHosts{"m": {"a"}}, requests: []*Request{batchRequest(9), batchRequest(9), batchRequest(9)}, want: "a/m=a-up fleet"},
		"none":                     {of: batchHosts{"m": {"a"}}, reason: apierr.ReasonInvalidRequest},
		"in the caller's own form": {of: batchHosts{"m": {"a"}}, requests: []*Request{batchRequest(9, func(r *Request) { r.Chat.Native = &provider.Native{Dialect: "openai"} })}, want: "a/m=a-up fleet"},
		"own keys, preferred":      {of: batchHosts{"m": {"a", "b"}}, keys: byokKeys{"b"}, requests: []*Request{batchRequest(9, func(r *Request) { r.Byok = keyring.ModePrefer })}, want: "a/m=a-up fleet b/m=b-up byok"},
		"own keys, required":       {of: batchHosts{"m": {"a", "b"}}, keys: byokKeys{"b"}, requests: []*Request{batchRequest(9, func(r *Request) { r.Byok = keyring.ModeRequire })}, want: "b/m=b-up byok"},
		"a tool with an approval": {of: batchHosts{"m": {"a"}}, requests: []*Request{batchRequest(9, func(r *Request) {
			r.Chat.Tools = []provider.Tool{{Name: "free"}, {Name: "deploy"}}
		})}, reason: ReasonApprovalRequired},
		"a tool without one": {of: batchHosts{"m": {"a"}}, requests: []*Request{batchRequest(9, func(r *Request) { r.Chat.Tools = []provider.Tool{{Name: "free"}} })}, want: "a/m=a-up fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			b := batchSetup(t, c.of)
			b.Fleet().NeedsApproval = func(tool string) bool { return tool == "deploy" }
			if c.keys != nil {
				b.Fleet().Keys = c.keys
			}
			plan, err := b.planBatch(t, c.requests...)
			if c.reason != "" {
				if e := apierr.From(err); err == nil || e.Reason != c.reason {
					t.Errorf("planned with %v, want %s", err, c.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := targetsOf(plan); got != c.want || plan.Reserves || len(plan.Requests) != len(c.requests) {
				t.Errorf("targets %s for %d requests, reserves %v; want %s without", got, len(plan.Requests), plan.Reserves, c.want)
			}
		})
	}
}

// The worst case is that of the dearest host, at the price of batches, and the bounds of each request are the most of any.
func TestPlanBatchWorst(t *testing.T) {
	b := batchSetup(t, batchHosts{"m": {"a", "b", "d"}})
	b.Admission = &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
	plan, err := b.planBatch(t, batchRequest(100), batchRequest(200))
	if err != nil {
		t.Fatal(err)
	}
	var want price.Pico
	for _, most := range plan.Requests {
		want += price.Pico(most.MostInput*10+most.MostOutput*20) * 1e6 / 2
	}
	if plan.Worst != want || !plan.Reserves || plan.Requests[1].MostOutput-plan.Requests[0].MostOutput != 100 {
		t.Errorf("worst %d of %+v, want %d", plan.Worst, plan.Requests, want)
	}
}

// A sum that is larger than any amount is the largest, not a small one.
func TestPlanBatchOverflow(t *testing.T) {
	b := batchSetup(t, batchHosts{"m": {"b"}})
	b.Admission = &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
	huge := func(r *Request) { r.Bounds.Choices = 10_000_000 }
	plan, err := b.planBatch(t, batchRequest(10_000_000, huge), batchRequest(10_000_000, huge), batchRequest(1))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Worst != 1<<63-1 {
		t.Errorf("worst %d, want the largest amount", plan.Worst)
	}
}

// Under a ceiling, hosts without a price are left out, and a batch that has no other is refused.
func TestPlanBatchUnpriced(t *testing.T) {
	for name, c := range map[string]struct {
		of     batchHosts
		terms  admission.Terms
		allows bool
		want   string
		err    error
	}{
		"one of two":         {batchHosts{"m": {"c", "a"}}, admission.Terms{Reserves: true, Priced: true}, false, "a/m=a-up fleet", nil},
		"the only one":       {batchHosts{"m": {"c"}}, admission.Terms{Reserves: true, Priced: true}, false, "", budget.ErrUnpriced},
		"allowed":            {batchHosts{"m": {"c"}}, admission.Terms{Reserves: true, Priced: true}, true, "c/m=c-up fleet", nil},
		"a limit of calls":   {batchHosts{"m": {"c"}}, admission.Terms{Reserves: true}, false, "c/m=c-up fleet", nil},
		"no limit":           {batchHosts{"m": {"c"}}, admission.Terms{}, false, "c/m=c-up fleet", nil},
		"a model of the run": {batchHosts{"m": {"a", "b"}}, admission.Terms{Reserves: true, Run: &run.Run{Limits: run.Limits{Models: []string{"b/m"}}}}, false, "b/m=b-up fleet", nil},
		"another model":      {batchHosts{"m": {"a", "b"}}, admission.Terms{Reserves: true, Run: &run.Run{Limits: run.Limits{Models: []string{"x"}}}}, false, "", errModelNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			b := batchSetup(t, c.of)
			b.Fleet().ServesUnpriced = c.allows
			b.Admission = &fakeAdmission{terms: c.terms}
			plan, err := b.planBatch(t, batchRequest(9), batchRequest(9))
			if !errors.Is(err, c.err) {
				t.Fatalf("planned with %v, want %v", err, c.err)
			}
			if err == nil && targetsOf(plan) != c.want {
				t.Errorf("targets %s, want %s", targetsOf(plan), c.want)
			}
		})
	}
	for _, field := range []func(r *Request){func(r *Request) { r.Bounds.Unpriced = "service_tier" }, func(r *Request) { r.Bounds.Offered = "tools[0]" }} {
		b := batchSetup(t, batchHosts{"m": {"a"}})
		b.Admission = &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		if _, err := b.planBatch(t, batchRequest(9), batchRequest(9, field)); err == nil {
			t.Error("a request with a field without a price is planned under a ceiling")
		}
	}
}

// A batch is refused as its organization's requests are, and errors of its requests are returned as they are.
func TestPlanBatchRefused(t *testing.T) {
	refusal := apierr.New(apierr.KindForbidden, "organization_suspended", "suspended")
	b := batchSetup(t, batchHosts{"m": {"a"}})
	b.Admission = &fakeAdmission{refuses: refusal}
	if _, err := b.planBatch(t, batchRequest(9)); !errors.Is(err, refusal) {
		t.Errorf("planned with %v, want %v", err, refusal)
	}
	b.Admission = nil
	broken := errors.New("the file breaks off")
	_, err := b.PlanBatch(t.Context(), BatchLimit{API: batchAPI, Most: 3}, func(yield func(*Request, error) bool) {
		_ = yield(batchRequest(9), nil) && yield(nil, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("planned with %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.PlanBatch(ctx, BatchLimit{API: batchAPI, Most: 3}, each(batchRequest(9))); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: %v", err)
	}
}

// A vendor's report is billed as far as the request can have used it, and estimated where it counts nothing although there
// was something.
func TestBatchUsage(t *testing.T) {
	of := BatchBound{Input: 3, MostInput: 10, MostOutput: 5}
	type usage = provider.Usage
	for name, c := range map[string]struct {
		reported *usage
		written  int
		want     usage
		state    ledger.State
		beyond   bool
	}{
		"a report":             {&usage{Input: 10, Output: 5}, 8, usage{Input: 10, Output: 5}, ledger.StateReported, false},
		"more input":           {&usage{Input: 11, Output: 5}, 8, usage{Input: 10, Output: 5}, ledger.StatePartial, true},
		"more output":          {&usage{Input: 1, Output: 1 << 40}, 8, usage{Input: 1, Output: 5}, ledger.StatePartial, true},
		"none":                 {nil, 8, usage{Input: 3, Output: 2}, ledger.StateEstimated, false},
		"zeros":                {&usage{}, 8, usage{Input: 3, Output: 2}, ledger.StateEstimated, false},
		"zeros, a long answer": {&usage{}, 800, usage{Input: 3, Output: 5}, ledger.StateEstimated, false},
		"no output":            {&usage{Input: 7}, 8, usage{Input: 7, Output: 2}, ledger.StateEstimated, false},
		"no output, no text":   {&usage{Input: 7}, 0, usage{Input: 7}, ledger.StateReported, false},
		"no input":             {&usage{Output: 4}, 8, usage{Input: 3, Output: 4}, ledger.StateEstimated, false},
		"cached input":         {&usage{CacheRead: 9, Output: 4}, 8, usage{CacheRead: 9, Output: 4}, ledger.StateReported, false},
		"no input, more output": {
			&usage{Output: 1 << 40}, 8, usage{Input: 3, Output: 5}, ledger.StateEstimated, true,
		},
	} {
		got, state, beyond := BatchUsage(c.reported, of, c.written)
		if diff := cmp.Diff(c.want, got); diff != "" || state != c.state || (beyond != nil) != c.beyond {
			t.Errorf("%s: %s, beyond %+v (-want +got):\n%s", name, state, beyond, diff)
		}
	}
}

// The limit that a refused batch is told costs no more than the ceiling leaves at its dearest host, and hardly less.
func TestPlanBatchFits(t *testing.T) {
	b := batchSetup(t, batchHosts{"m": {"a", "b", "d"}})
	b.Admission = &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
	plan := func(limit int) *BatchPlan {
		t.Helper()
		choices := func(r *Request) { r.Bounds.Choices = 3 }
		plan, err := b.planBatch(t, batchRequest(limit), batchRequest(limit, choices))
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	asked := plan(1_000_000)
	for _, limit := range []int{1, 50, 1000, 54_321, 999_999} {
		room := plan(limit).Worst
		fits := asked.fit(room)
		if got := plan(fits).Worst; fits == 0 && limit > 50 || fits > 0 && got > room || fits < limit-100 {
			t.Errorf("of %d, what a limit of %d costs, a limit of %d costs %d", room, limit, fits, got)
		}
	}
	if got := asked.fit(1); got != 0 {
		t.Errorf("a limit of %d fits into nothing", got)
	}
	if err := asked.Explain(errMissing); !errors.Is(err, errMissing) {
		t.Errorf("another error became %v", err)
	}
}

var errMissing = errors.New("missing")
