// Package ledger owns the billed feed: one entry for each billed completion, on
// disk or in the database before its answer is complete, and in the database
// exactly once. Package inference records entries and package api reads them;
// internal/postgres stores them.
package ledger

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// State says where an entry's token counts come from. Absent is not zero: a
// vendor that reported nothing leaves an estimate.
type State string

// The states.
const (
	// StateReported is the vendor's own final count.
	StateReported State = "reported"
	// StatePartial is the vendor's count, of a part: up to where the answer was cut
	// off, of the calls that were answered before another one of the request failed,
	// without what else it bills for (a service tier, a search of the web), or as much
	// of an impossible report as can be.
	StatePartial State = "partial"
	// StateEstimated was counted here.
	StateEstimated State = "estimated"
)

// Outcome says how a billed completion ended.
type Outcome string

// The outcomes.
const (
	OutcomeCompleted Outcome = "completed"
	// OutcomeCancelled: the caller left, perhaps before anything had come.
	OutcomeCancelled Outcome = "cancelled"
	// OutcomeAborted: it was ended from outside: a suspension, the end of its run,
	// of what was asked for or set aside, or a tool call without its approval.
	OutcomeAborted Outcome = "aborted"
	// OutcomeInterrupted: the provider failed after the first piece, or in one of the
	// calls that the request took, or its time was up.
	OutcomeInterrupted Outcome = "interrupted"
)

// OperationProbe marks what operators asked for to see how a model does, whatever
// the kind of its calls was.
const OperationProbe = "probe"

// Entry is one billed completion. Its JSON is how it waits on disk.
type Entry struct {
	// ID is the execution's own, so that a repeated request id bills twice and a
	// repeated write once.
	ID        uuid.UUID `json:"id"`
	RequestID string    `json:"request_id"`

	Organization string `json:"organization_id"`
	Key          string `json:"key_id,omitzero"`
	Service      string `json:"service,omitzero"`
	Run          string `json:"run_id,omitzero"`
	// Operation is "chat", "embeddings", "vision", "images" or "probe".
	Operation string `json:"operation"`

	RequestedProvider string `json:"requested_provider,omitzero"`
	RequestedModel    string `json:"requested_model,omitzero"`
	RequestedGoal     string `json:"requested_goal,omitzero"`
	Provider          string `json:"provider"`
	Model             string `json:"model"`
	// Credential is "fleet" or "byok"; Fingerprint its keyed hash, if it has one.
	Credential  string `json:"credential"`
	Fingerprint string `json:"credential_fingerprint,omitzero"`
	Substituted bool   `json:"substituted,omitzero"`
	// CacheHit: the answer came from the response cache, and costs nothing.
	CacheHit bool `json:"cache_hit,omitzero"`
	Attempts int  `json:"attempts"`

	Usage        provider.Usage `json:"usage"`
	State        State          `json:"usage_state"`
	Cost         price.Pico     `json:"cost_pico_usd"`
	PriceVersion string         `json:"price_version,omitzero"`
	Outcome      Outcome        `json:"outcome"`

	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// Estimated reports whether the figures are not the provider's own, or the model
// had no price.
func (e *Entry) Estimated() bool {
	return e.State != StateReported || e.PriceVersion == "" && !e.CacheHit
}

// cleaned is the entry without what a store of text can't take (a zero byte,
// broken UTF-8): a name that a caller made up must not cost the row.
func (e Entry) cleaned() Entry {
	for _, field := range []*string{
		&e.RequestID, &e.Organization, &e.Key, &e.Service, &e.Run,
		&e.RequestedProvider, &e.RequestedModel, &e.RequestedGoal, &e.Provider, &e.Model, &e.Fingerprint,
	} {
		if strings.IndexByte(*field, 0) >= 0 || !utf8.ValidString(*field) {
			*field = strings.ReplaceAll(strings.ToValidUTF8(*field, "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return e
}

// LogValue gives the whole entry: the log is what is left of an entry that
// could not be stored.
func (e Entry) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", e.ID.String()), slog.String("request_id", e.RequestID),
		slog.String("organization_id", e.Organization), slog.String("key_id", e.Key),
		slog.String("service", e.Service), slog.String("run_id", e.Run), slog.String("operation", e.Operation),
		slog.String("requested_provider", e.RequestedProvider), slog.String("requested_model", e.RequestedModel),
		slog.String("requested_goal", e.RequestedGoal),
		slog.String("provider", e.Provider), slog.String("model", e.Model),
		slog.String("credential", e.Credential), slog.String("credential_fingerprint", e.Fingerprint),
		slog.Bool("substituted", e.Substituted), slog.Bool("cache_hit", e.CacheHit), slog.Int("attempts", e.Attempts),
		slog.Any("usage", e.Usage),
		slog.String("usage_state", string(e.State)), slog.Int64("cost_pico_usd", int64(e.Cost)),
		slog.String("price_version", e.PriceVersion), slog.String("outcome", string(e.Outcome)),
		slog.Time("started_at", e.StartedAt), slog.Time("ended_at", e.EndedAt),
	)
}

// Store keeps entries.
type Store interface {
	// Append commits entries in one transaction. An entry whose ID is there
	// already is left alone. The error is ErrAway when the store can't be
	// reached; any other means that it refuses an entry.
	Append(ctx context.Context, entries []Entry) error
}

// ErrAway says that the store can't be used now and may be later.
var ErrAway = errors.New("the ledger's store is away")
