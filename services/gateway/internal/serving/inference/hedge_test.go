package inference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
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
	quick  = 50 * time.Millisecond
	tardy  = 150 * time.Millisecond // after the hedge has begun
	hanging = time.Hour
)

// Every way in which the two calls of a hedged request can end, as a stream and as a whole answer.
func TestHedge(t *testing.T) {
	for name, c := range map[string]struct {
		a, b     []step
		want     string // the answer
		err      bool
		took     time.Duration
		attempts int
		hedged   string
		rows     string // provider, outcome and state, in any order
		calls    int    // of b
	}{
		"answers before the hedge":     {a: after(quick, "a"), b: after(quick, "b"), want: "a", took: quick, attempts: 1, rows: "a completed reported"},
		"the first wins":               {a: after(tardy, "a"), b: after(hanging, "b"), want: "a", took: tardy, attempts: 2, hedged: "b/m", rows: "a completed reported, b interrupted estimated", calls: 1},
		"the second wins":              {a: after(hanging, "a"), b: after(quick, "b"), want: "b", took: tardy, attempts: 2, hedged: "a/m", rows: "a interrupted estimated, b completed reported", calls: 1},
		"both fail":                    {a: failingAfter(tardy, apierr.ClassServerError, 500), b: failingAfter(tardy, apierr.ClassServerError, 500), want: "c", took: 250 * time.Millisecond, attempts: 3, rows: "c completed reported", calls: 1},
		"the first fails":              {a: failingAfter(tardy, apierr.ClassServerError, 500), b: after(time.Second, "b"), want: "b", took: 1100 * time.Millisecond, attempts: 2, rows: "b completed reported", calls: 1},
		"the first fails before":       {a: failingAfter(quick, apierr.ClassServerError, 500), b: after(time.Second, "b"), want: "b", took: 1050 * time.Millisecond, attempts: 2, rows: "b completed reported", calls: 1},
		"the second fails":             {a: after(time.Second, "a"), b: failingAfter(quick, apierr.ClassServerError, 500), want: "a", took: time.Second, attempts: 2, rows: "a completed reported", calls: 1},
		"the second is refused":        {a: after(time.Second, "a"), b: failing(apierr.ClassRateLimit, 429), want: "a", took: time.Second, attempts: 2, rows: "a completed reported", calls: 1},
		"the request is at fault":      {a: failingAfter(tardy, apierr.ClassContentPolicy, 400), b: after(hanging, "b"), err: true, took: tardy, rows: "b interrupted estimated", calls: 1},
		"the first one's clock ends":   {a: after(hanging, "a"), b: failingAfter(hanging, apierr.ClassServerError, 500), want: "c", rows: "a interrupted estimated, b interrupted estimated, c completed reported", calls: 1},
		"the second fails, then first": {a: failingAfter(time.Second, apierr.ClassServerError, 500), b: failingAfter(quick, apierr.ClassServerError, 500), want: "c", took: time.Second, attempts: 3, rows: "c completed reported", calls: 1},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := setupHedged(t, vendorOf("a", c.a), vendorOf("b", c.b), vendorOf("c", after(0, "c")))
					d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
					b.Admission = d
					began := time.Now()
					got, route, err := serveHedged(t.Context(), b, request(), stream)
					took := time.Since(began)
					if got != c.want || (err != nil) != c.err {
						t.Fatalf("%q, %v, want %q", got, err, c.want)
					}
					if c.took > 0 && took != c.took {
						t.Errorf("took %s, want %s", took, c.took)
					}
					if c.attempts > 0 && route.Attempts != c.attempts {
						t.Errorf("%d attempts, want %d", route.Attempts, c.attempts)
					}
					hedged := ""
					if route.Hedged != (provider.Target{}) {
						hedged = route.Hedged.String()
					}
					if hedged != c.hedged {
						t.Errorf("hedged %q, want %q", hedged, c.hedged)
					}
					if calls, _ := b.scripts["b"].count(); calls != c.calls && c.calls > 0 {
						t.Errorf("%d calls of b, want %d", calls, c.calls)
					}
					checkRows(t, b, c.rows)
					checkSettled(t, b, d)
				})
			})
		}
	}
}

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

