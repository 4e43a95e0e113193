package inference

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	oteltrace "go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Recorder records the outcome of requests; see trace.Recorder. No request waits for it.
type Recorder interface {
	// Observe is called at the beginning of a request of an organization. It returns how many bytes of the answer to
	// keep, 0 for none, and false for a request that is not to be recorded.
	Observe(organization string) (keep int, ok bool)
	// Record takes the observation of a request that has ended. It must not block.
	Record(ctx context.Context, o *trace.Observation)
}

// record fills the observation of a request while it runs. The methods of a nil record do nothing.
type record struct {
	trace.Observation
	// text and calls are the parts of a streamed answer.
	text  []byte
	calls callJoiner
	// served counts the tries up to the one that serves; 0 while there is none.
	served int
	// hold is charged for what is kept of a stream; nil charges nothing.
	hold *memory.Hold
}

// open begins the record of a request; nil for one that is not to be recorded.
func (e *Engine) open(ctx context.Context, a *admitted, id uuid.UUID) *record {
	if e.Recorder == nil {
		return nil
	}
	keep, ok := e.Recorder.Observe(a.request.Organization)
	if !ok {
		return nil
	}
	r := &record{hold: a.hold, Observation: trace.Observation{
		ID: id, Request: a.request.observed(), Policy: a.fleet.Version, Started: a.started, Keep: keep,
	}}
	if span := oteltrace.SpanContextFromContext(ctx); span.HasTraceID() {
		r.TraceID = span.TraceID().String()
	}
	return r
}

// observed returns the part of the request that is recorded.
func (r *Request) observed() trace.Request {
	o := trace.Request{
		ID: r.ID, Organization: r.Organization, Key: r.Key, Service: r.Service, Run: r.Run, Route: r.Route,
		ReplayOf: r.ReplayOf, ApprovalRef: r.ApprovalRef, Metadata: r.Metadata, Raw: r.Raw,
		Inputs: len(r.Chat.Messages) + r.Embedding.Len(), Tools: len(r.Chat.Tools),
	}
	if r.ImageRequest.Prompt != "" {
		o.Inputs = 1
	}
	return o
}

// size returns about how many bytes the request holds beside its raw body.
func (r *Request) size() (n int) {
	if r.Raw.Body != nil {
		return 0
	}
	for i := range r.Chat.Messages {
		n += len(r.Chat.Messages[i].Text())
	}
	return n
}

// planned records the rule that chose the candidates.
func (r *record) planned(p *routing.Plan) {
	if r == nil {
		return
	}
	switch {
	case p.Pinned:
		r.Route = "pin"
	case p.Canary:
		r.Route = "canary"
	case p.Affinity:
		r.Route = "affinity"
	case p.Requested != "":
		r.Route = "requested"
	default:
		r.Route = "policy"
	}
}

// called records a call that was made, with its failure; nil is an answer.
func (r *record) called(a *attempt, outcome string, f *failure) {
	if r == nil {
		return
	}
	r.Tries = append(r.Tries, tryOf(a, outcome, f))
	if outcome == trace.TryOK {
		r.served = len(r.Tries)
	}
}

// lost records a call that another one outran, in the order in which they were made.
func (r *record) lost(try trace.Try) {
	if r == nil {
		return
	}
	place := len(r.Tries)
	if r.served > 0 && try.Started.Before(r.Tries[r.served-1].Started) {
		place = r.served - 1
		r.served++
	}
	r.Tries = slices.Insert(r.Tries, place, try)
}

// tryOf returns the record of a call that has ended now.
func tryOf(a *attempt, outcome string, f *failure) trace.Try {
	try := trace.Try{
		Target: a.Target, Credential: a.credential.Source, Outcome: outcome, VendorID: a.call.receipt.ID(),
		Started: a.call.started, Duration: time.Since(a.call.started),
	}
	if f != nil {
		try.Class, try.Code, try.HTTPStatus = f.Class, shortCode(f.Code), f.Status
	}
	return try
}

// skipped records a candidate that was not called.
func (r *record) skipped(c candidate, refused *health.Refusal) {
	if r != nil {
		r.Tries = append(r.Tries, trace.Try{
			Target: c.Target, Credential: c.credential.Source, Outcome: trace.TrySkipped, Started: time.Now(),
			Class: refused.Class(), Code: string(refused.Cause),
		})
	}
}

