package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/rpc"
)

// BatchJobs keeps batch jobs; see batchjob.Manager.
type BatchJobs interface {
	Create(ctx context.Context, j *batchjob.Job, requests []batchjob.Request, reserve *batchjob.Reservation) error
	Get(ctx context.Context, s batchjob.Scope, f batchjob.Form, id string) (*batchjob.Job, error)
	List(ctx context.Context, s batchjob.Scope, f batchjob.Form, p batchjob.Page) (jobs []*batchjob.Job, more bool, err error)
	Cancel(ctx context.Context, s batchjob.Scope, f batchjob.Form, id string) (*batchjob.Job, error)
	Delete(ctx context.Context, s batchjob.Scope, f batchjob.Form, id string) error
}

// batchChecks is how many batches a replica checks at once, of which one organization may have checkShare percent: each
// takes the memory of its file.
const batchChecks, checkShare = 4, 75

// batchServer serves batches in the forms of OpenAI and Anthropic.
type batchServer struct {
	inferences *inferenceServer
	files      Files
	jobs       BatchJobs
	checks     *fairshare.Pool
}

// mountBatches registers the paths of batches on the server.
func mountBatches(server *rpc.Server, inferences *inferenceServer, files Files, jobs BatchJobs) {
	s := &batchServer{inferences, files, jobs, fairshare.New(batchChecks, checkShare)}
	const method = gatewayv1.InferenceService_Chat_FullMethodName
	for _, root := range []string{"/v1/", azureRoot} {
		server.Handle("POST", root+"batches", method, s.create)
		server.Handle("GET", root+"batches", method, s.list)
		server.Handle("GET", root+"batches/{batch_id}", method, s.get)
		server.Handle("POST", root+"batches/{batch_id}/cancel", method, s.cancel)
	}
	server.Handle("POST", azureDeployment+"/batches", method, deployed(s.create))
	s.mountMessageBatches(server, method)
}

// batchForms are the forms of the requests of a batch, by the path of their API; see inferenceServer.parse.
var batchForms = map[string]string{
	"/v1/chat/completions": formOpenAI, "/v1/responses": formResponses, "/v1/embeddings": formOpenAIEmbeddings,
	"/v1/completions": "openai_completions", "/v1/moderations": "openai_moderations", "/v1/messages": formAnthropic,
}

// bodyName is the name of a request's body in a form.
var bodyName = map[batchjob.Form]string{batchjob.FormOpenAI: "body", batchjob.FormAnthropic: "params"}

// batchLine is one request of a batch: the caller's id and the body. At is where it stands, for errors.
type batchLine struct {
	id   string
	body []byte
	at   string
}

// scope returns whose batches a request is about. extension is what its body says to the gateway; nil for nothing.
func (s *batchServer) scope(r *http.Request, extension []byte) (conversation.Scope, error) {
	if s.jobs == nil {
		return conversation.Scope{}, errNoFiles
	}
	return (&fileServer{s.files}).scope(r, extension)
}

// batchError returns an error of the store as the caller's, if it is one.
func batchError(err error) error {
	refused, isRefusal := errors.AsType[*apierr.Error](err)
	switch {
	case err == nil:
		return nil
	case isRefusal:
		return refused
	case errors.Is(err, batchjob.ErrNotFound):
		return apierr.New(apierr.KindNotFound, "batch_not_found", "batch_id: no such batch is stored")
	case errors.Is(err, batchjob.ErrUnderWay):
		return apierr.New(apierr.KindConflict, apierr.ReasonConflict, "batch_id: the batch has not ended; cancel it first")
	case errors.Is(err, batchjob.ErrFull):
		return tooMany(fmt.Sprintf("%d batches are under way", batchjob.MaxUnderWay))
	}
	return apierr.Unavailable("batches can't be read or stored at the moment", err)
}

func (s *batchServer) create(w http.ResponseWriter, r *http.Request) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	wanted, err := openai.ReadBatch(body)
	if err != nil {
		return err
	}
	scope, err := s.scope(r, wanted.Extension)
	if err != nil {
		return err
	}
	input, err := s.files.Get(r.Context(), scope, wanted.InputFile)
	if err != nil {
		return fileError("input_file_id", err)
	}
	if input.Purpose != file.PurposeBatch {
		return apierr.Invalid("input_file_id", "must be a file of the purpose batch")
	}
	j := batchjob.NewJob(scope, batchjob.FormOpenAI, time.Now())
	j.API, j.Input, j.Metadata, j.OutputLife = wanted.API, wanted.InputFile, wanted.Metadata, wanted.OutputLife
	if err := s.submit(r, j, wanted.Extension, fileLines(s.files.Read(r.Context(), scope, input), wanted.API), nil); err != nil {
		return err
	}
	return writeJSON(w, openai.NewBatch(j))
}

