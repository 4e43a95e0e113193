package inference

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/content/token"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/callcount"
)

// tally is what is known of a completion's size: the provider's report, if there was one, and the bytes or images that
// arrived.
type tally struct {
	usage *provider.Usage
	// counted reports whether some of usage was not reported by the vendor, but counted by the gateway.
	counted bool
	// bytes of output; runs are those that repeat the byte before.
	bytes, runs int
	// written is the output itself, as far as it is needed to count its tokens.
	written transcript
	// frames are the bytes of a vendor's own frames, which contain all that arrived.
	frames int
	// images are those that were asked for, and pictures those within a chat's answer.
	images, pictures int
	// filtered reports whether a vendor's filter ended the answer, or answered in place of the model.
	filtered bool
	// whole reports whether the answer came to its end, whatever happened to it then.
	whole bool
	// state of a usage that was settled before; empty: not yet.
	state ledger.State
}

// output adds an event, or a whole answer. Only this counts as output: what the model wrote, wherever the dialect has
// it. What comes with that (log probabilities, sound, signatures, citations, results of the vendor's own tools) is
// bounded only by the size of a stream; see Stream.outgrown.
func (t *tally) output(e *provider.Event) {
	t.text(e.Text)
	t.text(e.Reasoning)
	t.text(e.Other)
	for i := range e.ToolCalls {
		t.text(e.ToolCalls[i].Name)
		t.text(e.ToolCalls[i].Arguments)
	}
	t.frames += len(e.Native)
	t.pictures += len(e.Images)
	t.filtered = t.filtered || e.FinishReason == provider.FinishContentFilter
}

// report replaces the usage with a later report. A side that the later report lacks keeps its earlier counts.
func (t *tally) report(later *provider.Usage) {
	if t.usage != nil {
		merged := *later
		raise(&merged, *t.usage)
		later = &merged
	}
	t.usage = later
}

// lacksOutput reports whether an answer has content but the vendor reported no output tokens.
func (t *tally) lacksOutput() bool {
	return t.usage == nil || t.usage.Completion() == 0 && t.bytes > 0
}

// text adds a piece of text.
func (t *tally) text(s string) {
	t.bytes += len(s)
	t.runs += runsOf(s)
	t.written.write(s)
}

// settle commits the ledger row of the completion and returns the report for the caller.
func (x *execution) settle(ctx context.Context, outcome ledger.Outcome, t tally) ledger.Report {
	c := charge{id: x.id, of: &x.served, attempts: x.attempts, outcome: outcome, tally: t}
	if outcome == ledger.OutcomeCompleted { // Its answer follows.
		count, _ := callcount.Take(ctx, time.Now())
		c.countMetric = count.Metric
	}
	x.billed, x.recorded = x.commit(ctx, c)
	if c.countMetric != "" && !x.recorded {
		callcount.PutBack(ctx)
	}
	x.earnHedges(x.billed)
	return x.billed.report
}

// charge is a call that is to be billed.
type charge struct {
	// id is the ledger row's.
	id uuid.UUID
	of *candidate
	// attempts is the number of calls of the request until then.
	attempts int
	outcome  ledger.Outcome
	tally
	// countMetric is what the request counts as; empty where something else records that.
	countMetric string
	// at is when the call is billed; commit sets it.
	at time.Time
}

// commit prices a call and commits its ledger row, and reports whether the row is safe. The provider has been paid: if
// the row can't be committed, that is logged and the answer is still sent. A completion of a model without a price costs
// 0 and is marked estimated; a request under a ceiling has been refused before, unless the policy allows it. It changes
// nothing of the execution.
func (x *execution) commit(ctx context.Context, c charge) (*bill, bool) {
	c.at = time.Now()
	usage, state, reported := x.usage(ctx, &c)
	cost := x.cost(c.of, c.at, usage)
	if !cost.Known {
		x.engine.Log.InfoContext(ctx, "the model has no price; the completion is billed as 0",
			slog.String("provider", c.of.Provider), slog.String("model", c.of.Model))
	}
	requested := x.requestedProvider(x.request.Route.Operation, c.of)
	report := ledger.Report{
		Provider: c.of.Provider, Model: c.of.Model,
		Prompt: usage.Prompt(), Completion: usage.Completion(), Usage: usage, Cost: cost.Amount,
		Estimated:         state != ledger.StateReported || !cost.Known,
		RequestedProvider: requested, RequestedGoal: string(x.request.Route.Goal),
		CacheHit:    x.hit,
		Substituted: requested != "" && (requested != c.of.Provider || x.anotherSpace(x.request.Route.Operation, c.of)),
	}
	entry := x.entry(&c, report)
	entry.Usage, entry.State, entry.PriceVersion, entry.Reported = usage, state, cost.Version, reported
	err := x.engine.Ledger.Commit(context.WithoutCancel(ctx), entry)
	if err != nil {
		x.engine.Log.ErrorContext(ctx, "the ledger row of a completion could not be committed", slog.String("error", err.Error()))
	}
	return &bill{report: report, price: cost.Version, outcome: c.outcome, served: *c.of, state: state}, err == nil
}

// account is what the ledger holds of a request.
type account struct {
	// id is the ledger row's.
	id uuid.UUID
	// reservation is the worst case that was reserved, where the request's terms require it.
	reservation price.Pico
	// billed is nil until the completion is settled, and recorded reports whether its row is safe.
	billed   *bill
	recorded bool
}

