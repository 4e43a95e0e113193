package inference

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// twins plans candidates of one model, "m", in order; a name with a "*" is a host of another one.
type twins struct {
	names  []string
	pinned bool
	canary int
}

func (h twins) Plan(r routing.Request) (routing.Plan, error) {
	out := routing.Plan{Pinned: h.pinned, CanaryRevision: h.canary}
	for _, name := range h.names {
		model := "m"
		if host, other := strings.CutSuffix(name, "*"); other {
			name, model = host, "n"
		}
		out.Candidates = append(out.Candidates, routing.Candidate{Target: provider.Target{Provider: name, Model: model}, Upstream: name + "-up"})
		if !r.Substitution {
			break
		}
	}
	return out, nil
}

const hedgePrices = `providers:
  - {provider: a, models: [{model: m, effective_from: 1999-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
  - {provider: b, models: [{model: m, effective_from: 1999-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
  - {provider: c, models: [{model: n, effective_from: 1999-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
`

// concurrency is how many calls a vendor may have in flight.
const concurrency = 8

// setupHedged returns an engine whose requests are hedged after 100 ms, with money for it.
func setupHedged(tb testing.TB, scripts ...*script) *bench {
	tb.Helper()
	b := setup(tb, nil, scripts...)
	fleet := b.Fleet()
	names := make([]string, len(scripts))
	for i, s := range scripts {
		names[i] = s.name
		if s.name == "c" {
			names[i] += "*"
		}
	}
	fleet.Planner, fleet.Prices = twins{names: names}, pricetest.Table(tb, hedgePrices)
	fleet.Hedge = func(policy.Goal) policy.Hedge {
		return policy.Hedge{BudgetPercent: 2, After: 100 * time.Millisecond, Goal: policy.GoalLatency}
	}
	b.Health = health.New(health.Options{Concurrency: concurrency})
	b.hedges.latency.Earn(1e15, 1, 2, time.Now())
	return b
}

// after returns the steps of an answer whose first content takes a while.
func after(wait time.Duration, text string) []step {
	return []step{{wait: wait, event: provider.Event{Text: text}}, end(used)}
}

// failingAfter returns the steps of a failure that takes a while.
func failingAfter(wait time.Duration, class apierr.Class, status int) []step {
	return []step{{wait: wait}, failing(class, status)[0]}
}

func vendorOf(name string, steps []step) *script {
	return &script{name: name, answer: provider.Answer{Text: name, FinishReason: provider.FinishStop, Usage: used}, steps: steps}
}

const (
	quick   = 50 * time.Millisecond
	tardy   = 150 * time.Millisecond // after the hedge has begun
	hanging = time.Hour
)

func serveHedged(ctx context.Context, b *bench, r *Request, stream bool) (string, Route, error) {
	if !stream {
		answer, err := b.Chat(ctx, r)
		if err != nil {
			return "", Route{}, err
		}
		return answer.Text, answer.Route, nil
	}
	s, err := b.StreamChat(ctx, r)
	if err != nil {
		return "", Route{}, err
	}
	text, err := read(s)
	return text, s.Route(), err
}

// checkRows compares the rows of the ledger, in any order, as "provider outcome state, …". Each has an id of its own.
func checkRows(t *testing.T, b *bench, want string) {
	t.Helper()
	var rows []string
	ids := make(map[string]bool)
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	for _, e := range b.ledger.entries {
		rows = append(rows, fmt.Sprintf("%s %s %s", e.Provider, e.Outcome, e.State))
		ids[e.ID.String()] = true
		if e.Cost == 0 {
			t.Errorf("the row of %s costs nothing", e.Provider)
		}
	}
	slices.Sort(rows)
	if diff := cmp.Diff(want, strings.Join(rows, ", ")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if len(ids) != len(rows) {
		t.Errorf("%d rows have %d ids", len(rows), len(ids))
	}
}

// checkSettled checks that nothing is left of a request: each of its reservations was replaced by its row or released,
// its grant has ended, and its permits were returned once.
func checkSettled(t *testing.T, b *bench, d *fakeAdmission) {
	t.Helper()
	checkReservations(t, b, d)
	for name := range b.scripts {
		target := provider.Target{Provider: name, Model: "m"}
		for i := range concurrency {
			if _, refused := b.Health.Acquire(t.Context(), health.Call{Target: target}); refused != nil && refused.Cause == health.CauseFull {
				t.Errorf("%s has only %d of %d permits: %s", name, i, concurrency, refused.Cause)
				break
			}
		}
		if _, refused := b.Health.Acquire(t.Context(), health.Call{Target: target}); refused == nil {
			t.Errorf("%s has more permits than %d", name, concurrency)
		}
	}
}

func checkReservations(t *testing.T, b *bench, d *fakeAdmission) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside != 0 || len(d.ended) != 1 {
		t.Fatalf("%d inside, ended %v", d.inside, d.ended)
	}
	rows := make(map[string]ledger.Entry)
	for _, e := range b.ledger.entries {
		rows[e.ID.String()] = e
	}
	left := 0
	for id, worst := range d.reserved {
		row, billed := rows[id.String()]
		recorded, settled := d.settled[id]
		if !settled {
			left++
			recorded = d.ended[0]
		}
		if recorded != billed || row.Cost > worst {
			t.Errorf("reservation %s of %d: billed %t (%d), recorded %t", id, worst, billed, row.Cost, recorded)
		}
	}
	if left > 1 {
		t.Errorf("%d reservations are left to the end", left)
	}
	for id := range rows {
		if !slices.ContainsFunc(b.ledger.entries, func(e ledger.Entry) bool { return e.ID.String() == id && d.reserved[e.ID] > 0 }) {
			t.Errorf("the row %s was not reserved", id)
		}
	}
}

// byokAt is the provider for which the organization has a credential of its own.
type byokAt string

func (k byokAt) Resolve(_ context.Context, _ keyring.Scope, name string) ([]provider.Credential, error) {
	if name == string(k) {
		return []provider.Credential{{Source: keyring.SourceByok, Fingerprint: "own"}}, nil
	}
	return []provider.Credential{{Source: keyring.SourceFleet, Fingerprint: "fleet"}}, nil
}
