package providertest

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// search returns the search for the suite's job of n requests that can have been made since a time.
func search(n int, since time.Time, others ...string) provider.BatchSearch {
	return provider.BatchSearch{Mark: mark, Count: n, Since: since, Other: func(id string) bool { return slices.Contains(others, id) }}
}

// found checks which job is found among others.
func (b Batches) found(t *testing.T) {
	now := time.Now()
	foreign := func(v *batchVendor, n int, made time.Time) {
		for range n {
			other := v.store.Add(StoredBatch{Mark: "other", Made: made, Lines: []provider.BatchLine{{CustomID: "other-1"}, {CustomID: "other-2"}}})
			b.end(v, other.ID)
		}
	}
	t.Run("none", func(t *testing.T) {
		if _, err := b.serve(t, nil).FindBatch(t.Context(), Credential(), search(2, now)); !errors.Is(err, provider.ErrNoBatch) {
			t.Errorf("error %v, want that there is none", err)
		}
	})
	t.Run("behind many of others", func(t *testing.T) {
		v := b.serve(t, nil)
		foreign(v, 3, now.Add(-24*time.Hour))
		made := b.create(t, v, 2)
		b.end(v, made.ID)
		foreign(v, 2*wire.BatchPage+1, now.Add(time.Second))
		got, err := v.FindBatch(t.Context(), Credential(), search(2, now))
		if err != nil || got.ID != made.ID || got.Status != provider.BatchCompleted {
			t.Errorf("found %+v, error %v, want %s, which is completed", got, err, made.ID)
		}
	})
	t.Run("too old", func(t *testing.T) {
		v := b.serve(t, nil)
		foreign(v, 5*wire.BatchPage, now.Add(-time.Hour))
		if _, err := v.FindBatch(t.Context(), Credential(), search(2, now)); !errors.Is(err, provider.ErrNoBatch) {
			t.Errorf("error %v, want that there is none", err)
		}
		if len(v.called()) != 1 {
			t.Errorf("%d calls, want one page", len(v.called()))
		}
	})
	t.Run("a list without an end", func(t *testing.T) {
		v := b.serve(t, nil)
		foreign(v, wire.BatchPage+1, now)
		v.intercept(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			r.URL.RawQuery = "" // Every page is the first one.
			return false
		})
		_, err := v.FindBatch(t.Context(), Credential(), search(2, now))
		_ = failure(t, err)
	})
	if !b.HidesMark {
		return
	}
	for name, tt := range map[string]struct {
		job  StoredBatch
		want error
	}{
		"another's that runs": {StoredBatch{Lines: []provider.BatchLine{{CustomID: "other-1"}, {CustomID: "other-2"}}}, provider.ErrBatchUndecided},
		"of another size":     {StoredBatch{Lines: []provider.BatchLine{{CustomID: "other-1"}}}, provider.ErrNoBatch},
	} {
		t.Run(name, func(t *testing.T) {
			v := b.serve(t, nil)
			other := v.store.Add(tt.job)
			if _, err := v.FindBatch(t.Context(), Credential(), search(2, now)); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if _, err := v.FindBatch(t.Context(), Credential(), search(2, now, other.ID)); !errors.Is(err, provider.ErrNoBatch) {
				t.Errorf("a job that is known: %v, want that there is none", err)
			}
		})
	}
}

// unclear checks that a job is found again if its creation was never answered.
func (b Batches) unclear(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"the connection breaks": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"a gateway's own 504":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusGatewayTimeout) },
		"a page":                func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
		"an id for a path": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"id":"../x","status":"validating","processing_status":"in_progress"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := b.serve(t, nil)
			v.intercept(func(w http.ResponseWriter, r *http.Request, api http.Handler) bool {
				if isCreation(r) {
					api.ServeHTTP(httptest.NewRecorder(), r)
					answer(w)
				}
				return isCreation(r)
			})
			_, err := v.CreateBatch(t.Context(), Credential(), b.job(2))
			_ = failure(t, err)
			jobs := v.store.Jobs()
			if !errors.Is(err, provider.ErrBatchUndecided) || len(jobs) != 1 {
				t.Fatalf("error %v with %d jobs, want one job and that it is not decided", err, len(jobs))
			}
			got, err := v.FindBatch(t.Context(), Credential(), search(2, jobs[0].Made))
			if b.HidesMark {
				if !errors.Is(err, provider.ErrBatchUndecided) {
					t.Fatalf("before the end: %v, want that it is not decided", err)
				}
				b.end(v, jobs[0].ID)
				got, err = v.FindBatch(t.Context(), Credential(), search(2, jobs[0].Made))
			}
			if err != nil || got.ID != jobs[0].ID {
				t.Errorf("found %+v, error %v, want %s", got, err, jobs[0].ID)
			}
		})
	}
}

// refused checks that nothing stays of a job that the vendor refuses, or that never reached it.
func (b Batches) refused(t *testing.T) {
	v := b.serve(t, nil)
	v.intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if isCreation(r) {
			reply(http.StatusBadRequest, asJSON, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`)(w, r)
		}
		return isCreation(r)
	})
	_, err := v.CreateBatch(t.Context(), Credential(), b.job(2))
	if e := failure(t, err); errors.Is(err, provider.ErrBatchUndecided) || e.Status != http.StatusBadRequest {
		t.Errorf("error %v, want a refusal", err)
	}
	if n := v.store.Files(); n != 0 {
		t.Errorf("%d files are left", n)
	}
	away := b.serve(t, func(http.RoundTripper) http.RoundTripper {
		return Transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
	})
	_, err = away.CreateBatch(t.Context(), Credential(), b.job(2))
	if e := failure(t, err); errors.Is(err, provider.ErrBatchUndecided) || e.Class != apierr.ClassTransient {
		t.Errorf("a vendor that is away: %v, want a failure of the connection", err)
	}
}