// A caller who leaves while both calls are in flight ends both at once, and pays for both; so does a request that the
// gateway ends.
func TestHedgeEndsWithItsRequest(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for cause, rows := range map[error]string{
			nil:            "a cancelled estimated, b cancelled estimated",
			run.ErrRevoked: "a aborted estimated, b aborted estimated",
		} {
			synctest.Test(t, func(t *testing.T) {
				b := setupHedged(t, vendorOf("a", after(hanging, "a")), vendorOf("b", after(hanging, "b")))
				d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
				b.Admission = d
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(tardy, func() {
					if cause == nil {
						cancel()
						return
					}
					d.end(cause)
				})
				began := time.Now()
				_, _, err := serveHedged(ctx, b, request(), stream)
				if err == nil || cause != nil && !errors.Is(err, cause) {
					t.Errorf("%v, want %v", err, cause)
				}
				if took := time.Since(began); took != tardy {
					t.Errorf("it took %s", took)
				}
				checkRows(t, b, rows)
				checkSettled(t, b, d)
			})
		}
	}
}

// There is no hedge where there is no money, no room, no reservation, or no second call that could do no harm.
func TestNoHedge(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(b *bench, r *Request)
		refuses bool
	}{
		"no budget": {change: func(b *bench, _ *Request) { b.hedges.latency.Settle(0, 1e15) }},
		"off": {change: func(b *bench, _ *Request) {
			b.Fleet().Hedge = func(policy.Goal) policy.Hedge { return policy.Hedge{} }
		}},
		"unknown latency": {change: func(b *bench, _ *Request) {
			b.Fleet().Hedge = func(policy.Goal) policy.Hedge { return policy.Hedge{BudgetPercent: 2, Goal: policy.GoalLatency} }
		}},
		"no reservation":  {refuses: true},
		"another model":   {change: func(b *bench, _ *Request) { b.Fleet().Planner = twins{names: []string{"a", "b*"}} }},
		"a pin":           {change: func(b *bench, _ *Request) { b.Fleet().Planner = twins{names: []string{"a", "b"}, pinned: true} }},
		"a canary":        {change: func(b *bench, _ *Request) { b.Fleet().Planner = twins{names: []string{"a", "b"}, canary: 1} }},
		"no substitution": {change: func(_ *bench, r *Request) { r.Route.Substitution = false }},
		"a probe":         {change: func(_ *bench, r *Request) { r.Probe = true }},
		"stored":          {change: func(_ *bench, r *Request) { r.Stored = true }},
		"a vendor stores": {change: func(_ *bench, r *Request) { r.Hints = []provider.HintField{{Name: "store"}} }},
		"an approval":     {change: func(_ *bench, r *Request) { r.ApprovalRef = "ap_1" }},
		"a vendor's tool": {change: func(_ *bench, r *Request) { r.Bounds.Offered = "tools[0].type: web_search" }},
		"open input":      {change: func(_ *bench, r *Request) { r.Bounds.OpenInput = true }},
		"surcharged":      {change: func(_ *bench, r *Request) { r.Bounds.Surcharged = true }},
		"no room at the first": {change: func(b *bench, _ *Request) {
			for range concurrency*3/4 - 1 { // With the request's own call it is three quarters.
				b.Health.Acquire(context.Background(), health.Call{Target: provider.Target{Provider: "a", Model: "m"}})
			}
		}},
		"no room at the second": {change: func(b *bench, _ *Request) {
			for range concurrency * 3 / 4 {
				b.Health.Acquire(context.Background(), health.Call{Target: provider.Target{Provider: "b", Model: "m"}})
			}
		}},
		"an open circuit": {change: func(b *bench, _ *Request) {
			for range 20 {
				if p, refused := b.Health.Acquire(context.Background(), health.Call{Target: provider.Target{Provider: "b", Model: "m"}}); refused == nil {
					p.End(context.Background(), health.Verdict{Outcome: health.Bad})
				}
			}
		}},
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := setupHedged(t, vendorOf("a", after(time.Second, "a")), vendorOf("b", after(quick, "b")))
				r := request()
				if c.change != nil {
					c.change(b, r)
				}
				d := &fakeAdmission{terms: admission.Terms{Reserves: true}}
				b.Admission = d
				if c.refuses {
					b.Admission = full{d}
				}
				got, route, err := serveHedged(t.Context(), b, r, stream)
				if err != nil || got != "a" || route.Attempts != 1 || route.Hedged != (provider.Target{}) {
					t.Errorf("%s, stream %t: %q with %+v, %v", name, stream, got, route, err)
				}
				if calls, _ := b.scripts["b"].count(); calls != 0 {
					t.Errorf("%s, stream %t: b was called %d times", name, stream, calls)
				}
				if len(b.ledger.entries) != 1 || len(d.ended) != 1 || !d.ended[0] {
					t.Errorf("%s, stream %t: %d rows, ended %v", name, stream, len(b.ledger.entries), d.ended)
				}
			})
		}
	}
}

