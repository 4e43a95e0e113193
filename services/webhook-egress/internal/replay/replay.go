// Package replay owns bulk resending: durable jobs that resend many ended deliveries, each once, and resume after a
// restart. The API creates and reads them through [Service]; [Worker] executes them.
package replay

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// Status is the state of a job.
type Status string

// The states; Counted is the result of a dry run.
const (
	StatusCounted   Status = "counted"
	StatusQueued    Status = "queued"
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusCancelled Status = "cancelled"
	StatusFailed    Status = "failed"
)

// Reasons for a failed job: its deliveries' deadline has passed, or the store rejects a page.
const (
	ErrorDeadline = "deadline_passed"
	ErrorInternal = "internal"
)

// Filter selects ended deliveries, by id or by the other fields. It is stored with the job in this form.
type Filter struct {
	DeliveryIDs []string          `json:"delivery_ids,omitempty"`
	Statuses    []delivery.Status `json:"status,omitempty"`
	EndpointID  string            `json:"endpoint_id,omitempty"`
	EventType   string            `json:"event_type,omitempty"`
	Host        string            `json:"host,omitempty"`
	CreatedFrom time.Time         `json:"created_after,omitzero"`
	CreatedTo   time.Time         `json:"created_before,omitzero"`
}

// neverArrived are the statuses of a filter that names none.
var neverArrived = []delivery.Status{delivery.StatusFailed, delivery.StatusExpired}

// Wanted returns the statuses to resend.
func (f Filter) Wanted() []delivery.Status {
	if len(f.Statuses) == 0 {
		return neverArrived
	}
	return f.Statuses
}

// OnlyDeadLetters reports whether the filter matches dead letters only.
func (f Filter) OnlyDeadLetters() bool {
	for _, s := range f.Wanted() {
		if s != delivery.StatusFailed && s != delivery.StatusExpired {
			return false
		}
	}
	return true
}

// check validates that a filter uses ids or the other fields, not both.
func (f Filter) check() error {
	err := delivery.CheckTexts(map[string]string{"filter.event_type": f.EventType, "filter.host": f.Host})
	switch byID := len(f.DeliveryIDs) > 0; {
	case err != nil:
		return err
	case byID && (f.EndpointID != "" || f.EventType != "" || f.Host != "" || !f.CreatedFrom.IsZero() || !f.CreatedTo.IsZero()):
		return apierr.Invalid("filter.delivery_ids", "goes with no other filter than status")
	case byID:
		for i, id := range f.DeliveryIDs {
			if _, err := delivery.ParseID(id); err != nil {
				return apierr.Invalid(fmt.Sprintf("filter.delivery_ids[%d]", i), "is no id of a delivery")
			}
		}
		return nil
	case f.CreatedFrom.IsZero():
		return apierr.Invalid("filter.created_after", "is required without filter.delivery_ids")
	case !f.CreatedTo.IsZero() && !f.CreatedTo.After(f.CreatedFrom):
		return apierr.Invalid("filter.created_before", "must be later than filter.created_after")
	}
	if _, err := delivery.ParseID(f.EndpointID); f.EndpointID != "" && err != nil {
		return apierr.Invalid("filter.endpoint_id", "is no id of an endpoint")
	}
	return nil
}

// Replay is a job and its progress.
type Replay struct {
	// ID is zero for a dry run.
	ID                  delivery.ID
	Organization, Owner string
	Filter              Filter
	DryRun              bool
	Status              Status
	// Matched counts the deliveries at creation; Replayed and Skipped count progress.
	Matched, Replayed, Skipped int
	Error                      string
	Created, Updated, Finished time.Time
}

// Draft is a checked job that is not stored yet.
type Draft struct {
	ID                  delivery.ID
	Organization, Owner string
	Filter              Filter
	// MaxAttempts is zero for as many as before; Deadline is the zero time for none.
	MaxAttempts   int
	Deadline      time.Time
	RatePerSecond float64
	// Key deduplicates; empty for none.
	Key         string
	Fingerprint [32]byte
	// Count is the count of the call that created the job; nil for none. It is no part of the fingerprint.
	Count *callcount.Count `json:"-"`
}

func fingerprint(d Draft) ([32]byte, error) {
	d.ID, d.Key = delivery.ID{}, ""
	text, err := json.Marshal(d)
	if err != nil {
		return [32]byte{}, fmt.Errorf("fingerprint: %w", err)
	}
	return sha256.Sum256(text), nil
}

// maxPage is how many deliveries a transaction resends at most.
const maxPage = 200

// Pace returns how many deliveries a page may have at a rate per second, and how long to wait after a page of n. A
// rate of zero is unlimited.
func Pace(perSecond float64) (page int, pause func(n int) time.Duration) {
	if perSecond <= 0 {
		return maxPage, func(int) time.Duration { return 0 }
	}
	page = min(max(1, int(perSecond/2)), maxPage)
	return page, func(n int) time.Duration { return time.Duration(float64(n) / perSecond * float64(time.Second)) }
}
