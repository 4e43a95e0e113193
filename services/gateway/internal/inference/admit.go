package inference

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/budget"
	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/price"
	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/gateway/internal/run"
	"switchyard.dev/services/gateway/internal/steering"
	"switchyard.dev/services/platform/apierr"
)

// Admission decides who may call now; see package admission.
type Admission interface {
	// Admit lets a request in, or refuses it with an *apierr.Error.
	Admit(ctx context.Context, r *Request) (Grant, error)
}

// Grant is a request that was let in. Not safe for concurrent use.
type Grant interface {
	// Context is that of Admit; it ends when the request must, and then its cause
	// is an *apierr.Error.
	Context() context.Context
	Terms() Terms
	// Reserve sets the worst case aside, by the id that the ledger row will have.
	Reserve(ctx context.Context, execution uuid.UUID, worst price.Pico) error
	// Leave ends the request; recorded tells that its ledger row is safe. Called
	// again it does nothing.
	Leave(recorded bool)
}

// Terms are what a request is under.
type Terms struct {
	// Run is the authority of its run; nil where there is none.
	Run *run.Run
	// Reserves: its worst case is set aside before the first call. Priced: a model
	// must have a price.
	Reserves, Priced bool
}

// ReasonModelNotAllowed is of a model that the run may not use.
const ReasonModelNotAllowed apierr.Reason = "model_not_allowed"

var errModelNotAllowed = &apierr.Error{
	Kind: apierr.KindForbidden, Reason: ReasonModelNotAllowed, Class: apierr.ClassPolicy, Text: "model: the run's authority does not have it",
}

// Bounds of what nobody has said.
const (
	// assumedOutput is set aside, in tokens, for an answer whose bound is unknown; a
	// stream that grows beyond it is cut.
	assumedOutput = 32 << 10
	// imageInput is set aside for an image that is looked at, imageOutput for one
	// that is made, in tokens, where the vendor counts such.
	imageInput, imageOutput = 4096, 8192
	// messageInput is what a vendor may add around a message, a tool or a text to
	// embed, in tokens.
	messageInput = 32
)

// enter asks for the request's admission and gives its context.
func (x *execution) enter(ctx context.Context) (context.Context, error) {
	if x.Admission == nil {
		return ctx, nil
	}
	var err error
	if x.grant, err = x.Admission.Admit(ctx, x.request); err != nil {
		return ctx, err
	}
	if authority := x.grant.Terms().Run; authority != nil && x.request.ApprovalRef == "" {
		x.request.ApprovalRef = authority.ApprovalRef
	}
	return x.grant.Context(), nil
}

// leave ends the request, once it is recorded or has failed. Whoever wants to know
// of it is told behind the answer.
func (x *execution) leave(ctx context.Context) {
	x.noteTrial()
	if x.grant != nil {
		x.grant.Leave(x.recorded)
	}
	x.ended = time.Now()
	x.After(ctx, func() {
		x.tell(ctx)
		x.hold.Close()
	})
}

// noteTrial counts the request for the canary that is set. One that nobody was
// called for, or that failed for its own fault, is in neither arm.
func (x *execution) noteTrial() {
	if x.plan.Trial == 0 || x.Trials == nil || x.attempts == 0 || x.request.Probe || x.served.provider == nil && !x.unserved {
		return
	}
	x.Trials.Note(steering.Trial{
		Revision: x.plan.Trial, Canary: x.plan.Canary, Failed: x.unserved,
		FailedOver: !x.unserved && x.served.Target != x.candidates[0].Target, Took: time.Since(x.started),
	})
}

// reserve keeps the candidates that the request's terms allow, and sets aside the
// worst case of the dearest.
func (x *execution) reserve(ctx context.Context) error {
	if x.grant == nil {
		return nil
	}
	terms := x.grant.Terms()
	if err := x.allow(terms.Run); err != nil {
		return err
	}
	if !terms.Reserves {
		return nil
	}
	worst, err := x.worst(terms.Priced)
	if err != nil {
		return err
	}
	return x.grant.Reserve(ctx, x.id, worst)
}

// allow keeps the candidates whose models the run may use.
func (x *execution) allow(authority *run.Run) error {
	if authority == nil || len(authority.Limits.Models) == 0 {
		return nil
	}
	return x.keep(func(c candidate) bool { return authority.Limits.Allows(c.Model, c.String(), c.Upstream) }, errModelNotAllowed)
}

// keep leaves out the candidates that may not serve. What was asked for must be
// among those that are left: nothing has failed that another model could stand in for.
func (x *execution) keep(may func(c candidate) bool, refusal error) error {
	asked := func(c candidate) bool { return !c.Substitute }
	before := slices.ContainsFunc(x.candidates, asked)
	x.candidates = slices.DeleteFunc(x.candidates, func(c candidate) bool { return !may(c) })
	if len(x.candidates) == 0 || before && !slices.ContainsFunc(x.candidates, asked) {
		return refusal
	}
	return nil
}

