package openai

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// The paths of batch jobs and of their files. Source: OpenAI API reference, "Batch" and "Files"; Azure OpenAI REST API
// reference, "Batch".
const (
	batches = "/batches"
	files   = "/files"
)

// batchVersion begins the names of the APIs of jobs.
const batchVersion = "/v1"

// markKey is the name of the metadata that holds a job's mark.
const markKey = "switchyard"

// discardTime bounds the deletion of a file whose job was refused.
const discardTime = 10 * time.Second

// RunsBatches implements provider.BatchRunner.
func (p *Provider) RunsBatches(api string) bool {
	switch api {
	case batchVersion + chatCompletions, batchVersion + embeddings, batchVersion + PathCompletions, batchVersion + PathModerations:
		return p.traits.batches
	case batchVersion + responses:
		return p.traits.batches && p.traits.responses
	}
	return false
}

// batchURL returns the URL of a job or of a file, which no deployment of Azure's is a part of.
func (p *Provider) batchURL(path string) *url.URL {
	at := *p.base
	at.Path, _, _ = strings.Cut(at.Path, "/deployments/")
	at.Path += path
	return &at
}

// batchAPI returns the server's name of an API. The deployments API of Azure has no version in its paths.
func (p *Provider) batchAPI(api string) string {
	if strings.Contains(p.base.Path, "/deployments/") {
		return strings.TrimPrefix(api, batchVersion)
	}
	return api
}

// CreateBatch implements provider.BatchRunner. The requests are uploaded as a file, which is deleted again where the job is
// refused. It stays where the vendor may have made the job, which would fail without it.
func (p *Provider) CreateBatch(ctx context.Context, credential provider.Credential, job *provider.BatchJob) (*provider.BatchReport, error) {
	if !p.RunsBatches(job.API) {
		return nil, provider.Unsupported("endpoint", "is not one that this provider runs batch jobs of")
	}
	api := p.batchAPI(job.API)
	var fixed []wire.Member
	if api == batchVersion+responses { // The gateway stores what is to be kept.
		fixed = append(fixed, wire.Member{Name: "store", Value: "false"})
	}
	var unsent error
	text, err := wire.EncodeBatch(job, nil, fixed, func(out []byte, line provider.BatchLine) []byte {
		body, failed := p.batchBody(job, p.placeOf(credential), line.Body)
		if unsent == nil {
			unsent = failed
		}
		out = append(append(out, `{"custom_id":"`...), line.CustomID...)
		out = append(append(out, `","method":"POST","url":"`...), api...)
		return append(append(append(out, `","body":`...), body...), "}\n"...)
	})
	if err = cmp.Or(err, unsent); err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	input, err := p.upload(ctx, caller, job.Mark+".jsonl", text)
	if err != nil {
		return nil, err
	}
	report, err := caller.MakeBatch(ctx, p.batchURL(batches), header(nil), batchRequest{
		InputFileID: input, Endpoint: api, CompletionWindow: "24h", Metadata: map[string]string{markKey: job.Mark},
	}, reportReader(caller))
	if err != nil && !errors.Is(err, provider.ErrBatchUndecided) {
		p.discard(ctx, caller, input)
	}
	return report, err
}

// batchBody returns a request of a job without the parts of other vendors' turns that the server would refuse, and with
// an effort that it accepts, as a live call is sent.
func (p *Provider) batchBody(job *provider.BatchJob, at origin, body []byte) (text string, err error) {
	edit, root := wire.NewEditor(wire.ParseView(body))
	edit.Members(root, func(name string, value gjson.Result) bool {
		switch {
		case name == "messages" && job.API == batchVersion+chatCompletions:
			edit.Replace(value, p.repaired(value))
		case name == "reasoning_effort" && job.API == batchVersion+chatCompletions:
			edit.Replace(value, p.acceptedEffort(job.Model, value))
		case name == "reasoning" && job.API == batchVersion+responses:
			edit.Replace(value, p.acceptedReasoning(job.Model, value))
		case name == "input" && job.API == batchVersion+responses:
			var input string
			if input, err = at.input(value); err == nil {
				edit.Replace(value, input)
			}
		}
		return false
	})
	return edit.End(), err
}

type batchRequest struct {
	InputFileID      string            `json:"input_file_id"`
	Endpoint         string            `json:"endpoint"`
	CompletionWindow string            `json:"completion_window"`
	Metadata         map[string]string `json:"metadata"`
}

// upload sends a file of requests and returns its id.
func (p *Provider) upload(ctx context.Context, caller *wire.Caller, name string, text []byte) (string, error) {
	response, err := caller.PostForm(ctx, p.batchURL(files), header(nil), []provider.FormPart{ //nolint:bodyclose // wire.Read closes it.
		{Name: "purpose", Data: []byte("batch")},
		{Name: "file", FileName: name, ContentType: "application/octet-stream", Data: text},
	})
	if err != nil {
		return "", err
	}
	root, err := document(ctx, caller, response)
	if err != nil {
		return "", err
	}
	id, ok := wire.BatchID(root.Get("id"))
	if !ok || id == "" {
		return "", wire.Malformed("the answer holds no id of the file", nil)
	}
	return id, nil
}

// discard deletes a file without a job, though the caller may have left. A file that stays is deleted by the vendor in time.
func (p *Provider) discard(ctx context.Context, caller *wire.Caller, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	_ = caller.Delete(ctx, p.batchURL(files+"/"+id), header(nil))
}

