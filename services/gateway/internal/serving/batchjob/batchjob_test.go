package batchjob_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// tenTwo is a usage of ten tokens in and two out: at one, in a batch, 20 pico-USD and as much.
var tenTwo = provider.Usage{Input: 10, Output: 2}

const tenTwoCost = 20e6

// A job goes to its first vendor with its own ids and the vendor's model, is watched until it has ended, billed by request
// and given to its caller with the caller's ids and model.
func TestJob(t *testing.T) {
	f := open(t)
	f.one.results = func(ids []string) []provider.BatchResult {
		return []provider.BatchResult{answer(ids[2], &tenTwo), failure(ids[1]), answer(ids[0], &tenTwo)}
	}
	j := f.create(t, 3, nil)
	if shown := f.get(t, j.ID).Shown(); shown != provider.BatchValidating {
		t.Errorf("shown as %s before it was made", shown)
	}
	f.one.status = provider.BatchInProgress
	f.turn(t, 2)
	if shown := f.get(t, j.ID).Shown(); shown != provider.BatchInProgress {
		t.Errorf("shown as %s while the vendor runs it", shown)
	}
	for id, lines := range f.one.created {
		mark := strings.TrimPrefix(id, "v-")
		const image = `,"url":"data:image/jpeg;base64,/9j/4AAQ"} for m-one`
		want := map[string]string{mark + "-0": `{"n":0` + image, mark + "-1": `{"n":1` + image, mark + "-2": `{"n":2` + image}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("the vendor's lines (-want +got):\n%s", diff)
		}
	}
	f.one.status = provider.BatchCompleted
	f.turn(t, 4)
	got := f.get(t, j.ID)
	wantOutput := `{"custom_id":"mine-2","response":{"body":{"model":"asked"},"status_code":200}}
{"custom_id":"mine-0","response":{"body":{"model":"asked"},"status_code":200}}
`
	if output := f.content(t, got.Output); output != wantOutput {
		t.Errorf("the answers are\n%s\nwant\n%s", output, wantOutput)
	}
	if text := f.content(t, got.Errors); text != `{"custom_id":"mine-1","error":{"code":"x"}}`+"\n" {
		t.Errorf("the errors are %s", text)
	}
	if got.Stage != batchjob.StageEnded || got.Shown() != provider.BatchCompleted || got.Cost != 2*tenTwoCost || got.Estimated || got.Usage.Input != 20 {
		t.Errorf("stage %s, shown %s, cost %d, estimated %t, usage %+v", got.Stage, got.Shown(), got.Cost, got.Estimated, got.Usage)
	}
	if rows, cost := f.billed(t); rows != 2 || cost != 2*tenTwoCost {
		t.Errorf("%d rows for %d are billed", rows, cost)
	}
	if version := testkit.Value[string](t, f.pool, "SELECT DISTINCT price_version FROM ledger_entry WHERE request_id = $1", j.ID); version != "one/m@2025-01-01#batch50" {
		t.Errorf("billed by the price %q", version)
	}
	if n := f.counted(t, "switchyard.gateway.batches", "completed"); n != 1 || f.spent.Load() != 2*tenTwoCost {
		t.Errorf("%d batches for %d are counted", n, f.spent.Load())
	}
	if want := []string{"create by fleet", "read", "read", "results", "delete"}; !slices.Equal(slices.Compact(f.one.calls), slices.Compact(want)) {
		t.Errorf("the vendor was asked to %v", f.one.calls)
	}
}