func shortCode(code string) string {
	if trace.IsShortCode(code) {
		return code
	}
	return ""
}

// streams records that the answer is streamed.
func (r *record) streams() {
	if r != nil {
		r.Stream = true
	}
}

// cached records the id of the request whose cached answer this one gets.
func (r *record) cached(request string) {
	if r != nil {
		r.CachedFrom = request
	}
}

// began records the time of a stream's first content.
func (r *record) began(now time.Time) {
	if r != nil {
		r.FirstToken = now.Sub(r.Started)
	}
}

// settled records what was billed.
func (r *record) settled(b *bill) {
	if r == nil {
		return
	}
	r.Report, r.Price, r.Served = &b.report, b.price, b.served.Target
	r.Credential = provider.Credential{Source: b.served.credential.Source, Fingerprint: b.served.credential.Fingerprint}
	switch b.outcome {
	case ledger.OutcomeCancelled:
		r.Status = trace.StatusCancelled
	case ledger.OutcomeAborted:
		r.Status = trace.StatusAborted
	case ledger.OutcomeInterrupted:
		r.Status = trace.StatusFailed
	case ledger.OutcomeCompleted:
	}
}

// failed records the error that ended the request. Only the first error counts.
func (r *record) failed(err error) {
	if r != nil && r.Err == nil && err != nil {
		r.Err = apierr.From(err)
	}
}

// answered records a whole answer.
func (r *record) answered(answer trace.Answer) {
	if r == nil {
		return
	}
	r.Answer = new(answer)
	r.AnswerBytes = len(answer.Text) + callBytes(answer.ToolCalls) + len(answer.Written)
	for _, vector := range answer.Vectors {
		r.AnswerBytes += 4 * len(vector)
	}
	for _, image := range answer.Images {
		r.AnswerBytes += len(image.Base64) + len(image.URL)
	}
}

// received adds an event of a stream to the answer, up to Keep bytes.
func (r *record) received(e provider.Event) {
	if r == nil || !e.Content() {
		return
	}
	r.AnswerBytes += len(e.Text) + callBytes(e.ToolCalls)
	if r.Keep == 0 {
		return
	}
	if r.Answer == nil {
		r.Answer = &trace.Answer{}
	}
	cut := r.Answer.Cut || r.AnswerBytes > r.Keep
	if cut || r.hold.Charge(len(e.Text)+callBytes(e.ToolCalls)) != nil { // The stream continues.
		r.Answer.Cut = true
		return
	}
	r.text = append(r.text, e.Text...)
	for _, delta := range e.ToolCalls {
		r.calls.add(delta)
	}
}

func callBytes(calls []provider.ToolCall) (n int) {
	for _, call := range calls {
		n += len(call.Name) + len(call.Arguments) + len(call.Extra)
	}
	return n
}

// close passes the record to the recorder, after the request has ended.
func (r *record) close(ctx context.Context, x *execution) {
	if r == nil {
		return
	}
	r.Ended = x.ended
	switch {
	case r.Status != "":
	case r.Err == nil:
		r.Status = trace.StatusOK
	case admission.Termination(ctx) != nil:
		r.Status = trace.StatusAborted
	case r.Err.Kind == apierr.KindCanceled:
		r.Status = trace.StatusCancelled
	default:
		r.Status = trace.StatusFailed
	}
	if r.Stream && r.served > 0 && r.Report != nil && !x.hit && !x.billed.abandoned {
		try := &r.Tries[r.served-1]
		try.FirstToken, try.Duration = r.Started.Add(r.FirstToken).Sub(try.Started), r.Ended.Sub(try.Started)
		switch r.Status {
		case trace.StatusFailed:
			try.Outcome, try.Class = trace.TryFailed, r.Err.ErrorClass()
		case trace.StatusCancelled, trace.StatusAborted:
			try.Outcome = trace.TryCancelled
		case trace.StatusOK:
		}
	}
	if r.Answer != nil && r.Stream && r.Answer.Written == nil {
		r.Answer.Text, r.Answer.ToolCalls = string(r.text), r.calls.join()
		r.Answer.FinishReason = finishReason(x.finish, len(r.Answer.ToolCalls) > 0)
	}
	r.Request.Size = x.request.size()
	x.engine.Recorder.Record(context.WithoutCancel(ctx), &r.Observation)
}
