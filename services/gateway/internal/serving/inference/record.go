package inference

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Recorder records what became of requests; see package trace. No request waits for it.
type Recorder interface {
	// Observe is called at the beginning of a request. It returns how many bytes of the
	// answer to keep, 0 for none, and false for a request that is not to be recorded.
	Observe(r *Request) (keep int, ok bool)
	// Record takes the record of a request that has ended. It must not block.
	Record(ctx context.Context, a *Record)
}

// RawRequest is a request as its caller wrote it. The pipeline itself does not read it.
type RawRequest struct {
	// Form says how Body is to be read; package api knows them.
	Form string
	// Body is the JSON that came; nil where none did: then Encode makes it, later
	// and somewhere else.
	Body   json.RawMessage
	Encode func() (json.RawMessage, error)
	// Header are the headers that belong to the request, none of them a credential.
	Header http.Header
}

// Status is how a request ended.
type Status string

// The statuses.
const (
	StatusOK        Status = "ok"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled" // The caller left.
	StatusAborted   Status = "aborted"   // It was ended from outside.
)

// Outcomes of a Try.
const (
	TryOK        = "ok"
	TryFailed    = "failed"
	TrySkipped   = "skipped" // Not sent.
	TryCancelled = "cancelled"
)

// Try is what became of one candidate.
type Try struct {
	provider.Target
	// Credential is "fleet" or "byok".
	Credential string
	Outcome    string
	// Class and Code of a failure: the vendor's own short code, or why it was
	// skipped. HTTPStatus is 0 without an answer.
	Class      apierr.Class
	Code       string
	HTTPStatus int
	// VendorID is the vendor's own id of the call; empty where it gave none.
	VendorID string
	Started  time.Time
	// FirstToken and Duration are since then.
	FirstToken, Duration time.Duration
}

// Record is one request and what became of it.
type Record struct {
	// ID is that of the ledger row, where there is one.
	ID uuid.UUID
	// Request as it came.
	Request Request
	TraceID string
	Stream  bool
	// Policy is the version that it was planned by; Route how that came about.
	Policy, Route string
	// Requested is the provider that was asked for, if any.
	Requested string
	Tries     []Try
	// Served and Credential, without its key, are those of the answer; zero where
	// there was none.
	Served     provider.Target
	Credential provider.Credential
	// Report is nil when nothing was billed; Price is the version of the price.
	Report *Report
	Price  string
	// CachedFrom is the request whose kept answer this one got.
	CachedFrom string
	Status     Status
	// Err is nil where the request was served.
	Err *apierr.Error
	// Answer is nil where there was none, or a stream that was not worth keeping.
	// AnswerBytes is the size of its text, its calls, vectors or images.
	Answer         *Answer
	AnswerBytes    int
	Started, Ended time.Time
	FirstToken     time.Duration
	// Keep is what Observe returned.
	Keep int

	// hold is charged for what is kept of a stream; nil charges nothing.
	hold *memory.Hold
}

// Answer is what a request was answered, by its operation.
type Answer struct {
	Text         string
	ToolCalls    []provider.ToolCall
	FinishReason provider.FinishReason
	Vectors      [][]float32
	Images       []provider.Image
	// Cut tells that not all of it is here.
	Cut bool
	// Written is the answer in the contract's words, where it was written already.
	Written json.RawMessage

	text  []byte
	calls callJoiner
}

// open begins the record of a request; nil for one that is not to be recorded. The
// methods of a nil record do nothing.
func (e *Engine) open(ctx context.Context, x *execution) *Record {
	if e.Recorder == nil {
		return nil
	}
	keep, ok := e.Recorder.Observe(x.request)
	if !ok {
		return nil
	}
	a := &Record{ID: x.id, Request: *x.request, Policy: x.fleet.Version, Started: x.started, Keep: keep, hold: x.hold}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		a.TraceID = span.TraceID().String()
	}
	return a
}

