package inference

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// embedder is a provider with scripted vectors.
type embedder struct {
	name    string
	vectors provider.Vectors
	err     error
	wait    time.Duration
	asked   []provider.Embedding
}

func (e *embedder) Name() string { return e.name }

func (e *embedder) Embed(ctx context.Context, _ provider.Credential, request *provider.Embedding) (*provider.Vectors, error) {
	e.asked = append(e.asked, *request)
	provider.ReceiptOf(ctx).SetSent()
	if err := (step{wait: e.wait, err: e.err}).take(ctx); err != nil {
		return nil, err
	}
	made := e.vectors
	return &made, nil
}

// candidates is a planner of fixed candidates. The first was asked for.
type candidates struct {
	requested string
	all       []routing.Candidate
}

func (c candidates) Plan(r routing.Request) (routing.Plan, error) {
	plan := routing.Plan{Requested: c.requested, Candidates: c.all}
	if !r.Substitution {
		plan.Candidates = c.all[:1]
	}
	return plan, nil
}

func at(name, model string) routing.Candidate {
	return routing.Candidate{Target: provider.Target{Provider: name, Model: model}, Upstream: model + "-up"}
}

// chain returns an engine over two providers.
func chain(t *testing.T, requested string, models [2]string, a, b provider.Provider) *bench {
	t.Helper()
	bench := setup(t, nil, &script{name: "a"}, &script{name: "b"})
	fleet := bench.Fleet()
	fleet.Planner = candidates{requested, []routing.Candidate{at("a", models[0]), at("b", models[1])}}
	fleet.Providers = map[string]provider.Provider{"a": a, "b": b}
	return bench
}

func embedRequest(texts ...string) *Request {
	r := request()
	r.Route.Operation, r.Chat = provider.OperationEmbeddings, provider.Chat{}
	r.Embedding = provider.Embedding{Input: texts}
	return r
}

func two(usage *provider.Usage) provider.Vectors {
	return provider.Vectors{Vectors: [][]float32{{1, 2}, {3, 4}}, Usage: usage}
}

