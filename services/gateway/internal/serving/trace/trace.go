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

// ErrRefused is the error of an entry that the store can never take.
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

// Record is one request without its content. Empty fields were not given, or don't apply.
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
	// Captured reports whether the request can be issued again. It is set only in records read from the store.
	Captured bool
}

// Content is the request and the answer of a record, sealed.
type Content struct {
	Key    string
	Sealed []byte
	// Truncated reports whether something is missing, Replayable whether the request is whole.
	Truncated, Replayable bool
	CapturedAt, ExpiresAt time.Time
}

// Entry is a record, with its content if that is kept.
type Entry struct {
	Record
	Content *Content
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

// Filter selects records; empty fields select all.
type Filter struct {
	Organization                                     string
	Request, Run, Operation, Provider, Model, Status string
	Since, Until                                     time.Time
	// Before is the position of the last record of the previous page; zero for the first page.
	Before Position
	// Limit is the most records of the page, at least 1.
	Limit int
}

// Position is the place of a record in a list.
type Position struct {
	StartedAt time.Time
	ID        uuid.UUID
}

// Store keeps entries until they expire.
type Store interface {
	// Append stores all entries, or none. The error is ErrRefused where one of them can never be stored; after any other
	// the call may be repeated.
	Append(ctx context.Context, entries []Entry) error
	// List returns a page, newest first.
	List(ctx context.Context, f Filter, now time.Time) ([]Record, error)
	// Get returns the latest record of a request id of an organization. The error is ErrNotFound where there is none.
	Get(ctx context.Context, organization, request string, now time.Time) (Record, error)
	// Latest returns the latest record of a request id of each organization, newest first, or only that of the
	// organization that is named.
	Latest(ctx context.Context, organization, request string, limit int, now time.Time) ([]Record, error)
	// Sizes returns the size of each content in bytes, Contents the contents.
	Sizes(ctx context.Context, ids []uuid.UUID, now time.Time) (map[uuid.UUID]int, error)
	Contents(ctx context.Context, ids []uuid.UUID, now time.Time) (map[uuid.UUID]Content, error)
	// Replays returns the ids of the requests that repeated one, newest first.
	Replays(ctx context.Context, organization, request string, limit int, now time.Time) ([]string, error)
	// Drop deletes at most limit expired records, and returns their number.
	Drop(ctx context.Context, now time.Time, limit int) (int, error)
	// Erase deletes at most limit contents of an organization that were captured until a time, and returns their number.
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