// fileLines returns the requests of a file.
func fileLines(pieces iter.Seq2[[]byte, error], api string) iter.Seq2[batchLine, error] {
	return func(yield func(batchLine, error) bool) {
		n := 0
		for line, err := range batchjob.Lines(pieces) {
			n++
			read := batchLine{at: "line " + strconv.Itoa(n)}
			if err != nil {
				yield(read, fileError("input_file_id", err))
				return
			}
			if read.id, read.body, err = openai.ReadBatchLine(line, api); !yield(read, err) || err != nil {
				return
			}
		}
	}
}

// maxExtension bounds what a batch says to the gateway, in bytes: each of its requests is read with it.
const maxExtension = 4 << 10

// submit checks the requests of a job, and stores it with what they may cost. prepare, unless it is nil, runs between.
func (s *batchServer) submit(r *http.Request, j *batchjob.Job, extension []byte, lines iter.Seq2[batchLine, error], prepare func() error) error {
	if len(extension) > maxExtension {
		return apierr.Invalid(dialect.Extension, fmt.Sprintf("must have at most %d bytes", maxExtension))
	}
	if !s.checks.Acquire(j.Organization, 1) {
		return tooMany("several batches are being checked")
	}
	defer s.checks.Release(j.Organization, 1)
	c := batchCheck{server: s, job: j, extension: extension, raw: rawOfHTTP(r, batchForms[j.API])}
	plan, err := s.inferences.engine.PlanBatch(r.Context(), inference.BatchLimit{API: j.API, Most: batchjob.MaxRequests, Body: bodyName[j.Form]}, c.requests(r.Context(), lines))
	if err != nil {
		return c.located(err)
	}
	j.Policy, j.Count = plan.Policy, len(plan.Requests)
	for _, t := range plan.Targets {
		j.Targets = append(j.Targets, batchjob.Target(t))
	}
	if j.Model == policy.DefaultModel { // The requests name none.
		j.Model = plan.Targets[0].Model
	}
	for i, bound := range plan.Requests {
		c.bounds[i].Input, c.bounds[i].MostInput, c.bounds[i].MostOutput = bound.Input, bound.MostInput, bound.MostOutput
	}
	var reserve *batchjob.Reservation
	if plan.Reserves {
		j.Reserved, reserve = plan.Worst, &batchjob.Reservation{Worst: plan.Worst, Calls: j.Count, KeyBudget: c.budget}
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			return err
		}
	}
	return batchError(plan.Explain(s.jobs.Create(r.Context(), j, c.bounds, reserve)))
}

// batchCheck reads the requests of one batch.
type batchCheck struct {
	server    *batchServer
	job       *batchjob.Job
	extension []byte
	raw       trace.RawRequest
	// at is where the present request stands.
	at     string
	bounds []batchjob.Request
	known  map[string]bool
	// budget is that of the API key.
	budget keyterm.Budget
}

// requests returns the requests of a batch as the pipeline's.
func (c *batchCheck) requests(ctx context.Context, lines iter.Seq2[batchLine, error]) iter.Seq2[*inference.Request, error] {
	c.known = make(map[string]bool)
	return func(yield func(*inference.Request, error) bool) {
		for line, err := range lines {
			c.at = line.at
			var request *inference.Request
			if err == nil {
				if request, err = c.request(ctx, &line); err != nil {
					err, c.at = placed(c.at, err), ""
				}
			}
			if !yield(request, err) || err != nil {
				return
			}
		}
	}
}

