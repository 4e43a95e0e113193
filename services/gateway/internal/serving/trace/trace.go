// Package trace keeps records of requests. Each has a record without content, from which lineage and support traces are
// read; some have the request and the answer too, sealed, which their own organization may read and issue again.
// Package inference fills an Observation for each request and hands it to a Recorder. No request waits for it: what
// exceeds its queue is dropped and counted. internal/postgres stores records, package api serves them.
package trace

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/price"
)

// ErrNotFound is the error of a request that was not recorded, is no longer kept, or belongs to another organization.
var ErrNotFound = errors.New("no such trace")

// ErrRefused is the error of a record that the store can never take.
var ErrRefused = errors.New("the store refuses the trace")

// Kinds of a parent.
const (
	ParentReplay = "replay"
	ParentCache  = "cache"
)

// Attempt is one candidate that was tried. It is stored as this JSON.
type Attempt struct {
	Provider   string    `json:"provider"`
	Model      string    `json:"model"`
	Credential string    `json:"credential"`
	Outcome    string    `json:"outcome"`
	Class      string    `json:"error_class,omitzero"`
	Error      string    `json:"error,omitzero"`
	HTTPStatus int       `json:"http_status,omitzero"`
	VendorID   string    `json:"vendor_id,omitzero"`
	StartedAt  time.Time `json:"started_at"`
	// FirstTokenMs is 0 for none.
	FirstTokenMs float64 `json:"first_token_ms,omitzero"`
	DurationMs   float64 `json:"duration_ms"`
}

// Record is one request. Empty fields were not given, or don't apply. It is stored as this JSON.
type Record struct {
	ID                uuid.UUID  `json:"id"`
	RequestID         string     `json:"request_id"`
	Organization      string     `json:"organization"`
	Run               string     `json:"run,omitzero"`
	Key               string     `json:"key,omitzero"`
	Service           string     `json:"service,omitzero"`
	Operation         string     `json:"operation"`
	Status            string     `json:"status"`
	Stream            bool       `json:"stream,omitzero"`
	Parent            string     `json:"parent,omitzero"`
	ParentKind        string     `json:"parent_kind,omitzero"`
	W3CTrace          string     `json:"w3c_trace,omitzero"`
	RequestedModel    string     `json:"requested_model,omitzero"`
	RequestedProvider string     `json:"requested_provider,omitzero"`
	RequestedGoal     string     `json:"requested_goal,omitzero"`
	Provider          string     `json:"provider,omitzero"`
	Model             string     `json:"model,omitzero"`
	Credential        string     `json:"credential,omitzero"`
	Fingerprint       string     `json:"fingerprint,omitzero"`
	Route             string     `json:"route,omitzero"`
	PolicyVersion     string     `json:"policy_version,omitzero"`
	PriceVersion      string     `json:"price_version,omitzero"`
	Classification    string     `json:"classification,omitzero"`
	ApprovalRef       string     `json:"approval_ref,omitzero"`
	CacheHit          bool       `json:"cache_hit,omitzero"`
	Substituted       bool       `json:"substituted,omitzero"`
	Billed            bool       `json:"billed,omitzero"`
	Prompt            int64      `json:"prompt,omitzero"`
	Completion        int64      `json:"completion,omitzero"`
	Cost              price.Pico `json:"cost,omitzero"`
	Estimated         bool       `json:"estimated,omitzero"`
	Error             string     `json:"error,omitzero"`
	ErrorClass        string     `json:"error_class,omitzero"`
	HTTPStatus        int        `json:"http_status,omitzero"`
	Attempts          []Attempt  `json:"attempts,omitzero"`
	Messages          int        `json:"messages,omitzero"`
	Tools             int        `json:"tools,omitzero"`
	RequestBytes      int        `json:"request_bytes,omitzero"`
	ResponseBytes     int        `json:"response_bytes,omitzero"`
	RequestDigest     []byte     `json:"request_digest,omitzero"`
	ResponseDigest    []byte     `json:"response_digest,omitzero"`
	StartedAt         time.Time  `json:"started_at"`
	FirstTokenMs      float64    `json:"first_token_ms,omitzero"`
	DurationMs        float64    `json:"duration_ms"`
	ExpiresAt         time.Time  `json:"expires_at"`
	// Content is nil where the request and the answer were not kept, or no longer are.
	Content *Content `json:"content,omitzero"`
}

// Replayable reports whether the request can be issued again.
func (r *Record) Replayable() bool { return r.Content != nil && r.Content.Replayable }

// Content is the request and the answer of a record, sealed.
type Content struct {
	// Key names the secret that it is sealed with.
	Key string `json:"key"`
	// Sealed is the ciphertext, Size bytes long. It is set when a record is stored and nil when one is read: Store.Sealed
	// loads it.
	Sealed []byte `json:"-"`
	Size   int    `json:"size"`
	// Segment is the id of the segment that holds Sealed, and Offset the byte at which it starts there. Segment is
	// uuid.Nil if a release before migration 00145 stored the content.
	Segment uuid.UUID `json:"-"`
	Offset  int       `json:"offset,omitzero"`
	// Truncated reports whether something is missing, Replayable whether the request is whole.
	Truncated  bool      `json:"truncated,omitzero"`
	Replayable bool      `json:"replayable,omitzero"`
	CapturedAt time.Time `json:"captured_at"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// Packet is the sealed content: all that is needed to issue the request again.
type Packet struct {
	// Form is the API that Request is written for; see RawRequest.
	Form   string
	Header http.Header
	// Request is the body as it arrived, Response the answer in the contract's form; nil where there was none.
	Request, Response json.RawMessage
	Metadata          map[string]string
}

// Store keeps records until they expire.
type Store interface {
	// Append stores all records, or none; records that an earlier call has stored are not stored again. The error is
	// ErrRefused where one of them can never be stored; after any other the call may be repeated.
	Append(ctx context.Context, records []Record) error
	// List returns a page, newest first.
	List(ctx context.Context, f Filter, now time.Time) ([]Record, error)
	// Latest returns the latest record of a request id of each organization, newest first, or only that of the
	// organization that is named.
	Latest(ctx context.Context, organization, request string, limit int, now time.Time) ([]Record, error)
	// Sealed returns the contents of records that have one, by the records' ids.
	Sealed(ctx context.Context, records []Record) (map[uuid.UUID][]byte, error)
	// Drop deletes expired records and contents, at most limit rows of each table. It returns the largest number of rows
	// that it deleted from one table: less than limit means that none are left.
	Drop(ctx context.Context, now time.Time, limit int) (int, error)
	// Erase deletes the rows that hold contents of requests which began at or before until, at most limit of each table.
	// A row may also hold later contents. The result is as for Drop.
	Erase(ctx context.Context, organization string, until time.Time, limit int) (int, error)
}

// Rule is what is kept of an organization's requests.
type Rule struct {
	// Lineage reports whether a record of each request is kept, for Retention.
	Lineage   bool
	Retention time.Duration
	// SamplePercent of the requests are captured with content, of at most MaxBytes each way, for ContentRetention; 0
	// captures none.
	SamplePercent    float64
	MaxBytes         int
	ContentRetention time.Duration
}
