// Package batchjob keeps batch jobs: many requests of one model that a vendor answers within a day, at a lower price. A job
// is reserved and journaled before the vendor is asked, made at one vendor, watched, billed once by request, and its
// results are stored as files. Each step may be repeated by any replica. Package api reads and shows jobs, package inference
// plans them; internal/postgres keeps the rows.
package batchjob

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Errors of jobs.
var (
	// ErrNotFound is the error of a job that is not there, is no longer kept, or belongs to another organization or owner.
	ErrNotFound = errors.New("no such batch")
	// ErrFull is the error of a job whose organization has MaxUnderWay of them.
	ErrFull = errors.New("too many batches are under way")
	// ErrUnderWay is the error of the deletion of a job that has not ended.
	ErrUnderWay = errors.New("the batch has not ended")
)

// Bounds.
const (
	// MaxRequests is the largest number of requests in a job, and MaxUnderWay that of an organization's jobs that have not
	// ended.
	MaxRequests = 50_000
	MaxUnderWay = 200
)

// Window is the time that vendors have for a job.
const Window = 24 * time.Hour

// Form is the API whose form a job was made in.
type Form string

// The forms.
const (
	FormOpenAI    Form = "openai"
	FormAnthropic Form = "anthropic"
)

// prefixes begin the ids of a form's jobs.
var prefixes = map[Form]string{FormOpenAI: "batch_", FormAnthropic: "msgbatch_"}

// Stage is what is to be done with a job next.
type Stage string

// The stages, in their order.
const (
	StageMaking   Stage = "making"   // Give it to a vendor.
	StageRunning  Stage = "running"  // Watch it there.
	StageSettling Stage = "settling" // Bill and store its results.
	StageClearing Stage = "clearing" // Delete what the vendor keeps.
	StageEnded    Stage = "ended"    // Nothing.
)

// Scope is whose jobs may be read: those of other organizations and owners don't exist for it.
type Scope = conversation.Scope

// Job is a job on its way.
type Job struct {
	Scope

	ID, Run string
	Form    Form
	Stage   Stage
	// CancelRequested reports that its end was asked for, and Erased that nothing of its content is to be kept.
	CancelRequested, Erased bool
	// Provider and VendorID are who runs it and the vendor's id; empty before it is made.
	Provider, VendorID string
	// Reservation is the id of its reservation, and the root of the ids of its ledger rows.
	Reservation          uuid.UUID
	CreatedAt, ExpiresAt time.Time
	// Lease is the number of the claim that a replica works under.
	Lease int64
	State
}

// State is what is sealed of a job: what was asked for, and how far it has come. Its JSON is stored.
type State struct {
	// API is the path that each request is for, Model the model that was asked for, and Input the file of the requests.
	API   string `json:"api"`
	Model string `json:"model"`
	Input string `json:"input"`
	// Metadata are the caller's labels: a JSON object, or nothing.
	Metadata json.RawMessage `json:"metadata,omitzero"`
	// RequestID, Key, User, Tags and Service are of the call that made it, KeyOrigin is the key under which a budget counts
	// it.
	RequestID string `json:"request_id"`
	Key       string `json:"key,omitzero"`
	KeyOrigin string `json:"key_origin,omitzero"`
	User      string `json:"user,omitzero"`
	Service   string `json:"service,omitzero"`

	Tags map[string]string `json:"tags,omitzero"`
	// Policy is the version of the policy that planned it. Targets are who may run it, best first.
	Policy  string   `json:"policy"`
	Targets []Target `json:"targets"`
	Count   int      `json:"count"`
	// Reserved is the worst case that is set aside under a limit; 0 without one.
	Reserved price.Pico `json:"reserved,omitzero"`
	// OutputLife is how long the files of results are kept; 0 is the organization's retention.
	OutputLife time.Duration `json:"output_life,omitzero"`

	// Tried is how many targets have refused it. Trying is when the next one was asked; zero before that. Failures counts
	// the vendor's failures in a row.
	Tried    int       `json:"tried,omitzero"`
	Trying   time.Time `json:"trying,omitzero"`
	Failures int       `json:"failures,omitzero"`
	// Report is the vendor's last one, and Status the state that callers see.
	Report provider.BatchReport `json:"report"`
	Status provider.BatchStatus `json:"status"`
	// When it has reached a state; zero before that.
	StartedAt    time.Time `json:"started_at,omitzero"`
	CancellingAt time.Time `json:"cancelling_at,omitzero"`
	FinalizingAt time.Time `json:"finalizing_at,omitzero"`
	EndedAt      time.Time `json:"ended_at,omitzero"`
	// Output and Errors are the files of results; empty for none.
	Output string `json:"output,omitzero"`
	Errors string `json:"errors,omitzero"`
	// Problems are why it has failed as a whole.
	Problems []provider.BatchProblem `json:"problems,omitzero"`
	Bill
}

