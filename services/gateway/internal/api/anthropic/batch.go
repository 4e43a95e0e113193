package anthropic

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// BatchAPI is the path that the requests of a batch are for.
const BatchAPI = "/v1/messages"

// customIDs are the caller's ids of requests (Anthropic API reference, "Create a Message Batch").
var customIDs = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// BatchRequest is a request for a batch: its requests as JSON.
type BatchRequest struct {
	Requests []json.RawMessage
	// Extension is the JSON of what only this gateway supports; may be nil.
	Extension []byte
}

// ReadBatch reads a request for a batch of at most most requests.
func ReadBatch(body []byte, most int) (*BatchRequest, error) {
	o, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	b := &BatchRequest{Extension: o.Raw(dialect.Extension)}
	if b.Requests, err = dialect.SomeElements("requests", o.Raw("requests"), most+1); err != nil {
		return nil, err
	}
	switch {
	case len(b.Requests) == 0:
		return nil, apierr.Invalid("requests", "must hold a request")
	case len(b.Requests) > most:
		return nil, apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, fmt.Sprintf("requests: holds more than %d requests", most))
	}
	return b, nil
}

// ReadBatchRequest reads one request of a batch: its id and the body of a message.
func ReadBatchRequest(raw json.RawMessage) (id string, params []byte, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return "", nil, apierr.Invalid("request", "must be a JSON object")
	}
	o, err := dialect.Members(raw)
	if err != nil {
		return "", nil, err
	}
	if err := o.Take("custom_id", &id); err != nil {
		return "", nil, err
	}
	params = o.Raw("params")
	switch {
	case !customIDs.MatchString(id):
		return "", nil, apierr.Invalid("custom_id", "must have 1 to 64 letters, digits, underscores and dashes")
	case len(params) == 0 || params[0] != '{':
		return "", nil, apierr.Invalid("params", "must be a JSON object")
	}
	return id, params, nil
}

// Bounds of a page of batches.
const fewBatches, mostBatches = 20, 1000

// ReadBatchPage reads the query of a list of batches.
func ReadBatchPage(q url.Values) (batchjob.Page, error) {
	p := batchjob.Page{After: q.Get("after_id"), Before: q.Get("before_id"), Limit: fewBatches}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostBatches {
			return p, apierr.Invalid("limit", fmt.Sprintf("must be a whole number from 1 to %d", mostBatches))
		}
		p.Limit = n
	}
	if p.After != "" && p.Before != "" {
		return p, apierr.Invalid("before_id", "can't be combined with after_id")
	}
	return p, nil
}

// BatchObject is a batch as the API shows it.
type BatchObject struct {
	ID                string      `json:"id"`
	Type              string      `json:"type"`
	ProcessingStatus  string      `json:"processing_status"`
	RequestCounts     batchCounts `json:"request_counts"`
	EndedAt           *time.Time  `json:"ended_at"`
	CreatedAt         time.Time   `json:"created_at"`
	ExpiresAt         time.Time   `json:"expires_at"`
	ArchivedAt        *time.Time  `json:"archived_at"`
	CancelInitiatedAt *time.Time  `json:"cancel_initiated_at"`
	ResultsURL        *string     `json:"results_url"`
}

type batchCounts struct {
	Processing int `json:"processing"`
	Succeeded  int `json:"succeeded"`
	Errored    int `json:"errored"`
	Canceled   int `json:"canceled"`
	Expired    int `json:"expired"`
}

// NewBatch returns a job as the API shows it. The address of its results is relative: SDKs add it to their base URL, which
// is the edge's for some and the gateway's for others.
func NewBatch(j *batchjob.Job) BatchObject {
	b := BatchObject{
		ID: j.ID, Type: "message_batch", ProcessingStatus: "in_progress", RequestCounts: batchCounts{Processing: j.Count},
		CreatedAt: j.CreatedAt.UTC(), ExpiresAt: j.CreatedAt.Add(batchjob.Window).UTC(), CancelInitiatedAt: utc(j.CancellingAt),
	}
	switch {
	case !j.Ended() && (j.CancelRequested || !j.CancellingAt.IsZero()):
		b.ProcessingStatus = "canceling"
		return b
	case !j.Ended():
		return b
	}
	b.ProcessingStatus, b.EndedAt, b.ResultsURL = "ended", utc(j.EndedAt), new("/v1/messages/batches/"+j.ID+"/results")
	b.RequestCounts = batchCounts{
		Succeeded: j.Results[provider.BatchAnswered], Canceled: j.Results[provider.BatchRequestCancelled],
		Expired: j.Results[provider.BatchRequestExpired],
	}
	rest := j.Count - b.RequestCounts.Succeeded - b.RequestCounts.Canceled - b.RequestCounts.Expired
	if j.Status == provider.BatchCancelled && j.Results == nil {
		b.RequestCounts.Canceled = rest
	} else {
		b.RequestCounts.Errored = rest
	}
	return b
}

func utc(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// BatchList is a page of batches.
type BatchList struct {
	Data    []BatchObject `json:"data"`
	HasMore bool          `json:"has_more"`
	FirstID *string       `json:"first_id"`
	LastID  *string       `json:"last_id"`
}

// NewBatchList returns a page of jobs.
func NewBatchList(jobs []*batchjob.Job, more bool) BatchList {
	l := BatchList{Data: make([]BatchObject, len(jobs)), HasMore: more}
	for i, j := range jobs {
		l.Data[i] = NewBatch(j)
	}
	if len(jobs) > 0 {
		l.FirstID, l.LastID = &jobs[0].ID, &jobs[len(jobs)-1].ID
	}
	return l
}

// BatchDeletion is the answer to the deletion of a batch.
type BatchDeletion struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// NewBatchDeletion returns the answer to the deletion of a batch.
func NewBatchDeletion(id string) BatchDeletion { return BatchDeletion{id, "message_batch_deleted"} }