func TestEmbed(t *testing.T) {
	a := &embedder{name: "a", vectors: two(&provider.Usage{Input: 10})}
	b := chain(t, "a", [2]string{"a-1", "a-1"}, a, &embedder{name: "b"})
	r := embedRequest("one", "two")
	r.Embedding.Dimensions = 2
	got, err := b.Embed(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.Report{Provider: "a", Model: "a-1", Prompt: 10, Usage: provider.Usage{Input: 10}, Cost: 10e6, RequestedProvider: "a"}
	if diff := cmp.Diff(want, got.Report); diff != "" || !cmp.Equal(got.Vectors, [][]float32{{1, 2}, {3, 4}}) || got.Route.Attempts != 1 {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	if diff := cmp.Diff([]provider.Embedding{{Model: "a-1-up", Input: []string{"one", "two"}, Dimensions: 2}}, a.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	entry := b.ledger.entries[0]
	checkBilled(t, b, billedRow{"a", ledger.OutcomeCompleted, ledger.StateReported, provider.Usage{Input: 10}})
	if entry.Operation != "embeddings" || entry.Cost != 10e6 {
		t.Errorf("operation %q, cost %d; want embeddings and 10e6", entry.Operation, entry.Cost)
	}
}

// Vectors of two models can't be compared: the report always shows a substitution.
func TestEmbeddingsSubstitution(t *testing.T) {
	cases := []struct {
		name               string
		requested          string
		models             [2]string
		failing            bool
		substituted        bool
		reportedRequested  string
		provider, modelRan string
	}{
		{"as asked", "a", [2]string{"m", "m"}, false, false, "a", "a", "m"},
		{"same model, another provider", "a", [2]string{"m", "m"}, true, true, "a", "b", "m"},
		{"another model, another provider", "a", [2]string{"m", "n"}, true, true, "a", "b", "n"},
		{"nothing asked for, first choice", "", [2]string{"m", "n"}, false, false, "a", "a", "m"},
		{"nothing asked for, another model", "", [2]string{"m", "n"}, true, true, "a", "b", "n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := &embedder{name: "a", vectors: two(nil)}
			if c.failing {
				a.err = &provider.Error{Class: apierr.ClassServerError, Status: 500}
			}
			b := chain(t, c.requested, c.models, a, &embedder{name: "b", vectors: two(nil)})
			got, err := b.Embed(t.Context(), embedRequest("one", "two"))
			if err != nil {
				t.Fatal(err)
			}
			r := got.Report
			want := ledger.Report{Provider: c.provider, RequestedProvider: c.reportedRequested, Substituted: c.substituted}
			checkServed(t, want, r)
			if r.Model != c.modelRan {
				t.Errorf("model %q, want %q", r.Model, c.modelRan)
			}
			if entry := b.ledger.entries[0]; entry.Substituted != c.substituted || entry.Model != c.modelRan {
				t.Errorf("entry %+v", entry)
			}
		})
	}
	t.Run("another model of the same provider", func(t *testing.T) {
		b := chain(t, "a", [2]string{"m", "n"}, &embedder{name: "a", err: &provider.Error{Class: apierr.ClassServerError}}, nil)
		fleet := b.Fleet()
		picky := &byModel{good: "n-up", vectors: two(nil)}
		fleet.Planner = candidates{"a", []routing.Candidate{at("a", "m"), at("a", "n")}}
		fleet.Providers = map[string]provider.Provider{"a": picky}
		got, err := b.Embed(t.Context(), embedRequest("one", "two"))
		if err != nil {
			t.Fatal(err)
		}
		checkServed(t, ledger.Report{Provider: "a", RequestedProvider: "a", Substituted: true}, got.Report)
		if got.Report.Model != "n" {
			t.Errorf("model %q, want n", got.Report.Model)
		}
	})
	t.Run("forbidden", func(t *testing.T) {
		spare := &embedder{name: "b", vectors: two(nil)}
		b := chain(t, "a", [2]string{"m", "m"}, &embedder{name: "a", err: &provider.Error{Class: apierr.ClassServerError, Text: "gone"}}, spare)
		r := embedRequest("one", "two")
		r.Route.Substitution = false
		_, err := b.Embed(t.Context(), r)
		refused(t, err, 502, ReasonProviderFailed, apierr.ClassServerError)
		if len(spare.asked) != 0 || len(b.ledger.entries) != 0 {
			t.Error("somebody else was asked, or billed")
		}
	})
}

// byModel is a provider that serves only one of its models.
type byModel struct {
	good    string
	vectors provider.Vectors
}

func (*byModel) Name() string { return "a" }

func (p *byModel) Embed(_ context.Context, _ provider.Credential, request *provider.Embedding) (*provider.Vectors, error) {
	if request.Model != p.good {
		return nil, &provider.Error{Class: apierr.ClassServerError, Status: 500}
	}
	return &p.vectors, nil
}

// A provider whose answer is not what was asked for has failed.
func TestEmbedRefusesBadVectors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, vectors := range map[string][][]float32{
		"too few":           {{1, 2}},
		"too many":          {{1, 2}, {1, 2}, {1, 2}},
		"none":              nil,
		"an empty one":      {{1, 2}, {}},
		"all empty":         {{}, {}},
		"lengths differ":    {{1, 2}, {1, 2, 3}},
		"not a number":      {{1, 2}, {nan, 1}},
		"an infinite one":   {{inf, 2}, {1, 1}},
		"not as many asked": {{1, 2, 3}, {1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			spare := &embedder{name: "b", vectors: two(nil)}
			b := chain(t, "a", [2]string{"m", "m"}, &embedder{name: "a", vectors: provider.Vectors{Vectors: vectors}}, spare)
			r := embedRequest("one", "two")
			if name == "not as many asked" {
				r.Embedding.Dimensions = 2
			}
			got, err := b.Embed(t.Context(), r)
			if err != nil || got.Report.Provider != "b" || len(b.ledger.entries) != 1 {
				t.Errorf("%+v, %v, want b's", got, err)
			}
		})
	}
	// A model that can't shorten its vectors is the caller's choice to correct.
	b := chain(t, "a", [2]string{"m", "m"}, &embedder{name: "a", vectors: two(nil)}, &embedder{name: "b", vectors: two(nil)})
	r := embedRequest("one", "two")
	r.Embedding.Dimensions = 1
	_, err := b.Embed(t.Context(), r)
	if e := refused(t, err, 400, apierr.ReasonInvalidRequest, ""); e.ErrorClass() != apierr.ClassPolicy {
		t.Errorf("error %+v, want dimensions named", e)
	}
	if got, want := b.ledger.outcomes(), "aborted"; got != want { // The vendor has made vectors, and bills them.
		t.Errorf("billed as %q, want %q", got, want)
	}
}

func TestEmbedUsage(t *testing.T) {
	for _, c := range []struct {
		name      string
		usage     *provider.Usage
		prompt    int64
		estimated bool
	}{
		{"reported", &provider.Usage{Input: 7}, 7, false},
		{"zero is not reported: a token for every four bytes", &provider.Usage{}, 2, true},
		{"absent: a token for every four bytes", nil, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := chain(t, "a", [2]string{"a-1", "a-1"}, &embedder{name: "a", vectors: two(c.usage)}, nil)
			got, err := b.Embed(t.Context(), embedRequest("1234", "5678"))
			if err != nil {
				t.Fatal(err)
			}
			if r := got.Report; r.Prompt != c.prompt || r.Completion != 0 {
				t.Errorf("%d tokens of prompt, %d of completion; want %d and 0", r.Prompt, r.Completion, c.prompt)
			}
			if got.Report.Estimated != c.estimated {
				t.Errorf("estimated %t, want %t", got.Report.Estimated, c.estimated)
			}
		})
	}
}

func TestEmbedClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &embedder{name: "a", wait: time.Hour}
		b := chain(t, "a", [2]string{"m", "m"}, slow, &embedder{name: "b", vectors: two(nil)})
		start := time.Now()
		got, err := b.Embed(t.Context(), embedRequest("one", "two"))
		if err != nil || got.Report.Provider != "b" || time.Since(start) != clocks.Answer {
			t.Errorf("%+v, %v after %v, want b's after the answer clock", got, err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if _, err := b.Embed(ctx, embedRequest("one", "two")); err == nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want an end with the caller", err, time.Since(start))
		}
		if got, want := b.ledger.outcomes(), "interrupted completed cancelled"; got != want {
			t.Errorf("billed as %q, want %q", got, want)
		}
	})
}

// A plan with a provider that lacks the operation gives an error, not a panic.
func TestEmbedWithoutEmbedder(t *testing.T) {
	b := chain(t, "a", [2]string{"m", "m"}, streaming{&script{name: "a"}}, streaming{&script{name: "b"}})
	_, err := b.Embed(t.Context(), embedRequest("one"))
	if e := refused(t, err, 400, apierr.ReasonInvalidRequest, ""); e.ErrorClass() != apierr.ClassPolicy {
		t.Errorf("error %+v", e)
	}
}