// A job that a vendor may have made is looked for, and made again only where it is not there.
func TestUnclearCreation(t *testing.T) {
	failed := &provider.Error{Class: apierr.ClassServerError, Status: 502, Text: "bad gateway"}
	unclear := fmt.Errorf("%w: %w", provider.ErrBatchUndecided, failed)
	refused := &provider.Error{Class: apierr.ClassRateLimit, Status: 429, Text: "full"}
	for name, c := range map[string]struct {
		setup    func(f *fixture)
		turns    int
		one, two int // jobs that each has made
		status   provider.BatchStatus
	}{
		"made, though the answer was lost": {func(f *fixture) { f.one.creates, f.one.makes = unclear, true }, 2, 1, 0, provider.BatchInProgress},
		"not made":                         {func(f *fixture) { f.one.creates = unclear }, 2, 0, 0, provider.BatchValidating},
		"not made, a minute later":         {func(f *fixture) { f.one.creates, f.ahead = unclear, time.Minute }, 2, 0, 1, provider.BatchInProgress},
		"made, found later": {func(f *fixture) {
			f.one.creates, f.one.makes, f.one.finds = unclear, true, provider.ErrBatchUndecided
		}, 3, 1, 0, provider.BatchInProgress},
		"failed for sure":              {func(f *fixture) { f.one.creates = failed }, 1, 0, 1, provider.BatchInProgress},
		"refused by one":               {func(f *fixture) { f.one.creates = refused }, 1, 0, 1, provider.BatchInProgress},
		"refused by both, tried again": {func(f *fixture) { f.one.creates, f.two.creates = refused, refused }, 2, 1, 0, provider.BatchInProgress},
		"one has no credential":        {func(f *fixture) { f.keyless["one"] = true }, 1, 0, 1, provider.BatchInProgress},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			f.one.status, f.two.status = provider.BatchInProgress, provider.BatchInProgress
			c.setup(f)
			later := f.ahead
			f.ahead = 0
			j := f.create(t, 1, nil)
			f.turn(t, 1)
			f.ahead = later
			f.turn(t, c.turns-1)
			if len(f.one.created) != c.one || len(f.two.created) != c.two {
				t.Errorf("one has made %d and two %d, want %d and %d", len(f.one.created), len(f.two.created), c.one, c.two)
			}
			if shown := f.get(t, j.ID).Shown(); shown != c.status {
				t.Errorf("shown as %s, want %s", shown, c.status)
			}
		})
	}
}

// A process that ends between the call of the vendor and its journal leaves a job that is found, not made twice.
func TestLostReplica(t *testing.T) {
	f := open(t)
	f.one.status = provider.BatchInProgress
	j := f.create(t, 1, nil)
	f.one.creates, f.one.makes = fmt.Errorf("%w: killed", provider.ErrBatchUndecided), true
	f.turn(t, 1)
	if got := f.get(t, j.ID); got.Stage != batchjob.StageMaking || got.Trying.IsZero() {
		t.Fatalf("stage %s, trying since %s; want an open try", got.Stage, got.Trying)
	}
	f.turn(t, 1)
	if got := f.get(t, j.ID); got.Stage != batchjob.StageRunning || len(f.one.created) != 1 || len(f.two.created) != 0 {
		t.Errorf("stage %s, made %d and %d times", got.Stage, len(f.one.created), len(f.two.created))
	}
}

// Jobs that no vendor takes, or can give back, end with the reason.
func TestProblems(t *testing.T) {
	policy := &provider.Error{Class: apierr.ClassPolicy, Status: 400, Text: "endpoint: unknown"}
	for name, c := range map[string]struct {
		setup func(t *testing.T, f *fixture, j *batchjob.Job)
		code  string
	}{
		"refused":   {func(_ *testing.T, f *fixture, _ *batchjob.Job) { f.one.creates, f.two.creates = policy, policy }, "request_refused"},
		"suspended": {func(_ *testing.T, f *fixture, _ *batchjob.Job) { f.refusal = organization.ErrSuspended }, "request_refused"},
		"no input": {func(t *testing.T, f *fixture, j *batchjob.Job) {
			t.Helper()
			if err := f.files.Delete(t.Context(), ada, j.Input); err != nil {
				t.Fatal(err)
			}
		}, "input_file_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			j := f.create(t, 1, nil)
			c.setup(t, f, j)
			f.turn(t, 1)
			got := f.get(t, j.ID)
			if got.Shown() != provider.BatchFailed || len(got.Problems) != 1 || got.Problems[0].Code != c.code || got.Stage != batchjob.StageEnded {
				t.Errorf("shown %s, stage %s, problems %+v, want %s", got.Shown(), got.Stage, got.Problems, c.code)
			}
		})
	}
}

