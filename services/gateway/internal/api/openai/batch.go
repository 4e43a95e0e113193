package openai

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// batchAPIs are the paths that the requests of a batch may be for.
var batchAPIs = []string{"/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/completions", "/v1/moderations"}

// window is the only time that vendors have for a batch.
const window = "24h"

// Bounds of a batch's labels (OpenAI API reference, "Create batch"). One of the vendor's sixteen is the gateway's.
const (
	maxLabels                   = 15
	maxLabelName, maxLabelValue = 64, 512
)

// maxCustomID bounds the caller's id of a request, in characters.
const maxCustomID = 512

// BatchRequest is a request for a batch.
type BatchRequest struct {
	InputFile, API string
	Metadata       json.RawMessage
	// OutputLife is how long the results are kept; 0 leaves it to the policy.
	OutputLife time.Duration
	// Extension is the JSON of what only this gateway supports; may be nil.
	Extension []byte
}

// ReadBatch reads a request for a batch.
func ReadBatch(body []byte) (*BatchRequest, error) {
	o, err := dialect.Parse(body)
	if err != nil {
		return nil, err
	}
	var b BatchRequest
	var completionWindow string
	for _, m := range []struct {
		name string
		into *string
	}{{"input_file_id", &b.InputFile}, {"endpoint", &b.API}, {"completion_window", &completionWindow}} {
		if err := o.Take(m.name, m.into); err != nil {
			return nil, err
		}
		if *m.into == "" {
			return nil, apierr.Invalid(m.name, "is required")
		}
	}
	if b.API[0] == '/' && !strings.HasPrefix(b.API, "/v1/") { // Azure's form.
		b.API = "/v1" + b.API
	}
	switch {
	case !slices.Contains(batchAPIs, b.API):
		return nil, apierr.Invalid("endpoint", "must be one of "+strings.Join(batchAPIs, ", "))
	case completionWindow != window:
		return nil, apierr.Invalid("completion_window", "must be "+window)
	}
	if err := b.readLabels(o); err != nil {
		return nil, err
	}
	if b.OutputLife, err = readLife("output_expires_after", o.Raw("output_expires_after")); err != nil {
		return nil, err
	}
	b.Extension = o.Raw(dialect.Extension)
	return &b, nil
}

func (b *BatchRequest) readLabels(o *dialect.Object) error {
	var labels map[string]string
	if err := o.Take("metadata", &labels); err != nil {
		return err
	}
	if len(labels) > maxLabels {
		return apierr.Invalid("metadata", fmt.Sprintf("must hold at most %d labels", maxLabels))
	}
	for name, value := range labels {
		if utf8.RuneCountInString(name) > maxLabelName || utf8.RuneCountInString(value) > maxLabelValue {
			return apierr.Invalid("metadata", fmt.Sprintf("names have at most %d characters, values %d", maxLabelName, maxLabelValue))
		}
	}
	b.Metadata = o.Raw("metadata")
	return nil
}

// readLife reads {anchor, seconds}; 0 where it is absent.
func readLife(field string, raw json.RawMessage) (time.Duration, error) {
	if raw == nil {
		return 0, nil
	}
	var life struct {
		Anchor  string `json:"anchor"`
		Seconds int64  `json:"seconds"`
	}
	if err := dialect.Decode(field, raw, &life); err != nil {
		return 0, err
	}
	switch {
	case life.Anchor != "created_at":
		return 0, apierr.Invalid(field+".anchor", "must be created_at")
	case life.Seconds < leastLife || life.Seconds > mostLife:
		return 0, errLife(field + ".seconds")
	}
	return time.Duration(life.Seconds) * time.Second, nil
}

// ReadBatchLine reads one request of a batch for an API: its id and its body.
func ReadBatchLine(line []byte, api string) (id string, body []byte, err error) {
	switch { // As a request of its own is checked before it is parsed.
	case !utf8.Valid(line):
		return "", nil, apierr.Invalid("body", "must be UTF-8 (RFC 8259, section 8.1)")
	case jsoncheck.TooMany(line):
		return "", nil, apierr.Invalid("body", jsoncheck.RuleContainers)
	}
	o, err := dialect.Parse(line)
	if err != nil {
		return "", nil, err
	}
	var method, at string
	for _, m := range []struct {
		name string
		into *string
	}{{"custom_id", &id}, {"method", &method}, {"url", &at}} {
		if err := o.Take(m.name, m.into); err != nil {
			return "", nil, err
		}
	}
	body = o.Raw("body")
	switch {
	case id == "" || utf8.RuneCountInString(id) > maxCustomID:
		return "", nil, apierr.Invalid("custom_id", fmt.Sprintf("must have 1 to %d characters", maxCustomID))
	case method != "POST":
		return "", nil, apierr.Invalid("method", "must be POST")
	case at != api && "/v1"+at != api:
		return "", nil, apierr.Invalid("url", "must be the endpoint of the batch")
	case len(body) == 0 || body[0] != '{':
		return "", nil, apierr.Invalid("body", "must be a JSON object")
	}
	return id, body, nil
}