func (c *batchCheck) request(ctx context.Context, line *batchLine) (*inference.Request, error) {
	if c.known[line.id] {
		return nil, apierr.Invalid("custom_id", "a request before it has the same")
	}
	c.known[line.id] = true
	e, err := readExtension(c.extension, c.raw.Header)
	if err != nil {
		return nil, err
	}
	raw := c.raw
	if raw.Body, err = c.body(line.body); err != nil {
		return nil, err
	}
	r, err := c.server.inferences.parse(ctx, raw, e.RunID)
	switch {
	case err != nil:
		return nil, within(bodyName[c.job.Form], err)
	case r.Locale != "":
		return nil, apierr.Invalid("locale", "is not possible in a batch")
	}
	if len(c.bounds) == 0 {
		j := c.job
		j.Model, j.RequestID, j.Key, j.Service, j.Run = r.Route.Model, r.ID, r.Key, r.Service, r.Run
		j.KeyOrigin, c.budget = r.KeyTerms.Key, r.KeyTerms.Budget
		j.User, j.Tags = r.User, r.Tags
	}
	c.bounds = append(c.bounds, batchjob.Request{ID: line.id})
	return r, nil
}

// body returns the body of a request with what the batch says to the gateway.
func (c *batchCheck) body(body []byte) ([]byte, error) {
	for _, name := range []string{"stream", "background"} {
		if gjson.GetBytes(body, name).Bool() {
			return nil, apierr.Invalid(bodyName[c.job.Form]+"."+name, "is not possible in a batch")
		}
	}
	if gjson.GetBytes(body, dialect.Extension).Exists() {
		return nil, apierr.Invalid(bodyName[c.job.Form]+"."+dialect.Extension, "belongs to the batch, not to one of its requests")
	}
	switch {
	case len(partsWithFile(body)) > 0: // The vendor gets the requests as they are.
		return nil, apierr.Invalid(bodyName[c.job.Form], "names a stored file by its id, which is not possible in a batch; send its content")
	case c.extension == nil:
		return body, nil
	}
	return sjson.SetRawBytes(body, dialect.Extension, c.extension)
}

// located returns an error with the place of the request that it is about, if it is about one.
func (c *batchCheck) located(err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind != apierr.KindInvalid && e.Reason != inference.ReasonApprovalRequired || c.at == "" {
		return err
	}
	return placed(c.at, err)
}

// placed returns an error of a request with its place, if it is the caller's.
func placed(at string, err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind.HTTPStatus()/100 != 4 {
		return err
	}
	located := *e
	located.Text = at + ": " + e.Text
	return &located
}

func (s *batchServer) list(w http.ResponseWriter, r *http.Request) error {
	scope, err := s.scope(r, nil)
	if err != nil {
		return err
	}
	page, err := openai.ReadBatchPage(r.URL.Query())
	if err != nil {
		return err
	}
	jobs, more, err := s.jobs.List(r.Context(), scope, batchjob.FormOpenAI, page)
	if err != nil {
		return batchError(err)
	}
	shown := make([]openai.BatchObject, len(jobs))
	for i, j := range jobs {
		shown[i] = openai.NewBatch(j)
	}
	return writeJSON(w, openai.NewList(shown, more, func(b openai.BatchObject) string { return b.ID }))
}

func (s *batchServer) get(w http.ResponseWriter, r *http.Request) error {
	scope, err := s.scope(r, nil)
	if err != nil {
		return err
	}
	j, err := s.jobs.Get(r.Context(), scope, batchjob.FormOpenAI, r.PathValue("batch_id"))
	if err != nil {
		return batchError(err)
	}
	costHeaders(w.Header(), j)
	return writeJSON(w, openai.NewBatch(j))
}

// costHeaders says who has run a job that has ended, and what it cost.
func costHeaders(h http.Header, j *batchjob.Job) {
	if !j.Ended() || j.Provider == "" {
		return
	}
	h.Set(headerAskedProvider, j.Provider)
	h.Set(headerCost, j.Cost.InCents())
	h.Set(headerPrompt, strconv.FormatInt(j.Usage.Prompt(), 10))
	h.Set(headerCompletion, strconv.FormatInt(j.Usage.Completion(), 10))
	h.Set(headerEstimated, strconv.FormatBool(j.Estimated))
}

func (s *batchServer) cancel(w http.ResponseWriter, r *http.Request) error {
	scope, err := s.scope(r, nil)
	if err != nil {
		return err
	}
	j, err := s.jobs.Cancel(r.Context(), scope, batchjob.FormOpenAI, r.PathValue("batch_id"))
	if err != nil {
		return batchError(err)
	}
	return writeJSON(w, openai.NewBatch(j))
}