// Each answered request is billed once, whatever fails in between and whatever the vendor repeats or invents.
func TestSettleAgain(t *testing.T) {
	const n = 1300
	f := open(t)
	f.one.results = func(ids []string) (results []provider.BatchResult) {
		for _, id := range ids {
			results = append(results, answer(id, &tenTwo))
		}
		mark, _, _ := strings.Cut(ids[0], "-")
		for _, foreign := range []string{ids[0], mark + "-00", mark + "-1300", mark + "--1", "other-1", ""} {
			results = append(results, answer(foreign, &tenTwo))
		}
		return results
	}
	f.one.status = provider.BatchInProgress
	j := f.create(t, n, nil)
	f.turn(t, 1)
	f.one.status, f.ledger.left = provider.BatchCompleted, 600 // The second group fails.
	f.one.gives = &provider.Error{Class: apierr.ClassServerError, Text: "cut"}
	f.turn(t, 1)
	if rows, _ := f.billed(t); rows == 0 || rows == n || f.get(t, j.ID).Ended() {
		t.Fatalf("%d rows are billed after the first try, want some of %d", rows, n)
	}
	f.turn(t, 4)
	if f.ledger.failures != 1 {
		t.Fatalf("the ledger has failed %d times, want once", f.ledger.failures)
	}
	got := f.get(t, j.ID)
	rows, cost := f.billed(t)
	if rows != n || cost != n*tenTwoCost || got.Cost != n*tenTwoCost || got.Results[provider.BatchAnswered] != n {
		t.Errorf("%d rows for %d, the job says %d for %d; want %d", rows, cost, got.Results[provider.BatchAnswered], got.Cost, n)
	}
	if postponed := f.counted(t, "switchyard.gateway.batch.postponed", "settling"); postponed != 1 {
		t.Errorf("%d steps are counted as postponed, want the one that the vendor broke off", postponed)
	}
	if lines := strings.Count(f.content(t, got.Output), "\n"); lines != n {
		t.Errorf("the output has %d lines, want %d", lines, n)
	}
}