// bill is a completion that was settled.
type bill struct {
	report  ledger.Report
	price   string // its version
	outcome ledger.Outcome
	served  candidate
	state   ledger.State
	// abandoned reports whether no answer had begun; see abandon.
	abandoned bool
}

// recordOutcome records the outcome of the request in metrics, spans and the recorder.
func (x *execution) recordOutcome(ctx context.Context) {
	if b := x.billed; b != nil {
		x.record.settled(b)
		x.engine.spent(&b.report)
		if !b.abandoned { // Else the request and its call were counted when the attempt ended.
			x.engine.metrics.request(b.report.Provider, b.outcome)
		}
		if !b.abandoned && !x.hit {
			x.present.call.billed(ctx, x.engine.metrics, x.request, b, x.finish, x.ended)
		}
	}
	x.record.close(ctx, x)
}

// cost returns the price of a usage. An answer from the cache was paid for when it was made.
func (x *execution) cost(of *candidate, now time.Time, usage provider.Usage) price.Cost {
	if x.hit {
		return price.Cost{Known: true}
	}
	return x.fleet.Prices.Cost(of.Provider, of.Model, now, usage)
}

// usage returns the provider's report as far as it is plausible, and in reported the original if more was reported. If
// the answer was cut, a report covers what had arrived by then. What is not reported, the gateway counts.
func (x *execution) usage(ctx context.Context, c *charge) (u provider.Usage, state ledger.State, reported *provider.Usage) {
	t := &c.tally
	if t.usage != nil && t.state != "" {
		return *t.usage, t.state, nil
	}
	most := x.boundAt(c.of)
	if t.usage == nil {
		u = x.estimate(c, c.images)
		most.clamp(&u, arrived{})
		return u, ledger.StateEstimated, nil
	}
	u = *t.usage
	most.countInput(x.request, c.of, t.usage)
	beyond := most.clamp(&u, arrived{t.bytes + t.frames, x.hidesThinking(c.of)})
	if len(beyond) > 0 {
		reported = t.usage
		x.implausible(ctx, c.of, beyond, most.assumed, reported)
	}
	wasCut := c.outcome != ledger.OutcomeCompleted && !t.whole
	completed := x.complete(ctx, &u, c, wasCut)
	if completed {
		most.clamp(&u, arrived{})
	}
	if wasCut { // Some vendors report the input at the beginning and the output only at the end.
		u.Output = min(max(u.Output, t.outputTokens(c.of)), most.Output-u.Completion()+u.Output)
	}
	switch {
	case completed, wasCut && t.counted:
		state = ledger.StateEstimated
	case wasCut, reported != nil, x.request.Bounds.surcharges(c.of):
		state = ledger.StatePartial
	default:
		state = ledger.StateReported
	}
	return u, state, reported
}

// hidesThinking reports whether a candidate may bill output that it doesn't send. Models whose vocabulary is published
// and which don't think send all of it, unless a tool of the vendor's or a prediction adds to the bill.
func (x *execution) hidesThinking(of *candidate) bool {
	_, published := token.For(of.names()...)
	bounds := &x.request.Bounds
	return !published || of.Lacks&policy.FeatureReasoning == 0 || bounds.surcharges(of) || bounds.Extra > 0
}

// implausible counts and logs a report of more than the request can use. Where the answer has no bound, a long one is
// not the vendor's fault.
func (x *execution) implausible(ctx context.Context, of *candidate, beyond []excess, assumed bool, reported *provider.Usage) {
	for _, part := range beyond {
		if part == excessOutput && assumed {
			continue
		}
		x.engine.metrics.implausible(of.Provider, part)
		x.engine.Log.WarnContext(ctx, "a provider reports more than the request can use; the excess is not billed",
			slog.String("provider", of.Provider), slog.String("model", of.Model),
			slog.String("part", string(part)), slog.Any("reported", *reported))
	}
}

// requestedProvider returns the provider asked for, where another one might have served; empty otherwise.
func (s *selection) requestedProvider(operation provider.Operation, served *candidate) string {
	risk := len(s.candidates) > 1 || served.Provider != s.plan.Requested || s.anotherSpace(operation, served)
	if !risk {
		return ""
	}
	return s.plan.Requested
}

func (x *execution) entry(c *charge, report ledger.Report) ledger.Entry {
	r := x.request
	return ledger.Entry{
		ID: c.id, RequestID: r.ID,
		Organization: r.Organization, Key: r.Key, KeyOrigin: r.KeyTerms.Key, User: r.User, Service: r.Service,
		Run: r.Run, Tags: r.Tags, Operation: r.ledgerOperation(),
		RequestedProvider: x.plan.Requested, RequestedModel: r.Route.Model, RequestedGoal: string(r.Route.Goal),
		Provider: report.Provider, Model: report.Model,
		Credential: c.of.credential.Source, Fingerprint: c.of.credential.Fingerprint,
		Substituted: report.Substituted, CacheHit: report.CacheHit, Attempts: c.attempts,
		Cost: report.Cost, Outcome: c.outcome, StartedAt: x.started, EndedAt: c.at, CountMetric: c.countMetric,
	}
}

// ledgerOperation returns the request's operation in the ledger.
func (r *Request) ledgerOperation() string {
	if r.Probe {
		return ledger.OperationProbe
	}
	return string(r.Route.Operation)
}
