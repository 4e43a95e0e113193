// Package ledger owns the billed feed: one entry for each billed completion,
// committed before its answer is complete. Package inference records entries;
// internal/postgres stores them.
package ledger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/price"
	"switchyard.dev/services/gateway/internal/provider"
)

// State says where an entry's token counts come from. Absent is not zero: a
// vendor that reported nothing leaves an estimate.
type State string

// The states.
const (
	// StateReported is the vendor's own final count.
	StateReported State = "reported"
	// StatePartial is the vendor's count up to where the answer was cut off.
	StatePartial State = "partial"
	// StateEstimated was counted here.
	StateEstimated State = "estimated"
)

// Outcome says how a billed completion ended.
type Outcome string

// The outcomes.
const (
	OutcomeCompleted Outcome = "completed"
	// OutcomeCancelled: the caller left.
	OutcomeCancelled Outcome = "cancelled"
	// OutcomeInterrupted: the provider failed after the first piece.
	OutcomeInterrupted Outcome = "interrupted"
)

// Entry is one billed completion.
type Entry struct {
	// ID is the execution's own, so that a repeated request id bills twice and a
	// repeated write once.
	ID        uuid.UUID
	RequestID string

	Organization, Key, Service, Run string
	// Operation is "chat".
	Operation string

	RequestedProvider, RequestedModel, RequestedGoal string
	Provider, Model                                  string
	// Credential is "fleet" or "byok"; Fingerprint its keyed hash, if it has one.
	Credential, Fingerprint string
	Substituted             bool
	Attempts                int

	Usage        provider.Usage
	State        State
	Cost         price.Pico
	PriceVersion string
	Outcome      Outcome

	StartedAt, EndedAt time.Time
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
		slog.Bool("substituted", e.Substituted), slog.Int("attempts", e.Attempts),
		slog.Int64("input_tokens", e.Usage.Input), slog.Int64("cache_read_tokens", e.Usage.CacheRead),
		slog.Int64("cache_write_tokens", e.Usage.CacheWrite), slog.Int64("output_tokens", e.Usage.Output),
		slog.Int64("reasoning_tokens", e.Usage.Reasoning), slog.Int64("images", e.Usage.Images),
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