// What a vendor doesn't report is estimated, zeros for an answer with a text too, and what no request can use is not
// billed.
func TestUsage(t *testing.T) {
	f := open(t)
	written := func(id string, usage *provider.Usage) provider.BatchResult {
		result := answer(id, usage)
		result.Written = 16
		return result
	}
	f.one.results = func(ids []string) []provider.BatchResult {
		return []provider.BatchResult{
			written(ids[0], nil), written(ids[1], &provider.Usage{}), written(ids[2], &provider.Usage{Input: 1e9, Output: 1e9, Images: 7}),
		}
	}
	j := f.create(t, 3, nil)
	f.turn(t, 5)
	for state, want := range map[string]string{"estimated": "5 4 0, 5 4 0", "partial": "100 50 0"} {
		got := testkit.Value[string](t, f.pool, "SELECT string_agg(concat_ws(' ', input_tokens, output_tokens, images), ', ') FROM ledger_entry WHERE usage_state = $1", state)
		if got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
	if !f.get(t, j.ID).Estimated {
		t.Error("the job does not say that it is estimated")
	}
}

// A worst case is set aside until the job has ended, and counts as so many calls of its run.
func TestReservation(t *testing.T) {
	f := open(t)
	testkit.Exec(t, f.pool, "INSERT INTO organization (organization_id, suspended, budget_ceiling_cents, budget_period, version) VALUES ('acme', false, 100, 'month', 1)")
	held := func() int64 {
		return testkit.Value[int64](t, f.pool, "SELECT coalesce(sum(amount_pico_usd), 0)::bigint FROM budget_reservation")
	}
	f.one.results = func(ids []string) []provider.BatchResult { return []provider.BatchResult{answer(ids[0], &tenTwo)} }
	f.create(t, 1, &batchjob.Reservation{Worst: 60e10, Calls: 1})
	if held() != 60e10 {
		t.Errorf("%d is set aside", held())
	}
	second := batchjob.NewJob(ada, batchjob.FormOpenAI, time.Now())
	err := f.Create(t.Context(), second, nil, &batchjob.Reservation{Worst: 60e10, Calls: 1})
	if e := apierr.From(err); err == nil || e.Reason != "budget_exceeded" {
		t.Errorf("a second job beyond the ceiling: %v", err)
	}
	f.turn(t, 5)
	if held() != 0 {
		t.Errorf("%d is set aside after the end", held())
	}
	if err := f.Create(t.Context(), second, nil, &batchjob.Reservation{Worst: 60e10, Calls: 1}); err != nil {
		t.Errorf("the second job after the end of the first: %v", err)
	}
}

// A cancelled job ends at its vendor, and what was answered until then is billed; one that was not made yet is never made.
func TestCancel(t *testing.T) {
	f := open(t)
	f.one.status = provider.BatchInProgress
	f.one.results = func(ids []string) []provider.BatchResult { return []provider.BatchResult{answer(ids[1], &tenTwo)} }
	j := f.create(t, 2, nil)
	f.turn(t, 1)
	got, err := f.Cancel(t.Context(), ada, batchjob.FormOpenAI, j.ID)
	if err != nil || got.Shown() != provider.BatchCancelling {
		t.Fatalf("shown %v, %v", got, err)
	}
	f.turn(t, 5)
	got = f.get(t, j.ID)
	if got.Shown() != provider.BatchCancelled || got.Cost != tenTwoCost || got.CancellingAt.IsZero() {
		t.Errorf("shown %s, cost %d, cancelling since %s", got.Shown(), got.Cost, got.CancellingAt)
	}
	if got, err = f.Cancel(t.Context(), ada, batchjob.FormOpenAI, j.ID); err != nil || got.Shown() != provider.BatchCancelled {
		t.Errorf("cancelled again: %v, %v", got.Shown(), err)
	}
	early := f.create(t, 1, nil)
	if _, err := f.Cancel(t.Context(), ada, batchjob.FormOpenAI, early.ID); err != nil {
		t.Fatal(err)
	}
	f.turn(t, 2)
	if got := f.get(t, early.ID); got.Shown() != provider.BatchCancelled || len(f.one.created) != 1 {
		t.Errorf("shown %s, %d jobs made", got.Shown(), len(f.one.created))
	}
}

// A suspension ends a job at its vendor.
func TestSuspension(t *testing.T) {
	f := open(t)
	f.one.status = provider.BatchInProgress
	j := f.create(t, 1, nil)
	f.turn(t, 1)
	f.refusal = organization.ErrSuspended
	f.turn(t, 2)
	if got := f.get(t, j.ID); got.Shown() != provider.BatchCancelled || !slices.Contains(f.one.calls, "cancel") {
		t.Errorf("shown %s, calls %v", got.Shown(), f.one.calls)
	}
}

// Jobs belong to an organization and an owner, are listed newest first, and deleted when they have ended.
func TestScope(t *testing.T) {
	f := open(t)
	var ids []string
	for range 3 {
		ids = append([]string{f.create(t, 1, nil).ID}, ids...)
	}
	for _, other := range []batchjob.Scope{{Organization: "acme"}, {Organization: "acme", Owner: "bob"}, {Organization: "bolt", Owner: "ada"}} {
		if _, err := f.Get(t.Context(), other, batchjob.FormOpenAI, ids[0]); !errors.Is(err, batchjob.ErrNotFound) {
			t.Errorf("%+v reads the job: %v", other, err)
		}
		if _, err := f.Cancel(t.Context(), other, batchjob.FormOpenAI, ids[0]); !errors.Is(err, batchjob.ErrNotFound) {
			t.Errorf("%+v cancels the job: %v", other, err)
		}
		if jobs, _, err := f.List(t.Context(), other, batchjob.FormOpenAI, batchjob.Page{Limit: 5}); len(jobs) > 0 || err != nil {
			t.Errorf("%+v lists %d jobs, %v", other, len(jobs), err)
		}
	}
	if _, err := f.Get(t.Context(), ada, batchjob.FormAnthropic, ids[0]); !errors.Is(err, batchjob.ErrNotFound) {
		t.Errorf("read in another form: %v", err)
	}
	for name, c := range map[string]struct {
		page batchjob.Page
		want []string
		more bool
	}{
		"the first page":  {batchjob.Page{Limit: 2}, ids[:2], true},
		"the second page": {batchjob.Page{Limit: 2, After: ids[1]}, ids[2:], false},
		"what is newer":   {batchjob.Page{Limit: 2, Before: ids[2]}, ids[:2], false},
		"the nearest":     {batchjob.Page{Limit: 1, Before: ids[2]}, ids[1:2], true},
	} {
		jobs, more, err := f.List(t.Context(), ada, batchjob.FormOpenAI, c.page)
		var got []string
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) || more != c.more || err != nil {
			t.Errorf("%s: %v, more %t, %v, want %v, %t", name, got, more, err, c.want, c.more)
		}
	}
	if err := f.Delete(t.Context(), ada, batchjob.FormOpenAI, ids[0]); !errors.Is(err, batchjob.ErrUnderWay) {
		t.Errorf("deleted while under way: %v", err)
	}
	f.turn(t, 4)
	if err := f.Delete(t.Context(), ada, batchjob.FormOpenAI, ids[0]); err != nil {
		t.Error(err)
	}
}

