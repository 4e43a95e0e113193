package probe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a Prober over fakes of all its dependencies.
type bench struct {
	*probe.Prober

	mu       sync.Mutex
	requests []*inference.Request
	// answer returns the answer to a request.
	answer func(r *inference.Request) (string, error)
	// wait is how long each call takes.
	wait time.Duration

	holder  uuid.UUID
	lost    bool
	ceiling organization.Budget
	spent   float64
}

const golden = "cases: [{name: one, prompt: first, contains: [first]}, {name: two, prompt: second, exact: no}, {name: three, prompt: third, contains: [third]}]"

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{answer: func(r *inference.Request) (string, error) { return "said " + r.Chat.Messages[0].Text(), nil }}
	b.Prober = probe.New(probe.Options{
		Engine: b, Lease: b, Budget: b, Organization: "probes", CeilingCents: 10,
		Golden: func() (*probe.Golden, error) { return probe.ParseGolden([]byte(golden)) },
		Defaults: func() []policy.Default {
			return []policy.Default{
				{Target: provider.Target{Provider: "a", Model: "a-1"}, Operation: provider.OperationChat},
				{Target: provider.Target{Provider: "a", Model: "a-e"}, Operation: provider.OperationEmbeddings},
				{Target: provider.Target{Provider: "b", Model: "b-1"}, Operation: provider.OperationChat},
			}
		},
		Log: testkit.Logger(t),
	})
	return b
}

func (b *bench) serve(ctx context.Context, r *inference.Request) (string, ledger.Report, error) {
	b.mu.Lock()
	b.requests = append(b.requests, r)
	answer := b.answer
	b.mu.Unlock()
	select {
	case <-ctx.Done():
		return "", ledger.Report{}, apierr.From(ctx.Err())
	case <-time.After(b.wait):
	}
	text, err := answer(r)
	return text, ledger.Report{Provider: "a", Model: "a-1", Prompt: 3, Completion: 2, Cost: 5e9, Usage: provider.Usage{Input: 3, Output: 2}}, err
}

func (b *bench) Chat(ctx context.Context, r *inference.Request) (*inference.Completion, error) {
	text, report, err := b.serve(ctx, r)
	if err != nil {
		return nil, err
	}
	return &inference.Completion{Text: text, Report: report, FinishReason: provider.FinishStop}, nil
}

func (b *bench) Embed(ctx context.Context, r *inference.Request) (*inference.Embedded, error) {
	r.Chat.Messages = []provider.Message{{Content: []provider.Part{{Text: r.Embedding.Input[0]}}}}
	_, report, err := b.serve(ctx, r)
	if err != nil {
		return nil, err
	}
	return &inference.Embedded{Report: report}, nil
}

func (b *bench) Take(_ context.Context, holder uuid.UUID, _ probe.Kind, _ time.Duration) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder != uuid.Nil {
		return false, nil
	}
	b.holder = holder
	return true, nil
}

func (b *bench) Prolong(context.Context, uuid.UUID, time.Duration) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.lost, nil
}

func (b *bench) Release(context.Context, uuid.UUID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holder = uuid.Nil
	return nil
}

func (b *bench) Running(context.Context) (probe.Kind, time.Time, error) {
	return probe.KindCanary, time.Unix(0, 0), nil
}

func (b *bench) Spend(context.Context, string, time.Time) (organization.Spend, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return organization.Spend{Organization: organization.Organization{Budget: b.ceiling}, SpentCents: b.spent}, nil
}

func (b *bench) SetBudget(_ context.Context, _ string, set organization.Budget, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ceiling = set
	return nil
}