// FindBatch implements provider.BatchRunner.
func (p *Provider) FindBatch(ctx context.Context, credential provider.Credential, search provider.BatchSearch) (*provider.BatchReport, error) {
	caller := p.caller.With(credential)
	list := wire.BatchList{
		Page: func(after string) (gjson.Result, error) {
			at := p.batchURL(batches)
			query := at.Query()
			query.Set("limit", strconv.Itoa(wire.BatchPage))
			if after != "" {
				query.Set("after", after)
			}
			at.RawQuery = query.Encode()
			response, err := caller.Call(ctx, http.MethodGet, at, header(nil)) //nolint:bodyclose // document closes it.
			if err != nil {
				return gjson.Result{}, err
			}
			return document(ctx, caller, response)
		},
		Created: func(job gjson.Result) time.Time {
			if seconds := count(job.Get("created_at")); seconds > 0 {
				return time.Unix(seconds, 0)
			}
			return time.Time{}
		},
	}
	var found *provider.BatchReport
	err := list.Since(search.Since, func(job gjson.Result) (done bool, err error) {
		if job.Get("metadata."+markKey).Str != search.Mark {
			return false, nil
		}
		found, err = reportOf(caller, job)
		return true, err
	})
	if err == nil && found == nil {
		err = provider.ErrNoBatch
	}
	return found, err
}

// ReadBatch implements provider.BatchRunner.
func (p *Provider) ReadBatch(ctx context.Context, credential provider.Credential, id string) (*provider.BatchReport, error) {
	if !wire.IsVendorID(id) {
		return nil, wire.NotVendorID()
	}
	caller := p.caller.With(credential)
	report, err := caller.ReadBatch(ctx, p.batchURL(batches+"/"+id), header(nil), reportReader(caller))
	if err == nil && report.ID != id {
		return nil, wire.Malformed("the answer is about another batch job", nil)
	}
	return report, err
}

// CancelBatch implements provider.BatchRunner.
func (p *Provider) CancelBatch(ctx context.Context, credential provider.Credential, id string) error {
	if !wire.IsVendorID(id) {
		return wire.NotVendorID()
	}
	at := p.batchURL(batches + "/" + id + "/cancel")
	return p.caller.With(credential).CancelBatch(ctx, at, header(nil), func() (*provider.BatchReport, error) {
		return p.ReadBatch(ctx, credential, id)
	})
}

// DeleteBatch implements provider.BatchRunner: it deletes the job's files. The vendor keeps the job itself.
func (p *Provider) DeleteBatch(ctx context.Context, credential provider.Credential, job *provider.BatchReport) error {
	caller := p.caller.With(credential)
	var first error
	for _, id := range []string{job.Input, job.Output, job.Errors} {
		if id == "" {
			continue
		}
		var err error = wire.NotVendorID()
		if wire.IsVendorID(id) {
			err = caller.Delete(ctx, p.batchURL(files+"/"+id), header(nil))
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// document reads a whole answer that is a JSON object.
func document(ctx context.Context, caller *wire.Caller, response *http.Response) (gjson.Result, error) {
	text, err := wire.Read(ctx, response)
	if err != nil {
		return gjson.Result{}, err
	}
	if err := parse(caller, response.StatusCode, text, func(string, gjson.Result) {}); err != nil {
		return gjson.Result{}, err
	}
	return wire.ParseView(text), nil
}

func reportReader(caller *wire.Caller) wire.ReadReport {
	return func(ctx context.Context, response *http.Response) (*provider.BatchReport, error) {
		job, err := document(ctx, caller, response)
		if err != nil {
			return nil, err
		}
		return reportOf(caller, job)
	}
}

// maxProblems is the largest number of problems of a report.
const maxProblems = 20

// reportOf reads a job.
func reportOf(caller *wire.Caller, job gjson.Result) (*provider.BatchReport, error) {
	report := &provider.BatchReport{
		Status:   statusOf(job.Get("status").Str),
		Answered: int(count(job.Get("request_counts.completed"))),
		Failed:   int(count(job.Get("request_counts.failed"))),
	}
	for name, id := range map[string]*string{
		"id": &report.ID, "input_file_id": &report.Input, "output_file_id": &report.Output, "error_file_id": &report.Errors,
	} {
		var ok bool
		if *id, ok = wire.BatchID(job.Get(name)); !ok {
			return nil, wire.Malformed("the batch job's "+name+" is not valid", nil)
		}
	}
	if report.ID == "" || report.Status == "" {
		return nil, wire.Malformed("the answer holds no batch job", nil)
	}
	each(job.Get("errors.data"), func(item gjson.Result) {
		if len(report.Problems) < maxProblems {
			report.Problems = append(report.Problems, provider.BatchProblem{
				Code: caller.Shown(wire.Text(item.Get("code"))), Message: caller.Shown(wire.Text(item.Get("message"))),
				Param: caller.Shown(wire.Text(item.Get("param"))), Line: int(count(item.Get("line"))),
			})
		}
	})
	return report, nil
}

// statusOf returns a state; one that is not known here is not known to be an end.
func statusOf(name string) provider.BatchStatus {
	switch status := provider.BatchStatus(name); status {
	case "", provider.BatchValidating, provider.BatchInProgress, provider.BatchFinalizing, provider.BatchCancelling,
		provider.BatchCompleted, provider.BatchFailed, provider.BatchExpired, provider.BatchCancelled:
		return provider.BatchStatus(strings.Clone(name))
	}
	return provider.BatchInProgress
}