// Target is a provider's model that may run a job.
type Target struct {
	provider.Target

	// Upstream is the vendor's name of the model, and Source whose credential is used.
	Upstream string `json:"upstream"`
	Source   string `json:"source"`
}

// Bill is what a job's results sum up to.
type Bill struct {
	Results map[provider.BatchOutcome]int `json:"results,omitzero"`
	Usage   provider.Usage                `json:"usage"`
	Cost    price.Pico                    `json:"cost,omitzero"`
	// Estimated reports whether any figure is not the vendor's, or has no price.
	Estimated bool `json:"estimated,omitzero"`
	// Fingerprint is that of the credential, and Price the version of the price.
	Fingerprint string `json:"fingerprint,omitzero"`
	Price       string `json:"price,omitzero"`
}

// target returns the target that runs the job, or is to be asked next; false where none is left.
func (s *State) target() (Target, bool) {
	if s.Tried >= len(s.Targets) {
		return Target{}, false
	}
	return s.Targets[s.Tried], true
}

// Ended reports whether callers see the job's end.
func (j *Job) Ended() bool { return j.Stage == StageClearing || j.Stage == StageEnded }

// Shown returns the state that callers see.
func (j *Job) Shown() provider.BatchStatus {
	switch {
	case j.Ended():
		return j.Status
	case j.Stage == StageSettling:
		return provider.BatchFinalizing
	case j.CancelRequested || !j.CancellingAt.IsZero():
		return provider.BatchCancelling
	case j.Status == "":
		return provider.BatchValidating
	}
	return j.Status
}

// Request is one request of a job: the caller's id of it, and the most that it can use, in tokens.
type Request struct {
	ID string `json:"id"`
	// Input is the estimate of its input, which is billed where the vendor reports nothing.
	Input      int64 `json:"input"`
	MostInput  int64 `json:"most_input"`
	MostOutput int64 `json:"most_output"`
}

// Row is a stored job: its state is sealed.
type Row struct {
	Job

	Key    string
	Sealed []byte
}

// SealedRequests are the stored requests of a job.
type SealedRequests struct {
	Key    string
	Sealed []byte
}

// Reservation is the worst case of a job, whose requests count as so many calls.
type Reservation struct {
	Worst price.Pico
	Calls int
	// KeyBudget is the ceiling of the job's KeyOrigin.
	KeyBudget keyterm.Budget
}