func TestCanary(t *testing.T) {
	b := setup(t)
	report, err := b.Canary(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if report.Provider != "a" || report.Passed != 2 || report.Failed != 1 {
		t.Errorf("%s passed %d and failed %d, want a with 2 and 1", report.Provider, report.Passed, report.Failed)
	}
	if name := report.Verdicts[0].Name; name != "one" {
		t.Errorf("the first case is %q, want one", name)
	}
	if failed := report.Verdicts[1]; failed.Reason == "" || failed.Answer != "said second" {
		t.Errorf("the case that failed: reason %q, answer %q, want a reason and the answer", failed.Reason, failed.Answer)
	}
	if report.Usage.Prompt != 9 || report.Usage.Cost != 15e9 {
		t.Errorf("%d prompt tokens for %d, want 9 for 15e9", report.Usage.Prompt, report.Usage.Cost)
	}
	for _, r := range b.requests {
		if !r.Probe || !r.BypassCache || r.Route.Substitution {
			t.Errorf("probe %t, cache bypassed %t, substitution %t, want true, true, false", r.Probe, r.BypassCache, r.Route.Substitution)
		}
		if r.Byok != keyring.ModeFleet || r.Organization != "probes" {
			t.Errorf("credentials %v of %q, want the fleet's for probes", r.Byok, r.Organization)
		}
		if r.Chat.MaxTokens != 256 {
			t.Errorf("max tokens %d, want 256", r.Chat.MaxTokens)
		}
	}
	if b.ceiling.CeilingCents != 10 || b.ceiling.Period != organization.PeriodDay || b.holder != uuid.Nil {
		t.Errorf("ceiling %v, holder %v", b.ceiling, b.holder)
	}
	b.answer = func(r *inference.Request) (string, error) {
		if r.Chat.Messages[0].Text() == "first" {
			return "", apierr.New(apierr.KindUpstream, "provider_failed", "it is down")
		}
		return "third", nil
	}
	report, err = b.Canary(t.Context(), "b", "b-1")
	if err != nil {
		t.Fatal(err)
	}
	if report.Passed != 1 {
		t.Errorf("%d passed, want 1", report.Passed)
	}
	if failed := report.Verdicts[0]; failed.Class != apierr.ClassServerError || failed.Reason != "it is down" {
		t.Errorf("the case that failed: class %s, reason %q, want the provider's", failed.Class, failed.Reason)
	}
	if last := b.requests[len(b.requests)-1]; last.Route.Provider != "b" || last.Route.Model != "b-1" {
		t.Errorf("%+v", last.Route)
	}
}

func TestConsistency(t *testing.T) {
	b := setup(t)
	n := 0
	b.answer = func(*inference.Request) (string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		n++
		switch n {
		case 1:
			return "the cat sat", nil
		case 2:
			return "", errors.New("down")
		}
		return " the cat ran ", nil
	}
	got, err := b.Consistency(t.Context(), probe.Question{Prompt: "p", Count: 4, MaxTokens: 5})
	if err != nil {
		t.Fatal(err)
	}
	if got.Distinct != 2 || len(got.Samples) != 4 {
		t.Errorf("%d distinct answers in %d samples, want 2 in 4", got.Distinct, len(got.Samples))
	}
	if rates := fmt.Sprintf("%.3f %.3f", got.Agreement, got.Overlap); rates != "0.667 0.667" {
		t.Errorf("agreement and overlap %s, want 0.667 each", rates)
	}
	b.answer = func(*inference.Request) (string, error) { return "", errors.New("down") }
	if got, err = b.Consistency(t.Context(), probe.Question{Prompt: "p", Count: 2}); err != nil {
		t.Fatal(err)
	}
	if got.Distinct != 0 || got.Agreement != 0 {
		t.Errorf("without an answer: %d distinct, agreement %v, want none", got.Distinct, got.Agreement)
	}
	if got.Samples[0].Class == "" {
		t.Error("a sample without an answer has no error class")
	}
}

func TestLiveness(t *testing.T) {
	b := setup(t)
	b.answer = func(r *inference.Request) (string, error) {
		if r.Route.Provider == "b" {
			cause := &provider.Error{Class: apierr.ClassAuth, Code: "invalid_api_key"}
			return "", (&apierr.Error{Kind: apierr.KindUpstream, Reason: "provider_failed", Class: apierr.ClassAuth}).Wrap(cause)
		}
		return "ok", nil
	}
	got, err := b.Liveness(t.Context(), "")
	if err != nil || len(got.Results) != 3 {
		t.Fatalf("%d results, %v, want 3", len(got.Results), err)
	}
	if got.AllAlive || !got.Results[0].Alive || !got.Results[1].Alive {
		t.Errorf("all alive %t, the first %t, the second %t, want only these two", got.AllAlive, got.Results[0].Alive, got.Results[1].Alive)
	}
	if got.Cost != 10e9 {
		t.Errorf("cost %d, want 10e9", got.Cost)
	}
	if s := got.Results[2]; s.Alive || s.Usage != nil {
		t.Errorf("the refused probe: alive %t, usage %+v, want neither", s.Alive, s.Usage)
	}
	if s := got.Results[2]; s.Class != apierr.ClassAuth || s.Code != "invalid_api_key" {
		t.Errorf("the refused probe: class %s, code %q, want those of the provider's error", s.Class, s.Code)
	}
	if got, err = b.Liveness(t.Context(), "a"); err != nil || !got.AllAlive || len(got.Results) != 2 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err = b.Liveness(t.Context(), "z"); apierr.From(err).Kind != apierr.KindNotFound {
		t.Error(err)
	}
}

func TestBudget(t *testing.T) {
	b := setup(t)
	b.ceiling, b.spent = organization.Budget{CeilingCents: 7, Period: organization.PeriodMonth}, 7
	_, err := b.Liveness(t.Context(), "")
	if e := apierr.From(err); e.Kind != apierr.KindForbidden || e.Reason != probe.ReasonBudgetExceeded {
		t.Errorf("error %v, want %s", err, probe.ReasonBudgetExceeded)
	}
	if len(b.requests) != 0 {
		t.Errorf("%d calls without a budget", len(b.requests))
	}
	if b.ceiling.CeilingCents != 7 {
		t.Errorf("the ceiling became %v cents", b.ceiling.CeilingCents)
	}
	// A refusal before any call refuses the probe as a whole; a later one is reported for its case.
	b.spent = 0
	spentUp := apierr.New(apierr.KindForbidden, probe.ReasonBudgetExceeded, "spent")
	b.answer = func(*inference.Request) (string, error) { return "", spentUp }
	if _, err = b.Canary(t.Context(), "", ""); apierr.From(err).Reason != probe.ReasonBudgetExceeded {
		t.Error(err)
	}
	b.answer = func(r *inference.Request) (string, error) {
		if r.Chat.Messages[0].Text() == "first" {
			return "first", nil
		}
		return "", spentUp
	}
	if report, err := b.Canary(t.Context(), "", ""); err != nil || report.Passed != 1 || report.Failed != 2 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.wait = 40 * time.Second // Longer than the lease: it is extended.
		var first sync.WaitGroup
		first.Go(func() {
			if _, err := b.Consistency(t.Context(), probe.Question{Prompt: "p", Count: 2}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		_, err := b.Canary(t.Context(), "", "")
		if e := apierr.From(err); e.Kind != apierr.KindConflict || e.Reason != probe.ReasonRunning || !strings.Contains(e.Text, "canary, since 1970") {
			t.Errorf("%v", err)
		}
		first.Wait()
		b.wait = 0
		if _, err := b.Canary(t.Context(), "", ""); err != nil {
			t.Error(err)
		}
	})
}

// A probe that has lost its lease ends: another one may have begun.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.wait, b.lost = time.Hour, true
		start := time.Now()
		if _, err := b.Canary(t.Context(), "", ""); apierr.From(err).Kind != apierr.KindUnavailable || time.Since(start) > 6*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}