// ReadBatchPage reads the query of a list of batches.
func ReadBatchPage(q url.Values) (batchjob.Page, error) {
	limit, err := pageLimit(q, mostBatches, fewBatches)
	return batchjob.Page{After: q.Get("after"), Limit: limit}, err
}

// BatchObject is a batch as the API shows it.
type BatchObject struct {
	ID               string          `json:"id"`
	Object           string          `json:"object"`
	Endpoint         string          `json:"endpoint"`
	Model            string          `json:"model,omitzero"`
	Errors           *batchErrors    `json:"errors"`
	InputFileID      string          `json:"input_file_id"`
	CompletionWindow string          `json:"completion_window"`
	Status           string          `json:"status"`
	OutputFileID     *string         `json:"output_file_id"`
	ErrorFileID      *string         `json:"error_file_id"`
	CreatedAt        int64           `json:"created_at"`
	InProgressAt     *int64          `json:"in_progress_at"`
	ExpiresAt        int64           `json:"expires_at"`
	FinalizingAt     *int64          `json:"finalizing_at"`
	CompletedAt      *int64          `json:"completed_at"`
	FailedAt         *int64          `json:"failed_at"`
	ExpiredAt        *int64          `json:"expired_at"`
	CancellingAt     *int64          `json:"cancelling_at"`
	CancelledAt      *int64          `json:"cancelled_at"`
	RequestCounts    batchCounts     `json:"request_counts"`
	Usage            *batchUsage     `json:"usage,omitzero"`
	Metadata         json.RawMessage `json:"metadata"`
}

type batchErrors struct {
	Object string         `json:"object"`
	Data   []batchProblem `json:"data"`
}

type batchProblem struct {
	Code    string  `json:"code"`
	Line    *int    `json:"line"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

type batchCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

type batchUsage struct {
	InputTokens         int64            `json:"input_tokens"`
	InputTokensDetails  map[string]int64 `json:"input_tokens_details"`
	OutputTokens        int64            `json:"output_tokens"`
	OutputTokensDetails map[string]int64 `json:"output_tokens_details"`
	TotalTokens         int64            `json:"total_tokens"`
}

// NewBatch returns a job as the API shows it.
func NewBatch(j *batchjob.Job) BatchObject {
	b := BatchObject{
		ID: j.ID, Object: "batch", Endpoint: j.API, Model: j.Model, InputFileID: j.Input, CompletionWindow: window, Status: string(j.Shown()),
		CreatedAt: j.CreatedAt.Unix(), InProgressAt: unix(j.StartedAt), ExpiresAt: j.CreatedAt.Add(batchjob.Window).Unix(),
		FinalizingAt: unix(j.FinalizingAt), CancellingAt: unix(j.CancellingAt), Metadata: j.Metadata,
		RequestCounts: batchCounts{j.Count, min(j.Report.Answered, j.Count), min(j.Report.Failed, j.Count)},
	}
	if !j.Ended() {
		return b
	}
	b.Errors, b.OutputFileID, b.ErrorFileID = problemsOf(j), present(j.Output), present(j.Errors)
	ends := map[provider.BatchStatus]**int64{
		provider.BatchCompleted: &b.CompletedAt, provider.BatchFailed: &b.FailedAt,
		provider.BatchExpired: &b.ExpiredAt, provider.BatchCancelled: &b.CancelledAt,
	}
	if end := ends[j.Status]; end != nil {
		*end = unix(j.EndedAt)
	}
	if j.Results != nil {
		answered, all := j.Results[provider.BatchAnswered], 0
		for _, n := range j.Results {
			all += n
		}
		b.RequestCounts = batchCounts{j.Count, answered, all - answered}
		b.Usage = &batchUsage{
			j.Usage.Prompt(),
			map[string]int64{"cached_tokens": j.Usage.CacheRead},
			j.Usage.Completion(),
			map[string]int64{"reasoning_tokens": j.Usage.Reasoning},
			j.Usage.Prompt() + j.Usage.Completion(),
		}
	}
	return b
}

func problemsOf(j *batchjob.Job) *batchErrors {
	if len(j.Problems) == 0 {
		return nil
	}
	list := &batchErrors{Object: "list"}
	for _, p := range j.Problems {
		shown := batchProblem{Code: p.Code, Message: p.Message, Param: present(p.Param)}
		if p.Line > 0 {
			shown.Line = &p.Line
		}
		list.Data = append(list.Data, shown)
	}
	return list
}

// present returns a text that may be absent.
func present(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// unix returns a time in seconds; nil for the zero time.
func unix(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}