// worst is the most that the request can cost at any of its candidates. Those
// without a price are left out where there must be one.
func (x *execution) worst(priced bool) (price.Pico, error) {
	var worst price.Pico
	choices := choices(x.request.Chat.Native)
	err := x.keep(func(c candidate) bool {
		usage, assumed := mostUsage(x.request, c, choices)
		cost, known := x.dearest(c, usage)
		worst = max(worst, cost)
		if assumed && known {
			x.maxOutput = usage.Output
		}
		return known || !priced || x.fleet.ServesUnpriced || x.request.Probe
	}, budget.ErrUnpriced)
	return worst, err
}

// mostUsage bounds what a request can use: a token for each byte, which no
// vendor's text goes beyond, and the longest answer. assumed tells that nobody
// has said how long that is.
func mostUsage(r *Request, c candidate, choices int64) (most provider.Usage, assumed bool) {
	if r.Embedding.Len() > 0 {
		return provider.Usage{Input: mostEmbedded(&r.Embedding, c.Limits)}, false
	}
	input, images := int64(promptBytes(r)), 0
	for _, m := range r.Chat.Messages {
		for _, part := range m.Content {
			if part.ImageURL != "" {
				images++
			}
		}
	}
	if native := r.Chat.Native; native != nil {
		input = max(input, int64(len(native.Body)-imageBytes(r)))
	}
	input += int64(messageInput*(len(r.Chat.Messages)+len(r.Chat.Tools)) + imageInput*images)
	limits := c.Limits
	if limit := firstOf(limits.Input, limits.Context); limit > 0 {
		input = min(input, int64(limit))
	}
	most.Input = input
	if r.Drawing.Prompt != "" {
		most.Images = int64(max(r.Drawing.Count, 1))
		most.ImageOutput = most.Images * imageOutput
		return most, false
	}
	output := firstOf(r.Chat.MaxTokens, limits.Output, limits.Context)
	if assumed = output == 0; assumed {
		output = assumedOutput
	}
	most.Output = int64(output) * choices
	return most, assumed
}

// mostEmbedded bounds what an embedding can use: each input has the model's limit
// for itself.
func mostEmbedded(e *provider.Embedding, limits routing.Limits) (most int64) {
	limit := firstOf(limits.Input, limits.Context, math.MaxInt)
	for _, text := range e.Input {
		most += int64(min(len(text)+messageInput, limit))
	}
	for _, tokens := range e.Tokens {
		most += int64(min(len(tokens)+messageInput, limit))
	}
	return most
}

// imageBytes is what inlined images take of a body.
func imageBytes(r *Request) (n int) {
	for _, m := range r.Chat.Messages {
		for _, part := range m.Content {
			n += len(part.ImageURL)
		}
	}
	return n
}

func firstOf(limits ...int) int {
	for _, limit := range limits {
		if limit > 0 {
			return limit
		}
	}
	return 0
}

// choices is how many answers a request in a vendor's own words asks for.
func choices(native *provider.Native) int64 {
	var body struct {
		N int64 `json:"n"`
	}
	if native == nil || json.Unmarshal(native.Body, &body) != nil {
		return 1
	}
	return max(body.N, 1)
}

// dearest prices a usage as if it were all in the dearest buckets: whether input
// is written to a cache, or output is thinking, is the vendor's to say.
func (x *execution) dearest(c candidate, most provider.Usage) (cost price.Pico, known bool) {
	now := time.Now()
	tokens, made := most.Input, most.Output
	for _, input := range []provider.Usage{{Input: tokens}, {CacheWrite: tokens}, {CacheWriteLong: tokens}, {ImageInput: tokens}, {AudioInput: tokens}} {
		for _, output := range []provider.Usage{{Output: made}, {Reasoning: made}, {AudioOutput: made}} {
			usage := provider.Usage{Images: most.Images, ImageOutput: most.ImageOutput}
			usage.Add(input)
			usage.Add(output)
			of := x.fleet.Prices.Cost(c.Provider, c.Model, now, usage)
			cost, known = max(cost, of.Amount), known || of.Known
		}
	}
	return cost, known
}

// left is how a request whose context has ended is recorded.
func left(ctx context.Context) ledger.Outcome {
	if terminated(ctx) != nil {
		return ledger.OutcomeAborted
	}
	return ledger.OutcomeCancelled
}

// terminated is why a request was ended from outside; nil when it wasn't.
func terminated(ctx context.Context) *apierr.Error {
	if cause, ok := context.Cause(ctx).(*apierr.Error); ok { //nolint:errorlint // The cause is given as it is.
		return cause
	}
	return nil
}
