package batchjob_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// A result whose answer is no JSON object is given on as it is, and ends no settlement.
func TestStrangeResults(t *testing.T) {
	for _, body := range []string{`[1]`, `"text"`, `null`, `7`} {
		f := open(t)
		f.one.results = func(ids []string) []provider.BatchResult {
			line := `{"custom_id":"` + ids[0] + `","response":{"status_code":200,"body":` + body + `}}`
			return []provider.BatchResult{{CustomID: ids[0], Line: []byte(line), Outcome: provider.BatchAnswered, Usage: &tenTwo}}
		}
		j := f.create(t, 1, nil)
		f.turn(t, 4)
		got := f.get(t, j.ID)
		want := `{"custom_id":"mine-0","response":{"status_code":200,"body":` + body + `}}` + "\n"
		if text := f.content(t, got.Output); got.Shown() != provider.BatchCompleted || text != want || got.Cost != tenTwoCost {
			t.Errorf("%s: %s, cost %d, results %q, want %q", body, got.Shown(), got.Cost, text, want)
		}
	}
}

// A job that a vendor turns out not to have made is not made any more where its end was asked for, its organization is
// suspended, or it was offered for an hour.
func TestUnclearCreationEnds(t *testing.T) {
	failed := &provider.Error{Class: apierr.ClassServerError, Status: 502, Text: "bad gateway"}
	unclear := fmt.Errorf("%w: %w", provider.ErrBatchUndecided, failed)
	for name, c := range map[string]struct {
		change func(f *fixture, id string)
		ahead  time.Duration
		status provider.BatchStatus
		code   string
	}{
		"cancelled": {func(f *fixture, id string) {
			_, _ = f.Cancel(t.Context(), ada, batchjob.FormOpenAI, id)
		}, 2 * time.Minute, provider.BatchCancelled, ""},
		"suspended":     {func(f *fixture, _ string) { f.refusal = organization.ErrSuspended }, 2 * time.Minute, provider.BatchFailed, "request_refused"},
		"an hour later": {func(f *fixture, _ string) { f.two.creates = failed }, 61 * time.Minute, provider.BatchFailed, "vendor_unavailable"},
		"a vendor that can't be asked for a week": {func(f *fixture, _ string) {
			f.one.finds = failed
		}, 8 * 24 * time.Hour, provider.BatchFailed, "batch_lost"},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			f.one.creates = unclear
			j := f.create(t, 1, &batchjob.Reservation{Worst: 1, Calls: 1})
			f.turn(t, 1)
			c.change(f, j.ID)
			f.ahead = c.ahead
			f.turn(t, 1)
			row := testkit.Value[string](t, f.pool, "SELECT stage FROM batch_job")
			f.ahead = 0
			got := f.get(t, j.ID)
			code := ""
			if len(got.Problems) > 0 {
				code = got.Problems[0].Code
			}
			if row != "ended" || got.Status != c.status || code != c.code {
				t.Errorf("%s, %s with %v, want %s with %q", row, got.Status, got.Problems, c.status, c.code)
			}
			if n := testkit.Value[int](t, f.pool, "SELECT count(*) FROM budget_reservation"); len(f.one.created) != 0 || n != 0 {
				t.Errorf("the vendor has made %d jobs, %d reservations are held; want none", len(f.one.created), n)
			}
		})
	}
}

// A vendor that may take a job later is asked again, whatever another one says.
func TestBusyVendorIsAskedAgain(t *testing.T) {
	f := open(t)
	f.one.status = provider.BatchInProgress
	f.one.creates = &provider.Error{Class: apierr.ClassRateLimit, Status: 429, Text: "full"}
	f.two.creates = &provider.Error{Class: apierr.ClassPolicy, Status: 403, Text: "no access"}
	j := f.create(t, 1, nil)
	f.turn(t, 2)
	if got := f.get(t, j.ID); got.Stage != batchjob.StageRunning || got.Provider != "one" {
		t.Errorf("stage %s at %q, want it at one", got.Stage, got.Provider)
	}
}

