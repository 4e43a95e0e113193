// Package trace keeps what became of requests: for each a record without content,
// from which lineage and support traces are read, and for some the request and
// the answer themselves, sealed, for their own organization to read and to issue
// again. Package inference fills an Observation for each request and hands it to a
// Recorder: no request waits for it, and what it can't keep up with is dropped and
// counted. internal/postgres stores it, package api shows it.
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

// ErrNotFound is a request that was not recorded, is no longer kept, or is another
// organization's.
var ErrNotFound = errors.New("no such trace")

// ErrRefused is an entry that the store can never take.
var ErrRefused = errors.New("the store refuses the trace")

// Kinds of a parent.
const (
	ParentReplay = "replay"
	ParentCache  = "cache"
)

// Attempt is one candidate that was tried. Its JSON is how it is stored.
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

// Record is one request without its content. Empty fields were not said, or don't apply.
type Record struct {
	ID                                         uuid.UUID
	RequestID, Organization, Run, Key, Service string
	Operation, Status                          string
	Stream                                     bool
	Parent, ParentKind, W3CTrace               string
	RequestedModel, RequestedProvider          string
	RequestedGoal                              string
	Provider, Model, Credential, Fingerprint   string
	Route, PolicyVersion, PriceVersion         string
	Classification, ApprovalRef                string
	CacheHit, Substituted                      bool
	Billed                                     bool
	Prompt, Completion                         int64
	Cost                                       price.Pico
	Estimated                                  bool
	Error, ErrorClass                          string
	HTTPStatus                                 int
	Attempts                                   []Attempt
	Messages, Tools                            int
	RequestBytes, ResponseBytes                int
	RequestDigest, ResponseDigest              []byte
	StartedAt                                  time.Time
	FirstTokenMs, DurationMs                   float64
	ExpiresAt                                  time.Time
	// Captured tells that the request can be issued again. Known only of what was read.
	Captured bool
}

// Content is the request and the answer of a record, sealed.
type Content struct {
	Key    string
	Sealed []byte
	// Truncated tells that something is missing; Replayable that the request is whole.
	Truncated, Replayable bool
	CapturedAt, ExpiresAt time.Time
}

// Entry is a record, with its content where it is kept.
type Entry struct {
	Record
	Content *Content
}

// Packet is what is sealed: all that is needed to issue the request again.
type Packet struct {
	// Form says how Request is to be read; see RawRequest.
	Form   string
	Header http.Header
	// Request as it came, Response in the contract's words; nil where there was none.
	Request, Response json.RawMessage
	Metadata          map[string]string
}

// Filter selects records; empty fields select all.
type Filter struct {
	Organization                                     string
	Request, Run, Operation, Provider, Model, Status string
	Since, Until                                     time.Time
	// Before is the last record of the page before; zero for the first page.
	Before Position
	// Limit of the page, at least 1.
	Limit int
}

// Position of a record in a list.
type Position struct {
	StartedAt time.Time
	ID        uuid.UUID
}

// Store keeps entries until they expire.
type Store interface {
	// Append stores all entries, or none. The error is ErrRefused where one of them
	// can never be stored; any other means that it may be tried again.
	Append(ctx context.Context, entries []Entry) error
	// List gives a page, newest first.
	List(ctx context.Context, f Filter, now time.Time) ([]Record, error)
	// Get reads the latest of a request id of an organization. The error is ErrNotFound
	// where there is none.
	Get(ctx context.Context, organization, request string, now time.Time) (Record, error)
	// Latest reads the latest of a request id of each organization, newest first; an
	// organization that is named is the only one.
	Latest(ctx context.Context, organization, request string, limit int, now time.Time) ([]Record, error)
	// Sizes tells how many bytes each content has, Contents reads them.
	Sizes(ctx context.Context, ids []uuid.UUID, now time.Time) (map[uuid.UUID]int, error)
	Contents(ctx context.Context, ids []uuid.UUID, now time.Time) (map[uuid.UUID]Content, error)
	// Replays lists the requests that repeated one, newest first.
	Replays(ctx context.Context, organization, request string, limit int, now time.Time) ([]string, error)
	// Drop deletes at most so many of what has expired, and tells how many.
	Drop(ctx context.Context, now time.Time, limit int) (int, error)
	// Erase deletes at most so many contents of an organization that were captured
	// until then.
	Erase(ctx context.Context, organization string, until time.Time, limit int) (int, error)
}

// Rule is what is kept of an organization's requests.
type Rule struct {
	// Lineage: a record of each request is kept, for Retention.
	Lineage   bool
	Retention time.Duration
	// SamplePercent of the requests are captured with content, of at most MaxBytes
	// each way, for ContentRetention; 0 is none.
	SamplePercent    float64
	MaxBytes         int
	ContentRetention time.Duration
}
