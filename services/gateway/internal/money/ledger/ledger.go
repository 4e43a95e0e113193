// Package ledger owns the billed feed: one entry for each billed completion. The entry is on disk or in the database
// before the completion's answer is complete, and in the database exactly once. Package inference records entries and
// package api reads them; internal/postgres stores them.
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
	"switchyard.dev/services/platform/callcount"
)

// State is the source of an entry's token counts. Absent counts are not zero: if a vendor reported nothing, they are
// estimated.
type State string

// The states.
const (
	// StateReported marks the vendor's own final count.
	StateReported State = "reported"
	// StatePartial marks a vendor's count of a part: up to where the answer was cut off, of the calls that were
	// answered before another call of the request failed, without what the vendor bills in addition (a service tier, a
	// web search), or the possible part of an impossible report.
	StatePartial State = "partial"
	// StateEstimated marks a count made by the gateway.
	StateEstimated State = "estimated"
)

// Outcome is how a billed completion ended.
type Outcome string

// The outcomes.
const (
	OutcomeCompleted Outcome = "completed"
	// OutcomeCancelled: the caller disconnected, perhaps before the first byte of the answer.
	OutcomeCancelled Outcome = "cancelled"
	// OutcomeAborted: the completion was ended by a suspension, the end of its run, a limit of the request or of its
	// reservation, or a tool call without approval.
	OutcomeAborted Outcome = "aborted"
	// OutcomeInterrupted: the provider failed after the first piece, or in one of the request's several calls, its time was
	// up, or another call of the request answered first.
	OutcomeInterrupted Outcome = "interrupted"
)

// OperationProbe is the operation of probes, by which operators test a model, whatever the kind of their calls.
const OperationProbe = "probe"

// OperationTool is the operation of calls of tools. Their provider is "mcp/" and the id of the tool's server, their model
// the tool's own name.
const OperationTool = "tool"

// Entry is one billed completion. Its JSON is the format in the spool.
type Entry struct {
	// ID is the execution's own ID, so that a repeated request ID bills twice and a repeated write bills once.
	ID        uuid.UUID `json:"id"`
	RequestID string    `json:"request_id"`

	Organization string `json:"organization_id"`
	Key          string `json:"key_id,omitzero"`
	// KeyOrigin is the key under which a budget counts the completion: the first of Key's rotations. It is empty where the
	// call came without terms of its key.
	KeyOrigin string `json:"key_origin,omitzero"`
	// User is on whose behalf the completion was made, as the caller named it.
	User    string `json:"user_id,omitzero"`
	Service string `json:"service,omitzero"`
	Run     string `json:"run_id,omitzero"`
	// Tags are the caller's labels of what the completion costs; see package tag.
	Tags map[string]string `json:"tags,omitzero"`
	// Operation is "chat", "embeddings", "vision", "images", one that is only relayed, "tool" or "probe".
	Operation string `json:"operation"`

	RequestedProvider string `json:"requested_provider,omitzero"`
	RequestedModel    string `json:"requested_model,omitzero"`
	RequestedGoal     string `json:"requested_goal,omitzero"`
	Provider          string `json:"provider"`
	Model             string `json:"model"`
	// Credential is "fleet" or "byok"; Fingerprint is its keyed hash, if it has one.
	Credential  string `json:"credential"`
	Fingerprint string `json:"credential_fingerprint,omitzero"`
	Substituted bool   `json:"substituted,omitzero"`
	// CacheHit reports that the answer came from the response cache and costs nothing.
	CacheHit bool `json:"cache_hit,omitzero"`
	Attempts int  `json:"attempts"`

	Usage provider.Usage `json:"usage"`
	// Reported is the vendor's report if it is more than the request can use, so that Usage is less; nil otherwise.
	Reported     *provider.Usage `json:"reported,omitzero"`
	State        State           `json:"usage_state"`
	Cost         price.Pico      `json:"cost_pico_usd"`
	PriceVersion string          `json:"price_version,omitzero"`
	Outcome      Outcome         `json:"outcome"`

	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`

	// CountMetric is what the completion's call counts as for its customer (see package callcount); empty if it counts
	// nothing, or if its count is another record.
	CountMetric string `json:"count_metric,omitzero"`
}

// Estimated reports whether the figures are not the provider's own, or the model had no price.
func (e *Entry) Estimated() bool {
	return e.State != StateReported || e.PriceVersion == "" && !e.CacheHit
}

// ReportedByColumn returns the nonzero counts of Reported by the column of their bucket; nil if Reported is nil.
func (e *Entry) ReportedByColumn() map[string]int64 {
	if e.Reported == nil {
		return nil
	}
	counts := make(map[string]int64)
	for _, b := range provider.Buckets() {
		if n := *b.Of(e.Reported); n != 0 {
			counts[b.Column()] = n
		}
	}
	return counts
}

// cleaned returns the entry without text that a store can't hold (a zero byte, invalid UTF-8): a name chosen by a
// caller must not cause the row to be lost.
func (e Entry) cleaned() Entry {
	for _, field := range []*string{
		&e.RequestID, &e.Organization, &e.Key, &e.KeyOrigin, &e.User, &e.Service, &e.Run,
		&e.RequestedProvider, &e.RequestedModel, &e.RequestedGoal, &e.Provider, &e.Model, &e.Fingerprint,
	} {
		if strings.IndexByte(*field, 0) >= 0 || !utf8.ValidString(*field) {
			*field = strings.ReplaceAll(strings.ToValidUTF8(*field, "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return e
}

// LogValue returns the whole entry: the log is the last place of an entry that could not be stored.
func (e Entry) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", e.ID.String()), slog.String("request_id", e.RequestID),
		slog.String("organization_id", e.Organization), slog.String("key_id", e.Key),
		slog.String("key_origin", e.KeyOrigin), slog.String("user_id", e.User), slog.Any("tags", e.Tags),
		slog.String("service", e.Service), slog.String("run_id", e.Run), slog.String("operation", e.Operation),
		slog.String("requested_provider", e.RequestedProvider), slog.String("requested_model", e.RequestedModel),
		slog.String("requested_goal", e.RequestedGoal),
		slog.String("provider", e.Provider), slog.String("model", e.Model),
		slog.String("credential", e.Credential), slog.String("credential_fingerprint", e.Fingerprint),
		slog.Bool("substituted", e.Substituted), slog.Bool("cache_hit", e.CacheHit), slog.Int("attempts", e.Attempts),
		slog.Any("usage", e.Usage), slog.Any("reported", e.Reported),
		slog.String("usage_state", string(e.State)), slog.Int64("cost_pico_usd", int64(e.Cost)),
		slog.String("price_version", e.PriceVersion), slog.String("outcome", string(e.Outcome)),
		slog.Time("started_at", e.StartedAt), slog.Time("ended_at", e.EndedAt),
	)
}

// Store stores entries.
type Store interface {
	// Append commits entries in one transaction. An entry whose ID is stored already is ignored. The error is ErrUnavailable
	// if the store can't be reached; any other error means that the store refuses an entry.
	Append(ctx context.Context, entries []Entry) error
	// Count does the same with counts of calls.
	Count(ctx context.Context, counts []callcount.Count) error
	// Announce tells all readers that entries will be appended whose answers may be complete by then. Readers that start
	// before withdraw wait for it.
	Announce(ctx context.Context) (withdraw func(), err error)
}

// ErrUnavailable reports that the store is unavailable now and may be available later.
var ErrUnavailable = errors.New("the ledger's store is unavailable")