// A job that a vendor has made is journaled though the replica stops meanwhile; a file that can't be read is tried again.
func TestStoppedReplica(t *testing.T) {
	f := open(t)
	j := f.create(t, 1, nil)
	ctx, stop := context.WithCancel(t.Context())
	f.one.during = stop
	_ = f.Turn(ctx)
	if got := f.get(t, j.ID); got.Stage != batchjob.StageRunning || len(f.one.created) != 1 {
		t.Errorf("stage %s, %d jobs made; want it running", got.Stage, len(f.one.created))
	}
	unread := f.create(t, 1, nil)
	f.one.during = nil
	testkit.Exec(t, f.pool, "UPDATE file_piece SET sealed = 'x' WHERE file_id = $1", unread.Input)
	f.turn(t, 2)
	if got := f.get(t, unread.ID); got.Stage != batchjob.StageMaking || got.Failures != 2 || !got.Trying.IsZero() || got.Tried != 0 {
		t.Errorf("stage %s after %d failures, tried %d; want it to be tried again at the first vendor", got.Stage, got.Failures, got.Tried)
	}
	f.ahead = 2 * time.Hour
	f.turn(t, 1)
	f.ahead = 0
	if got := f.get(t, unread.ID); got.Status != provider.BatchFailed || got.Problems[0].Code != "input_file_not_found" {
		t.Errorf("%s with %v, want it failed", got.Status, got.Problems)
	}
}

// A replica that has lost its claim can't change the results that another one has completed.
func TestLateWriter(t *testing.T) {
	f := open(t)
	late := file.File{Purpose: file.PurposeBatchOutput, CreatedAt: time.Now()}
	var j *batchjob.Job
	var writer *file.Writer
	f.one.results = func(ids []string) []provider.BatchResult {
		late.ID = f.get(t, j.ID).Output
		var err error
		if writer, err = f.files.Begin(t.Context(), ada, late); err != nil {
			t.Error(err)
		}
		return []provider.BatchResult{answer(ids[0], &tenTwo)}
	}
	j = f.create(t, 1, nil)
	f.turn(t, 3)
	want := f.content(t, f.get(t, j.ID).Output)
	if _, err := f.files.Begin(t.Context(), ada, late); err == nil {
		t.Error("a complete file was begun anew")
	}
	_ = writer.Write(t.Context(), []byte("late"))
	if _, err := writer.Close(t.Context()); err == nil {
		t.Error("a complete file was added to")
	}
	if got := f.content(t, late.ID); got != want || got == "" {
		t.Errorf("the results became %q, want %q", got, want)
	}
}

// The results of a job whose organization is erased while they are written are not kept.
func TestEraseDuringSettlement(t *testing.T) {
	f := open(t)
	f.one.results = func(ids []string) []provider.BatchResult {
		if err := f.Erase(t.Context(), ada.Organization); err != nil {
			t.Error(err)
		}
		if _, err := f.files.Erase(t.Context(), ada.Organization); err != nil {
			t.Error(err)
		}
		return []provider.BatchResult{answer(ids[0], &tenTwo)}
	}
	f.create(t, 1, nil)
	f.turn(t, 3)
	if n := testkit.Value[int](t, f.pool, "SELECT count(*) FROM file"); n != 0 {
		t.Errorf("%d files are kept of an erased organization", n)
	}
	if rows, _ := f.billed(t); rows != 1 {
		t.Errorf("%d requests are billed, want 1", rows)
	}
}

// A job that has ended can be deleted though the vendor's files can't be deleted at the moment; these are deleted later.
func TestDeleteBeforeClearing(t *testing.T) {
	f := open(t)
	var j *batchjob.Job
	f.one.results = func(ids []string) []provider.BatchResult {
		if err := f.Delete(t.Context(), ada, batchjob.FormOpenAI, j.ID); !errors.Is(err, batchjob.ErrUnderWay) {
			t.Errorf("deleted while it is settled: %v", err)
		}
		return []provider.BatchResult{answer(ids[0], &tenTwo)}
	}
	j = f.create(t, 1, nil)
	f.turn(t, 3)
	f.one.calls = nil
	testkit.Exec(t, f.pool, "UPDATE batch_job SET stage = 'clearing', expires_at = now() + interval '1 hour'")
	if err := f.Delete(t.Context(), ada, batchjob.FormOpenAI, j.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), ada, batchjob.FormOpenAI, j.ID); !errors.Is(err, batchjob.ErrNotFound) {
		t.Errorf("a deleted job is read with %v", err)
	}
	if jobs, _, err := f.List(t.Context(), ada, batchjob.FormOpenAI, batchjob.Page{Limit: 10}); err != nil || len(jobs) != 0 {
		t.Errorf("a deleted job is listed: %v, %v", jobs, err)
	}
	f.turn(t, 1)
	if !strings.Contains(strings.Join(f.one.calls, " "), "delete") {
		t.Errorf("calls %v, want the deletion of the vendor's files", f.one.calls)
	}
	if n, err := postgres.NewBatchJobs(f.pool).Drop(t.Context(), time.Now().Add(time.Second), 10); n != 1 || err != nil {
		t.Errorf("%d jobs dropped, %v; want the deleted one", n, err)
	}
}
