package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// Batches describes the batch jobs of a dialect to the suite.
type Batches struct {
	// New returns a provider that runs jobs.
	New func(baseURL string, transport http.RoundTripper) (provider.BatchRunner, error)
	// API is the API that the jobs are of, and Body a request to it.
	API, Body string
	// Vendor returns the vendor's API. It refuses to cancel a job that has ended.
	Vendor func(store *BatchStore) http.Handler
	// Answered returns a line of results with a usage, which is JSON or empty for none, and Failed one of a request that
	// failed.
	Answered func(customID, usage string) string
	Failed   func(customID string) string
	// Usage is a usage as the vendor writes it, and Want what it means.
	Usage string
	Want  provider.Usage
	// HidesMark reports that only the results of a job show its mark.
	HidesMark bool
}

// RunBatches runs the suite.
func RunBatches(t *testing.T, b Batches) {
	t.Helper()
	t.Run("life", func(t *testing.T) { b.life(t, nil) })
	t.Run("life in one-byte pieces", func(t *testing.T) { b.life(t, onePiece) })
	t.Run("other APIs", b.otherAPIs)
	t.Run("jobs that are not valid", b.invalid)
	t.Run("found", b.found)
	t.Run("unclear creation", b.unclear)
	t.Run("refused creation", b.refused)
	t.Run("cancelled", b.cancelled)
	t.Run("refusals", b.refusals)
	t.Run("hostile results", b.hostileResults)
	t.Run("hostile ids", b.hostileIDs)
	t.Run("never ending", b.neverEnding)
}

// create makes a job of n requests.
func (b Batches) create(t *testing.T, v *batchVendor, n int) *provider.BatchReport {
	t.Helper()
	report, err := v.CreateBatch(t.Context(), Credential(), b.job(n))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return report
}

// read returns the state of a job.
func (b Batches) read(t *testing.T, v *batchVendor, id string) *provider.BatchReport {
	t.Helper()
	report, err := v.ReadBatch(t.Context(), Credential(), id)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return report
}

// end ends a job with an answer to each of its requests.
func (b Batches) end(v *batchVendor, id string) {
	v.store.Update(id, func(job *StoredBatch) {
		job.Status = provider.BatchCompleted
		for _, line := range job.Lines {
			job.Answered = append(job.Answered, b.Answered(line.CustomID, b.Usage))
		}
	})
}

type outcome struct {
	Answered bool
	Usage    *provider.Usage
	Line     string
}

// results returns the results of a job by their custom ids.
func results(ctx context.Context, v provider.BatchRunner, report *provider.BatchReport) (map[string]outcome, error) {
	got := make(map[string]outcome)
	err := v.BatchResults(ctx, Credential(), nil, report, func(r provider.BatchResult) error {
		if _, twice := got[r.CustomID]; twice {
			return errors.New("a result comes twice: " + r.CustomID)
		}
		got[r.CustomID] = outcome{r.Outcome == provider.BatchAnswered, r.Usage, string(r.Line)}
		return nil
	})
	return got, err
}