// planned notes how the candidates came about.
func (r *Record) planned(p *routing.Plan) {
	if r == nil {
		return
	}
	r.Requested = p.Requested
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

// called notes a call that was made, with its failure; nil is an answer.
func (r *Record) called(c candidate, made call, outcome string, f *failure) {
	if r == nil {
		return
	}
	try := Try{
		Target: c.Target, Credential: c.credential.Source, Outcome: outcome, VendorID: made.receipt.ID(),
		Started: made.started, Duration: time.Since(made.started),
	}
	if f != nil {
		try.Class, try.Code, try.HTTPStatus = f.Class, shortCode(f.Code), f.Status
	}
	r.Tries = append(r.Tries, try)
}

// skipped notes a candidate that was not called.
func (r *Record) skipped(c candidate, refused *health.Refusal) {
	if r != nil {
		r.Tries = append(r.Tries, Try{
			Target: c.Target, Credential: c.credential.Source, Outcome: TrySkipped, Started: time.Now(),
			Class: refused.Class(), Code: string(refused.Cause),
		})
	}
}

// shortCodes are what a vendor's short code may look like: anything else might be its text.
var shortCodes = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// IsShortCode reports whether a vendor's code is one, and may be shown.
func IsShortCode(code string) bool { return shortCodes.MatchString(code) }

func shortCode(code string) string {
	if IsShortCode(code) {
		return code
	}
	return ""
}

// streams notes that the answer is to be streamed.
func (r *Record) streams() {
	if r != nil {
		r.Stream = true
	}
}

// cached notes whose kept answer it is.
func (r *Record) cached(request string) {
	if r != nil {
		r.CachedFrom = request
	}
}

// began notes a stream's first content.
func (r *Record) began(now time.Time) {
	if r != nil {
		r.FirstToken = now.Sub(r.Started)
	}
}

// settled notes what was billed.
func (r *Record) settled(b *bill) {
	if r == nil {
		return
	}
	r.Report, r.Price, r.Served = &b.report, b.price, b.served.Target
	r.Credential = provider.Credential{Source: b.served.credential.Source, Fingerprint: b.served.credential.Fingerprint}
	switch b.outcome {
	case ledger.OutcomeCancelled:
		r.Status = StatusCancelled
	case ledger.OutcomeAborted:
		r.Status = StatusAborted
	case ledger.OutcomeInterrupted:
		r.Status = StatusFailed
	case ledger.OutcomeCompleted:
	}
}

// failed notes what the request ended with. Of several errors the first one counts.
func (r *Record) failed(err error) {
	if r != nil && r.Err == nil && err != nil {
		r.Err = apierr.From(err)
	}
}

// answered notes a whole answer.
func (r *Record) answered(answer Answer) {
	if r == nil {
		return
	}
	r.Answer = new(answer)
	r.AnswerBytes = len(answer.Text) + callBytes(answer.ToolCalls)
	for _, vector := range answer.Vectors {
		r.AnswerBytes += 4 * len(vector)
	}
	for _, image := range answer.Images {
		r.AnswerBytes += len(image.Base64) + len(image.URL)
	}
}

// heard adds an event of a stream to the answer, up to what is worth keeping.
func (r *Record) heard(e provider.Event) {
	if r == nil || !e.Content() {
		return
	}
	r.AnswerBytes += len(e.Text) + callBytes(e.ToolCalls)
	if r.Keep == 0 {
		return
	}
	if r.Answer == nil {
		r.Answer = &Answer{}
	}
	cut := r.Answer.Cut || r.AnswerBytes > r.Keep
	if cut || r.hold.Charge(len(e.Text)+callBytes(e.ToolCalls)) != nil { // The stream goes on.
		r.Answer.Cut = true
		return
	}
	r.Answer.text = append(r.Answer.text, e.Text...)
	for _, delta := range e.ToolCalls {
		r.Answer.calls.add(delta)
	}
}

func callBytes(calls []provider.ToolCall) (n int) {
	for _, call := range calls {
		n += len(call.Name) + len(call.Arguments) + len(call.Extra)
	}
	return n
}

// close hands the record to the recorder, once the request has ended.
func (r *Record) close(ctx context.Context, x *execution) {
	if r == nil {
		return
	}
	r.Ended = x.ended
	switch {
	case r.Status != "":
	case r.Err == nil:
		r.Status = StatusOK
	case terminated(ctx) != nil:
		r.Status = StatusAborted
	case r.Err.Kind == apierr.KindCanceled:
		r.Status = StatusCancelled
	default:
		r.Status = StatusFailed
	}
	if last := len(r.Tries) - 1; r.Stream && last >= 0 && r.Report != nil && !x.hit && !x.billed.abandoned {
		try := &r.Tries[last]
		try.FirstToken, try.Duration = r.Started.Add(r.FirstToken).Sub(try.Started), r.Ended.Sub(try.Started)
		switch r.Status {
		case StatusFailed:
			try.Outcome, try.Class = TryFailed, r.Err.ErrorClass()
		case StatusCancelled, StatusAborted:
			try.Outcome = TryCancelled
		case StatusOK:
		}
	}
	if r.Answer != nil && r.Stream {
		r.Answer.Text, r.Answer.ToolCalls = string(r.Answer.text), r.Answer.calls.join()
		r.Answer.FinishReason = finishReason(x.finish, len(r.Answer.ToolCalls) > 0)
	}
	x.Recorder.Record(context.WithoutCancel(ctx), r)
}
