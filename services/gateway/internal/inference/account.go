package inference

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/health"
	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/memory"
	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/platform/apierr"
)

// Witness is told what became of requests; see package trace. Nothing of a
// request waits for it.
type Witness interface {
	// Watch is asked at a request's begin: how many bytes of its answer are worth
	// keeping (0: none), and false where nobody wants to know of it.
	Watch(r *Request) (keep int, ok bool)
	// Saw takes the account of a request that has ended. It must not wait.
	Saw(ctx context.Context, a *Account)
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
	routing.Target
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

// Account is one request and what became of it.
type Account struct {
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
	// nobody answered.
	Served     routing.Target
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
	// Keep is what the witness said at the begin.
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

// open begins the account of a request; nil where nobody wants one. All its
// methods do nothing on nil.
func (e *Engine) open(ctx context.Context, x *execution) *Account {
	if e.Witness == nil {
		return nil
	}
	keep, ok := e.Witness.Watch(x.request)
	if !ok {
		return nil
	}
	a := &Account{ID: x.id, Request: *x.request, Policy: x.fleet.Version, Started: x.started, Keep: keep, hold: x.hold}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		a.TraceID = span.TraceID().String()
	}
	return a
}

// planned notes how the candidates came about.
func (a *Account) planned(p *routing.Plan) {
	if a == nil {
		return
	}
	a.Requested = p.Requested
	switch {
	case p.Pinned:
		a.Route = "pin"
	case p.Canary:
		a.Route = "canary"
	case p.Affinity:
		a.Route = "affinity"
	case p.Requested != "":
		a.Route = "requested"
	default:
		a.Route = "policy"
	}
}

// called notes a call that was made, with its failure; nil is an answer.
func (a *Account) called(c candidate, made call, outcome string, f *failure) {
	if a == nil {
		return
	}
	try := Try{
		Target: c.Target, Credential: c.credential.Source, Outcome: outcome, VendorID: made.receipt.ID(),
		Started: made.started, Duration: time.Since(made.started),
	}
	if f != nil {
		try.Class, try.Code, try.HTTPStatus = f.Class, shortCode(f.Code), f.Status
	}
	a.Tries = append(a.Tries, try)
}

// skipped notes a candidate that was not called.
func (a *Account) skipped(c candidate, refused *health.Refusal) {
	if a != nil {
		a.Tries = append(a.Tries, Try{
			Target: c.Target, Credential: c.credential.Source, Outcome: TrySkipped, Started: time.Now(),
			Class: refused.Class(), Code: string(refused.Cause),
		})
	}
}

// shortCodes are what a vendor's short code may look like: anything else might be its text.
var shortCodes = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// IsShortCode tells whether a vendor's code is one, and may be shown.
func IsShortCode(code string) bool { return shortCodes.MatchString(code) }

func shortCode(code string) string {
	if IsShortCode(code) {
		return code
	}
	return ""
}

// streams notes that the answer is to be streamed.
func (a *Account) streams() {
	if a != nil {
		a.Stream = true
	}
}

// cached notes whose kept answer it is.
func (a *Account) cached(request string) {
	if a != nil {
		a.CachedFrom = request
	}
}

// began notes a stream's first content.
func (a *Account) began(now time.Time) {
	if a != nil {
		a.FirstToken = now.Sub(a.Started)
	}
}

// settled notes what was billed.
func (a *Account) settled(b *bill) {
	if a == nil {
		return
	}
	a.Report, a.Price, a.Served = &b.report, b.price, b.served.Target
	a.Credential = provider.Credential{Source: b.served.credential.Source, Fingerprint: b.served.credential.Fingerprint}
	switch b.outcome {
	case ledger.OutcomeCancelled:
		a.Status = StatusCancelled
	case ledger.OutcomeAborted:
		a.Status = StatusAborted
	case ledger.OutcomeInterrupted:
		a.Status = StatusFailed
	case ledger.OutcomeCompleted:
	}
}

// failed notes what the request ended with. Of several errors the first one counts.
func (a *Account) failed(err error) {
	if a != nil && a.Err == nil && err != nil {
		a.Err = apierr.From(err)
	}
}

// answered notes a whole answer.
func (a *Account) answered(answer Answer) {
	if a == nil {
		return
	}
	a.Answer = new(answer)
	a.AnswerBytes = len(answer.Text) + callBytes(answer.ToolCalls)
	for _, vector := range answer.Vectors {
		a.AnswerBytes += 4 * len(vector)
	}
	for _, image := range answer.Images {
		a.AnswerBytes += len(image.Base64) + len(image.URL)
	}
}

// heard adds an event of a stream to the answer, up to what is worth keeping.
func (a *Account) heard(e provider.Event) {
	if a == nil || !e.Content() {
		return
	}
	a.AnswerBytes += len(e.Text) + callBytes(e.ToolCalls)
	if a.Keep == 0 {
		return
	}
	if a.Answer == nil {
		a.Answer = &Answer{}
	}
	cut := a.Answer.Cut || a.AnswerBytes > a.Keep
	if cut || a.hold.Charge(len(e.Text)+callBytes(e.ToolCalls)) != nil { // The stream goes on.
		a.Answer.Cut = true
		return
	}
	a.Answer.text = append(a.Answer.text, e.Text...)
	for _, delta := range e.ToolCalls {
		a.Answer.calls.add(delta)
	}
}

func callBytes(calls []provider.ToolCall) (n int) {
	for _, call := range calls {
		n += len(call.Name) + len(call.Arguments) + len(call.Extra)
	}
	return n
}

// close tells the witness, once the request has ended.
func (a *Account) close(ctx context.Context, x *execution) {
	if a == nil {
		return
	}
	a.Ended = x.ended
	switch {
	case a.Status != "":
	case a.Err == nil:
		a.Status = StatusOK
	case terminated(ctx) != nil:
		a.Status = StatusAborted
	case a.Err.Kind == apierr.KindCanceled:
		a.Status = StatusCancelled
	default:
		a.Status = StatusFailed
	}
	if last := len(a.Tries) - 1; a.Stream && last >= 0 && a.Report != nil && !x.hit && !x.billed.abandoned {
		try := &a.Tries[last]
		try.FirstToken, try.Duration = a.Started.Add(a.FirstToken).Sub(try.Started), a.Ended.Sub(try.Started)
		switch a.Status {
		case StatusFailed:
			try.Outcome, try.Class = TryFailed, a.Err.ErrorClass()
		case StatusCancelled, StatusAborted:
			try.Outcome = TryCancelled
		case StatusOK:
		}
	}
	if a.Answer != nil && a.Stream {
		a.Answer.Text, a.Answer.ToolCalls = string(a.Answer.text), a.Answer.calls.join()
		a.Answer.FinishReason = finishReason(x.finish, len(a.Answer.ToolCalls) > 0)
	}
	x.Witness.Saw(context.WithoutCancel(ctx), a)
}
