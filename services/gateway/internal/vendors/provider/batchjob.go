package provider

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// BatchRunner is a provider whose vendor runs batch jobs: many requests of one model that are answered within a day, at a
// lower price. A job is made of the caller's own bodies, as a relayed call is. Errors are an *Error, but for those below.
type BatchRunner interface {
	Provider
	// RunsBatches reports whether jobs of requests to an API may be made; see BatchJob.API.
	RunsBatches(api string) bool
	// CreateBatch makes a job. An error that is ErrBatchUndecided, too, leaves open whether the vendor has made it;
	// FindBatch answers that later. After any other error it has not. Errors of the job's lines are returned as they are.
	CreateBatch(ctx context.Context, credential Credential, job *BatchJob) (*BatchReport, error)
	// FindBatch returns the job that was made of a mark, or ErrNoBatch. ErrBatchUndecided means that it can't be
	// known before a job ends that may be the one.
	FindBatch(ctx context.Context, credential Credential, search BatchSearch) (*BatchReport, error)
	// ReadBatch returns the present state of a job. The error is ErrNoBatch where the vendor no longer has it.
	ReadBatch(ctx context.Context, credential Credential, id string) (*BatchReport, error)
	// CancelBatch asks the vendor to end a job. One that has ended stays as it is.
	CancelBatch(ctx context.Context, credential Credential, id string) error
	// BatchResults passes the results of an ended job to each, in any order, with bounded memory. It returns the error of
	// each as it is. job is what the report is about, for a provider that answers its requests only now.
	BatchResults(ctx context.Context, credential Credential, job *BatchJob, report *BatchReport, each func(BatchResult) error) error
	// DeleteBatch deletes what the vendor keeps of an ended job. What is gone already is no error.
	DeleteBatch(ctx context.Context, credential Credential, job *BatchReport) error
}

// Errors of jobs.
var (
	ErrNoBatch        = errors.New("the vendor has no such batch job")
	ErrBatchUndecided = errors.New("it is not known yet whether the vendor has the batch job")
)

// BatchJob is a job to be made.
type BatchJob struct {
	// Mark names the job among all of the gateway's; it has 1 to 40 letters and digits. The custom id of each line begins
	// with it.
	Mark string
	// API is the path of the API that each line is a request of, as OpenAI's and Anthropic's jobs name it:
	// "/v1/chat/completions" or "/v1/messages".
	API string
	// Model is the vendor's own name of the model. An adapter sets the fields "model" and "stream" of each line itself.
	Model string
	// Lines are the requests. They may be read again, for another vendor.
	Lines iter.Seq2[BatchLine, error]
	// Count is their number.
	Count int
}

// BatchLine is one request of a job.
type BatchLine struct {
	// CustomID has at most 64 letters, digits, dashes and underscores, and no other line has it.
	CustomID string
	// Body is the request in the form of the job's API.
	Body json.RawMessage
}

// BatchSearch is what is known of a job that may have been made.
type BatchSearch struct {
	Mark  string
	Count int
	// Since is a time before the job can have been made.
	Since time.Time
	// Other reports whether an id is that of another job of the gateway's.
	Other func(id string) bool
}

// BatchStatus is the state of a job at its vendor, in OpenAI's words.
type BatchStatus string

// The states. The last four are ends.
const (
	BatchValidating BatchStatus = "validating"
	BatchInProgress BatchStatus = "in_progress"
	BatchFinalizing BatchStatus = "finalizing"
	BatchCancelling BatchStatus = "cancelling"
	BatchCompleted  BatchStatus = "completed"
	BatchFailed     BatchStatus = "failed"
	BatchExpired    BatchStatus = "expired"
	BatchCancelled  BatchStatus = "cancelled"
)

// Ended reports whether a state is an end.
func (s BatchStatus) Ended() bool {
	switch s {
	case BatchCompleted, BatchFailed, BatchExpired, BatchCancelled:
		return true
	case BatchValidating, BatchInProgress, BatchFinalizing, BatchCancelling:
	}
	return false
}

// BatchReport is what a vendor says of a job.
type BatchReport struct {
	ID     string      `json:"id"`
	Status BatchStatus `json:"status"`
	// Input, Output and Errors are the vendor's ids of the job's files; Output is the job's own id where the vendor has
	// results but no files. Empty for none.
	Input  string `json:"input,omitzero"`
	Output string `json:"output,omitzero"`
	Errors string `json:"errors,omitzero"`
	// Answered and Failed are how many requests were answered or have failed so far.
	Answered int `json:"answered,omitzero"`
	Failed   int `json:"failed,omitzero"`
	// Problems are why the vendor has failed the job as a whole.
	Problems []BatchProblem `json:"problems,omitzero"`
}

// BatchProblem is a reason for which a vendor refused a job. Its texts are the vendor's, bounded and screened.
type BatchProblem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitzero"`
	// Line is the number of the line that it is about, from 1; 0 for none.
	Line int `json:"line,omitzero"`
}

// BatchResult is the result of one request of a job.
type BatchResult struct {
	CustomID string
	// Line is the vendor's line as it came: a JSON object. It is valid until the call returns.
	Line    json.RawMessage
	Outcome BatchOutcome
	// Usage is nil where the vendor reported none. Written is how many bytes of the answer the model wrote.
	Usage   *Usage
	Written int
}

// BatchOutcome is what became of one request of a job.
type BatchOutcome string

// The outcomes. Only what was answered is billed.
const (
	BatchAnswered         BatchOutcome = "answered"
	BatchRequestFailed    BatchOutcome = "failed"
	BatchRequestCancelled BatchOutcome = "cancelled"
	BatchRequestExpired   BatchOutcome = "expired"
)