// life follows a job from its creation to its deletion. Results come in another order, one of them without usage.
func (b Batches) life(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) {
	t.Helper()
	v := b.serve(t, wrap)
	made := b.create(t, v, 3)
	if made.ID == "" || made.Status.Ended() {
		t.Fatalf("created %+v, want a job with an id that has not ended", made)
	}
	stored, ok := v.store.Job(made.ID)
	if !ok {
		t.Fatalf("the vendor has no job %q", made.ID)
	}
	for i, line := range stored.Lines {
		want := b.line(i)
		if diff := cmp.Diff(compact(t, wire.Override(want.Body, wire.Member{Name: "model", Value: strconv.Quote(theirs)})), compact(t, line.Body)); line.CustomID != want.CustomID || diff != "" {
			t.Errorf("request %d is of %q, want %q; its body (-want +got):\n%s", i, line.CustomID, want.CustomID, diff)
		}
	}
	if report := b.read(t, v, made.ID); report.Status != provider.BatchInProgress {
		t.Errorf("the job is %s, want in progress", report.Status)
	}
	lines := []string{b.Answered(stored.Lines[2].CustomID, ""), b.Answered(stored.Lines[0].CustomID, b.Usage), b.Failed(stored.Lines[1].CustomID)}
	v.store.Update(made.ID, func(job *StoredBatch) {
		job.Status, job.Answered, job.Failed = provider.BatchCompleted, lines[:2], lines[2:]
	})
	report := b.read(t, v, made.ID)
	if report.Status != provider.BatchCompleted || report.Answered != 2 || report.Failed != 1 {
		t.Errorf("the job is %s with %d answered and %d failed, want completed, 2 and 1", report.Status, report.Answered, report.Failed)
	}
	got, err := results(t.Context(), v, report)
	if err != nil {
		t.Fatalf("results: %v", err)
	}
	want := map[string]outcome{
		stored.Lines[0].CustomID: {true, &b.Want, lines[1]}, stored.Lines[1].CustomID: {false, nil, lines[2]}, stored.Lines[2].CustomID: {true, nil, lines[0]},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	enough := errors.New("enough")
	if err := v.BatchResults(t.Context(), Credential(), nil, report, func(provider.BatchResult) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("results that the caller ends: %v, want its own error", err)
	}
	for _, which := range []string{"first", "second"} {
		if err := v.DeleteBatch(t.Context(), Credential(), report); err != nil {
			t.Errorf("%s deletion: %v", which, err)
		}
	}
	if n := v.store.Files(); n != 0 {
		t.Errorf("%d files are left", n)
	}
	_, err = results(t.Context(), v, report)
	_ = failure(t, err)
}

// compact returns JSON without space.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Errorf("%s is no JSON: %v", text, err)
	}
	return JSON(value)
}

func (b Batches) otherAPIs(t *testing.T) {
	v := b.serve(t, nil)
	if !v.RunsBatches(b.API) {
		t.Errorf("jobs of %s are not run", b.API)
	}
	for _, api := range []string{"", "/v1/images/generations", "/v1/nothing", "v1/messages"} {
		if v.RunsBatches(api) {
			t.Errorf("jobs of %q are run", api)
		}
		job := b.job(1)
		job.API = api
		if _, err := v.CreateBatch(t.Context(), Credential(), job); !failure(t, err).Unsupported {
			t.Errorf("a job of %q: %v, want that it is not supported", api, err)
		}
	}
	if len(v.called()) > 0 {
		t.Errorf("the vendor was called: %s", v.called())
	}
}

// invalid checks that a job that a vendor would misread is not sent.
func (b Batches) invalid(t *testing.T) {
	broken := errors.New("the lines can't be read")
	with := func(line provider.BatchLine) iter.Seq2[provider.BatchLine, error] {
		return func(yield func(provider.BatchLine, error) bool) { yield(line, nil) }
	}
	for name, change := range map[string]func(job *provider.BatchJob){
		"no mark":             func(job *provider.BatchJob) { job.Mark = "" },
		"a mark with a quote": func(job *provider.BatchJob) { job.Mark = `"` },
		"too few lines":       func(job *provider.BatchJob) { job.Count = 2 },
		"too many lines":      func(job *provider.BatchJob) { job.Lines = b.lines(2, nil) },
		"no line":             func(job *provider.BatchJob) { job.Count, job.Lines = 0, b.lines(0, nil) },
		"a custom id with a quote": func(job *provider.BatchJob) {
			job.Lines = with(provider.BatchLine{CustomID: mark + `"`, Body: b.line(0).Body})
		},
		"a custom id of another": func(job *provider.BatchJob) {
			job.Lines = with(provider.BatchLine{CustomID: "other-1", Body: b.line(0).Body})
		},
		"a body that is no JSON": func(job *provider.BatchJob) {
			job.Lines = with(provider.BatchLine{CustomID: mark + "-1", Body: []byte(`{}}`)})
		},
		"a body that is a list": func(job *provider.BatchJob) {
			job.Lines = with(provider.BatchLine{CustomID: mark + "-1", Body: []byte(`[]`)})
		},
		"a body without a bound": func(job *provider.BatchJob) {
			job.Lines = with(provider.BatchLine{CustomID: mark + "-1", Body: []byte(`{"a":"` + strings.Repeat("x", 65<<20) + `"}`)})
		},
		"broken lines": func(job *provider.BatchJob) { job.Lines = b.lines(1, broken) },
	} {
		t.Run(name, func(t *testing.T) {
			v := b.serve(t, nil)
			job := b.job(1)
			change(job)
			_, err := v.CreateBatch(t.Context(), Credential(), job)
			if name == "broken lines" {
				if !errors.Is(err, broken) {
					t.Errorf("error %v, want that of the lines", err)
				}
			} else if e := failure(t, err); e.Class != apierr.ClassPolicy || errors.Is(err, provider.ErrBatchUndecided) {
				t.Errorf("error %v, want a refusal", err)
			}
			if len(v.called()) > 0 {
				t.Errorf("the vendor was called: %s", v.called())
			}
		})
	}
}