// An erased organization has no jobs left but those under way, which end without results and are billed all the same.
func TestErase(t *testing.T) {
	f := open(t)
	f.one.results = func(ids []string) []provider.BatchResult { return []provider.BatchResult{answer(ids[0], &tenTwo)} }
	ended := f.create(t, 1, nil)
	f.turn(t, 5)
	f.one.status = provider.BatchInProgress
	running := f.create(t, 1, nil)
	f.turn(t, 1)
	if err := f.Erase(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), ada, batchjob.FormOpenAI, ended.ID); !errors.Is(err, batchjob.ErrNotFound) {
		t.Errorf("the ended job is still there: %v", err)
	}
	f.turn(t, 5)
	if rows, _ := f.billed(t); rows != 2 {
		t.Errorf("%d rows are billed, want 2", rows)
	}
	if n := testkit.Value[int64](t, f.pool, "SELECT count(*) FROM file WHERE purpose = 'batch_output'"); n != 1 {
		t.Errorf("%d files of results, want that of the first job alone", n)
	}
	if _, err := f.Get(t.Context(), ada, batchjob.FormOpenAI, running.ID); !errors.Is(err, batchjob.ErrNotFound) {
		t.Errorf("the job that was under way is still there: %v", err)
	}
	if n, err := f.Store.Drop(t.Context(), time.Now(), 10); n != 1 || err != nil {
		t.Errorf("dropped %d, %v", n, err)
	}
}

// An organization has a bounded number of jobs under way.
func TestFull(t *testing.T) {
	f := open(t)
	f.create(t, 1, nil)
	testkit.Exec(t, f.pool, fmt.Sprintf(`INSERT INTO batch_job
		SELECT 'x' || n, organization_id, owner_id, run_id, form, stage, cancel_requested, erased, provider, vendor_id, key_id, sealed_state,
			requests_key_id, sealed_requests, reservation_id, due_at, holder, held_until, lease, created_at, expires_at
		FROM batch_job, generate_series(2, %d) AS n`, batchjob.MaxUnderWay))
	err := f.Create(t.Context(), batchjob.NewJob(ada, batchjob.FormOpenAI, time.Now()), nil, nil)
	if !errors.Is(err, batchjob.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
}