// A hedge that found no reservation leaves the budget of hedges as it was.
func TestHedgeWithoutReservationCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setupHedged(t, vendorOf("a", after(time.Second, "a")), vendorOf("b", after(quick, "b")))
		b.Admission = full{&fakeAdmission{terms: admission.Terms{Reserves: true}}}
		if _, err := b.Chat(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
		if !b.hedges.latency.Take(1.99e13, 2, time.Now()) {
			t.Error("the budget is smaller than before")
		}
	})
}

// slowReservation takes its time for every reservation but the first.
type slowReservation struct{ *fakeAdmission }

func (s slowReservation) Admit(ctx context.Context, organization, id string) (admission.Grant, error) {
	g, err := s.fakeAdmission.Admit(ctx, organization, id)
	return slowGrant{g.(*fakeGrant)}, err //nolint:forcetypeassert // fakeAdmission returns no other type.
}

type slowGrant struct{ *fakeGrant }

func (g slowGrant) Reserve(ctx context.Context, id uuid.UUID, worst price.Pico) error {
	if len(g.reserved) > 0 {
		time.Sleep(time.Second)
	}
	return g.fakeGrant.Reserve(ctx, id, worst)
}

// A first call that answers while the hedge is still being reserved has no hedge: no second call is made, and the
// reservation is released.
func TestAnswerWhileAHedgeIsReserved(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := setupHedged(t, vendorOf("a", after(tardy, "a")), vendorOf("b", after(quick, "b")))
			d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
			b.Admission = slowReservation{d}
			got, route, err := serveHedged(t.Context(), b, request(), stream)
			if err != nil || got != "a" || route.Attempts != 1 || route.Hedged != (provider.Target{}) {
				t.Errorf("%q with %+v, %v", got, route, err)
			}
			if calls, _ := b.scripts["b"].count(); calls != 0 {
				t.Errorf("b was called %d times", calls)
			}
			checkRows(t, b, "a completed reported")
			if len(d.reserved) != 2 {
				t.Fatalf("%d reservations, want 2", len(d.reserved))
			}
			checkSettled(t, b, d)
		})
	}
}

// Where both calls answer at the same moment one of them serves, and what the other has reported is billed.
func TestBothCallsAnswer(t *testing.T) {
	for stream, state := range map[bool]string{false: "reported", true: "estimated"} {
		synctest.Test(t, func(t *testing.T) {
			b := setupHedged(t, vendorOf("a", after(tardy, "a")), vendorOf("b", after(quick, "b")))
			d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
			b.Admission, b.Memory = d, memory.New(1<<20, 50)
			got, route, err := serveHedged(t.Context(), b, request(), stream)
			if err != nil || route.Attempts != 2 || route.Hedged.Provider == got {
				t.Errorf("%q with %+v, %v", got, route, err)
			}
			rows := []string{got + " completed reported", route.Hedged.Provider + " interrupted " + state}
			slices.Sort(rows)
			checkRows(t, b, strings.Join(rows, ", "))
			checkSettled(t, b, d)
			if held := b.Memory.Held(); held != 0 {
				t.Errorf("%d bytes are held after the request", held)
			}
		})
	}
}