// Store keeps jobs. What a replica claims, no other may work on until the hold ends; a lease is the number of a claim, and
// changes under an old one do nothing. Holds and what is due go by the store's own clock.
type Store interface {
	// Insert stores a job with its requests and reserves its worst case; nil reserves nothing. It returns false, and does
	// nothing, where its organization has most jobs under way. An *apierr.Error refuses the reservation, within a
	// *budget.ShortError if a cost ceiling does.
	Insert(ctx context.Context, r Row, requests SealedRequests, reserve *Reservation, most int) (bool, error)
	// Requests returns the sealed requests of a job.
	Requests(ctx context.Context, id string) (SealedRequests, error)
	// Claim gives a holder a job that is due; false where none is. Those of some organizations are left out.
	Claim(ctx context.Context, holder string, hold time.Duration, full []string) (Row, bool, error)
	// Renew keeps a claim. It returns false where the claim is lost.
	Renew(ctx context.Context, id string, lease int64, hold time.Duration) (bool, error)
	// Save stores the state of a claimed job, which stays claimed.
	Save(ctx context.Context, r Row) (bool, error)
	// Move stores the state of a claimed job and gives it back until it is due, after a time or, where its end was asked for
	// since it was claimed, at once. When it expires stays as it is where nothing of it is to be kept.
	Move(ctx context.Context, r Row, after time.Duration) (bool, error)
	// Finish is Move for a job that has ended: it completes the files of its results, or deletes them where nothing is to be
	// kept, and releases what is reserved.
	Finish(ctx context.Context, r Row, files []file.File) (bool, error)

	Get(ctx context.Context, s Scope, f Form, id string, now time.Time) (Row, bool, error)
	List(ctx context.Context, s Scope, f Form, p Page, now time.Time) ([]Row, error)
	// Cancel asks for the end of a job. One that has ended stays as it is.
	Cancel(ctx context.Context, s Scope, id string) error
	// Delete deletes an ended job; false where there is none. One that is to be cleared is hidden until that is done.
	Delete(ctx context.Context, s Scope, id string, now time.Time) (bool, error)
	// HasVendorBatch reports whether a vendor's id is that of a job.
	HasVendorBatch(ctx context.Context, provider, id string) (bool, error)
	// Drop deletes at most limit ended jobs that are no longer kept, and returns their number.
	Drop(ctx context.Context, now time.Time, limit int) (int, error)
	// Erase deletes an organization's ended jobs that were made until a time, and asks for the end of the others, whose
	// results are not to be kept.
	Erase(ctx context.Context, organization string, until time.Time) error
}

// Page is a part of a list, which is ordered by the time of creation.
type Page struct {
	// After is the id of the job after which an older page begins, Before that before which a newer page ends; empty for
	// none. At most one is set.
	After, Before string
	Limit         int
}

// NewJob returns a job to be made, with ids of its own.
func NewJob(s Scope, f Form, now time.Time) *Job {
	return &Job{Scope: s, ID: prefixes[f] + rand.Text(), Form: f, Stage: StageMaking, Reservation: uuid.New(), CreatedAt: now}
}

// What sealed texts are bound to, so that none can stand in for another.
func stateOf(id string) string    { return "batch job " + id }
func requestsOf(id string) string { return "batch requests " + id }

// seal returns the row of a job.
func (m *Manager) seal(j *Job) (Row, error) {
	text, err := json.Marshal(j.State)
	if err != nil {
		return Row{}, fmt.Errorf("encode batch: %w", err)
	}
	key, sealed, err := m.Sealer.Seal(j.Organization, stateOf(j.ID), s2.Encode(nil, text))
	if err != nil {
		return Row{}, fmt.Errorf("seal batch: %w", err)
	}
	return Row{*j, key, sealed}, nil
}

func (m *Manager) open(r Row) (*Job, error) {
	if err := m.unseal(r.Organization, stateOf(r.ID), r.Key, r.Sealed, &r.State); err != nil {
		return nil, err
	}
	return &r.Job, nil
}

// unseal reads a sealed JSON text.
func (m *Manager) unseal(organization, name, key string, sealed []byte, into any) error {
	packed, err := m.Sealer.Open(organization, name, key, sealed)
	if err != nil {
		return fmt.Errorf("open batch: %w", err)
	}
	text, err := s2.Decode(nil, packed)
	if err != nil {
		return fmt.Errorf("unpack batch: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decode batch: %w", err)
	}
	return nil
}
