package trace

import (
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// RawRequest is a request as its caller wrote it. Only package api reads its body.
type RawRequest struct {
	// Form names the API that Body is written for; package api lists the forms.
	Form string
	// Body is the JSON that arrived; nil for a request that arrived as a message. Encode then makes the JSON; the
	// recorder calls it in the background.
	Body   json.RawMessage
	Encode func() (json.RawMessage, error)
	// Header has the headers that belong to the request; none of them is a credential.
	Header http.Header
}

// Request is the part of a request that is recorded.
type Request struct {
	ID, Organization, Key, Service, Run string
	Route                               routing.Request
	// ReplayOf is the id of the request that this one repeats; empty for none.
	ReplayOf    string
	ApprovalRef string
	Metadata    map[string]string
	Raw         RawRequest
	// Inputs counts the messages of a conversation, the inputs of an embedding, or 1 for an image.
	Inputs, Tools int
	// Size is about how many bytes the request holds beside Raw.Body.
	Size int
}

// Status is how a request ended.
type Status string

// The statuses.
const (
	StatusOK        Status = "ok"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled" // The caller closed the connection.
	StatusAborted   Status = "aborted"   // The gateway ended it: a suspension, a revocation, an expired run.
)

// Outcomes of a Try.
const (
	TryOK        = "ok"
	TryFailed    = "failed"
	TrySkipped   = "skipped" // No call was made.
	TryCancelled = "cancelled"
)

// Try is the outcome of one candidate.
type Try struct {
	provider.Target
	// Credential is "fleet" or "byok".
	Credential string
	// Outcome is one of the Try constants.
	Outcome string
	// Class and Code describe a failure: Code is the vendor's own short code, or why the candidate was skipped.
	// HTTPStatus is 0 where the vendor did not answer.
	Class      apierr.Class
	Code       string
	HTTPStatus int
	// VendorID is the vendor's own id of the call; empty where it gave none.
	VendorID string
	Started  time.Time
	// FirstToken and Duration count from Started.
	FirstToken, Duration time.Duration
}

// Observation is one request and what became of it, as the pipeline observed it.
type Observation struct {
	// ID is that of the ledger row, where there is one.
	ID      uuid.UUID
	Request Request
	// TraceID is the W3C trace id; empty for none.
	TraceID string
	Stream  bool
	// Policy is the version of the policy that planned the request, and Route the rule that chose the first candidate:
	// "pin", "canary", "affinity", "requested" or "policy"; empty where there was no plan.
	Policy, Route string
	Tries         []Try
	// Served and Credential, without its key, are those of the answer; zero where there was none.
	Served     provider.Target
	Credential provider.Credential
	// Report is nil when nothing was billed; Price is the version of the price.
	Report *ledger.Report
	Price  string
	// CachedFrom is the id of the request whose cached answer this one got; empty for none.
	CachedFrom string
	Status     Status
	// Err is nil where the request was served.
	Err *apierr.Error
	// Answer is nil where there was none, or where none of a stream was kept. AnswerBytes is the size of its text, its
	// calls, vectors or images.
	Answer         *Answer
	AnswerBytes    int
	Started, Ended time.Time
	FirstToken     time.Duration
	// Keep is how many bytes of the answer to keep; 0 keeps none.
	Keep int
}

// Answer is the answer to a request, as its operation gives it.
type Answer struct {
	Text         string
	ToolCalls    []provider.ToolCall
	FinishReason provider.FinishReason
	Vectors      [][]float32
	Images       []provider.Image
	// Cut reports that some of the answer is missing here.
	Cut bool
	// Written is the answer in the contract's form, where it has been encoded already: the trace then shares these
	// bytes instead of encoding the answer a second time.
	Written json.RawMessage
}

// shortCodes matches a vendor's short code. Any other string might be text of the vendor, which may quote a prompt.
var shortCodes = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// IsShortCode reports whether a text has the form of a vendor's short code, so that it may be shown.
func IsShortCode(code string) bool { return shortCodes.MatchString(code) }