func (b Batches) cancelled(t *testing.T) {
	v := b.serve(t, nil)
	made := b.create(t, v, 2)
	if err := v.CancelBatch(t.Context(), Credential(), made.ID); err != nil {
		t.Errorf("a job that runs: %v", err)
	}
	if report := b.read(t, v, made.ID); report.Status != provider.BatchCancelling {
		t.Errorf("the job is %s, want cancelling", report.Status)
	}
	v.intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			reply(http.StatusConflict, asJSON, "{}")(w, r)
		}
		return strings.HasSuffix(r.URL.Path, "/cancel")
	})
	if err := v.CancelBatch(t.Context(), Credential(), made.ID); err != nil {
		t.Errorf("a job that is being cancelled: %v", err)
	}
	v.store.Update(made.ID, func(job *StoredBatch) { job.Status = provider.BatchInProgress })
	if err := v.CancelBatch(t.Context(), Credential(), made.ID); failure(t, err).Status != http.StatusConflict {
		t.Errorf("a job that the vendor does not cancel: %v, want its refusal", err)
	}
	v.intercept(nil)
	v.store.Update(made.ID, func(job *StoredBatch) { job.Status = provider.BatchCancelled })
	if err := v.CancelBatch(t.Context(), Credential(), made.ID); err != nil {
		t.Errorf("a job that has ended: %v", err)
	}
	if report := b.read(t, v, made.ID); report.Status != provider.BatchCancelled {
		t.Errorf("the job is %s, want cancelled", report.Status)
	}
	if err := v.CancelBatch(t.Context(), Credential(), "batch_unknown"); !errors.Is(err, provider.ErrNoBatch) {
		t.Errorf("an unknown job: %v, want that there is none", err)
	}
	if _, err := v.ReadBatch(t.Context(), Credential(), "batch_unknown"); !errors.Is(err, provider.ErrNoBatch) {
		t.Errorf("reading an unknown job: %v, want that there is none", err)
	}
}

// calls are all calls about a job.
func (b Batches) calls(ctx context.Context, p provider.BatchRunner) map[string]func() error {
	report := &provider.BatchReport{ID: "batch_1", Status: provider.BatchCompleted, Input: "file-1", Output: "file-2", Errors: "file-3"}
	return map[string]func() error{
		"create":  func() error { _, err := p.CreateBatch(ctx, Credential(), b.job(1)); return err },
		"find":    func() error { _, err := p.FindBatch(ctx, Credential(), search(1, time.Now())); return err },
		"read":    func() error { _, err := p.ReadBatch(ctx, Credential(), report.ID); return err },
		"cancel":  func() error { return p.CancelBatch(ctx, Credential(), report.ID) },
		"results": func() error { _, err := results(ctx, p, report); return err },
		"delete":  func() error { return p.DeleteBatch(ctx, Credential(), report) },
	}
}

// refusals checks that the errors of all calls have the class of their status, and are no states of the job.
func (b Batches) refusals(t *testing.T) {
	for status, want := range map[int]apierr.Class{
		http.StatusUnauthorized: apierr.ClassAuth, http.StatusTooManyRequests: apierr.ClassRateLimit, http.StatusBadGateway: apierr.ClassServerError,
		http.StatusFound: apierr.ClassServerError, http.StatusNotFound: apierr.ClassPolicy,
	} {
		p, err := b.New(baseURL, Canned(status, http.Header{"Location": {"/elsewhere"}}, "<html>"+Key+"</html>"))
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range b.calls(t.Context(), p) {
			t.Run(name+" "+strconv.Itoa(status), func(t *testing.T) {
				err := call()
				if name == "delete" && status == http.StatusNotFound {
					if err != nil {
						t.Errorf("error %v, want none", err)
					}
					return
				}
				if e := failure(t, err); e.Class != want || e.Status != status || errors.Is(err, provider.ErrNoBatch) {
					t.Errorf("error %v, want class %s", err, want)
				}
			})
		}
	}
}