// The record of a request has both calls in the order in which they were made, and each has a span.
func TestHedgeIsRecorded(t *testing.T) {
	for first, c := range map[time.Duration]struct{ tries, served string }{
		tardy:   {"a ok 150ms , b cancelled 50ms hedged", "a"},
		hanging: {"a cancelled 200ms hedged, b ok 100ms ", "b"},
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				second := hanging
				if first == hanging {
					second = 2 * quick
				}
				b := setupHedged(t, vendorOf("a", after(first, "a")), vendorOf("b", after(second, "b")))
				w := &watcher{}
				b.Recorder = w
				if _, _, err := serveHedged(t.Context(), b, request(), stream); err != nil {
					t.Fatal(err)
				}
				var tries []string
				for _, try := range w.seen.Tries {
					tries = append(tries, fmt.Sprintf("%s %s %s %s", try.Provider, try.Outcome, try.Duration, try.Code))
				}
				if diff := cmp.Diff(c.tries, strings.Join(tries, ", ")); diff != "" {
					t.Errorf("stream %t (-want +got):\n%s", stream, diff)
				}
				if w.seen.Served.Provider != c.served || w.seen.Report.Provider != c.served || w.seen.Status != trace.StatusOK {
					t.Errorf("served by %s, billed to %s, %s", w.seen.Served, w.seen.Report.Provider, w.seen.Status)
				}
				for _, e := range b.ledger.entries {
					if (e.ID == w.seen.ID) != (e.Outcome == ledger.OutcomeCompleted) {
						t.Errorf("the record has the id %s, the %s row of %s has %s", w.seen.ID, e.Outcome, e.Provider, e.ID)
					}
				}
			})
		}
	}
}

// watcher keeps the last observation.
type watcher struct{ seen *trace.Observation }

func (*watcher) Observe(string) (int, bool) { return 0, true }

func (w *watcher) Record(_ context.Context, o *trace.Observation) { w.seen = o }

// stubborn is a provider that ignores that its call was ended.
type stubborn struct{ *script }

func (p stubborn) Chat(_ context.Context, c provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	time.Sleep(time.Minute)
	return p.script.Chat(context.Background(), c, chat)
}

// An answer does not wait longer than loserTime for a call that does not end.
func TestCallThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setupHedged(t, vendorOf("a", nil), vendorOf("b", after(quick, "b")))
		b.Fleet().Providers["a"] = stubborn{b.scripts["a"]}
		d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
		b.Admission = d
		began := time.Now()
		got, _, err := serveHedged(t.Context(), b, request(), false)
		if took := time.Since(began); err != nil || got != "b" || took != tardy+loserTime {
			t.Errorf("%q after %s, %v", got, took, err)
		}
		time.Sleep(2 * time.Minute)
		checkRows(t, b, "a interrupted reported, b completed reported") // What the vendor has reported in the end.
	})
}

// brokenLater is a provider whose adapter panics after a while.
type brokenLater struct {
	*script
	wait time.Duration
}

func (p brokenLater) Chat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	p.called(chat)
	provider.ReceiptOf(ctx).SetSent()
	if err := (step{wait: p.wait}).take(ctx); err != nil {
		return nil, err
	}
	panic("a bug in the adapter")
}

func (p brokenLater) StreamChat(ctx context.Context, c provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	_, err := p.Chat(ctx, c, chat)
	return nil, err
}

// A panic in one adapter costs only its own call.
func TestPanicInOneCallOfAHedge(t *testing.T) {
	for broken, want := range map[string]string{"a": "b", "b": "a"} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := setupHedged(t, vendorOf("a", after(time.Second, "a")), vendorOf("b", after(time.Second, "b")))
				b.Fleet().Providers[broken] = brokenLater{b.scripts[broken], tardy}
				d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
				b.Admission = d
				got, _, err := serveHedged(t.Context(), b, request(), stream)
				if err != nil || got != want {
					t.Errorf("%q, %v, want the answer of %s", got, err, want)
				}
				checkRows(t, b, want+" completed reported")
				checkSettled(t, b, d)
			})
		}
	}
}

// A second credential of the same pool takes the hedge where no other provider has the model.
func TestHedgeInAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setupHedged(t, vendorOf("a", nil))
		b.Fleet().Keys = poolOf(2)
		vendor := &slowFirst{script: b.scripts["a"]}
		b.Fleet().Providers["a"] = vendor
		got, route, err := serveHedged(t.Context(), b, request(), true)
		if err != nil || route.Attempts != 2 || route.Hedged.String() != "a/m" {
			t.Errorf("%+v, %v", route, err)
		}
		if len(vendor.names) != 2 || vendor.names[0] == vendor.names[1] || got != vendor.names[1] {
			t.Errorf("called with %v, answered by %q", vendor.names, got)
		}
		checkRows(t, b, "a completed reported, a interrupted estimated")
	})
}

// slowFirst is a provider that answers with the name of the credential, except the first call, which hangs.
type slowFirst struct {
	*script
	names []string
}

func (p *slowFirst) StreamChat(ctx context.Context, c provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	p.called(chat)
	provider.ReceiptOf(ctx).SetSent()
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := quick
	if len(p.names) == 0 {
		wait = hanging
	}
	p.names = append(p.names, c.Name)
	return &scriptStream{ctx: ctx, of: p.script, steps: after(wait, c.Name)}, nil
}

// tailed is a provider of which few calls are slow.
type tailed struct {
	*script
	mu   sync.Mutex
	n    int
	each int // one call of so many is slow
}

func (p *tailed) StreamChat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	p.called(chat)
	provider.ReceiptOf(ctx).SetSent()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	wait := 45*time.Millisecond + time.Duration(p.n%11)*time.Millisecond
	if p.n%p.each == 0 {
		wait = 5 * time.Second
	}
	usage := end(&provider.Usage{Input: 1000, Output: 50})
	return &scriptStream{ctx: ctx, of: p.script, steps: []step{{wait: wait, event: provider.Event{Text: "yes"}}, usage}}, nil
}

// With one call in a hundred a hundred times slower, a budget of 2 % at least halves the 99th percentile of the wait for
// the first content, and costs no more than 2 %. Every call that was made has a row.
func TestHedgeCutsTheTail(t *testing.T) {
	const requests, percent = 4000, 2.0
	simulate := func(t *testing.T, hedge policy.Hedge) (p99 time.Duration, extra float64) {
		synctest.Test(t, func(t *testing.T) {
			b := setupHedged(t, vendorOf("a", nil), vendorOf("b", nil))
			b.Fleet().Hedge = func(policy.Goal) policy.Hedge { return hedge }
			b.hedges = hedgeBudgets{}
			b.Clocks.FirstToken = time.Minute
			for name, s := range b.scripts {
				b.Fleet().Providers[name] = &tailed{script: s, each: 97}
			}
			r := request() // About a thousand tokens, as many as the vendor reports.
			r.Chat.Messages[0].Content[0].Text = strings.Repeat("1234", 1000)
			var waits []time.Duration
			for range requests {
				began := time.Now()
				s, err := b.StreamChat(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				waits = append(waits, time.Since(began))
				if _, err := read(s); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(waits)
			p99 = waits[len(waits)*99/100]
			var served, lost int64
			for _, e := range b.ledger.entries {
				if e.Outcome == ledger.OutcomeCompleted {
					served += int64(e.Cost)
				} else {
					lost += int64(e.Cost)
				}
			}
			extra = 100 * float64(lost) / float64(served)
			calls := 0
			for _, s := range b.scripts {
				n, closed := s.count()
				if calls += n; n != closed {
					t.Errorf("%s: %d calls, %d closed", s.name, n, closed)
				}
			}
			if len(b.ledger.entries) != calls {
				t.Errorf("%d rows of %d calls", len(b.ledger.entries), calls)
			}
		})
		return p99, extra
	}
	without, _ := simulate(t, policy.Hedge{})
	with, extra := simulate(t, policy.Hedge{BudgetPercent: percent, Goal: policy.GoalLatency})
	t.Logf("p99 %s without hedges, %s with, for %.2f%% more", without, with, extra)
	if with > without/2 {
		t.Errorf("p99 is %s with hedges, %s without", with, without)
	}
	if extra <= 0 || extra > percent {
		t.Errorf("hedges cost %.2f%%, want more than 0 and at most %.0f%%", extra, percent)
	}
}

// Where every call is slow, hedges cost no more than their budget either.
func TestHedgeKeepsToItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setupHedged(t, vendorOf("a", after(time.Second, "a")), vendorOf("b", after(time.Second, "b")))
		b.hedges = hedgeBudgets{}
		for range 1000 {
			s, err := b.StreamChat(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = s.Next()
			}
			if s.Close(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		var served, lost int64
		for _, e := range b.ledger.entries {
			if e.Outcome == ledger.OutcomeCompleted {
				served += int64(e.Cost)
			} else {
				lost += int64(e.Cost)
			}
		}
		if lost == 0 || 100*lost > 2*served {
			t.Errorf("hedges cost %d of %d", lost, served)
		}
	})
}
