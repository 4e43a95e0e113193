package providertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// ended returns a vendor whose job has ended, and the job's report.
func (b Batches) ended(t *testing.T) (*batchVendor, *provider.BatchReport) {
	t.Helper()
	v := b.serve(t, nil)
	made := b.create(t, v, 2)
	b.end(v, made.ID)
	return v, b.read(t, v, made.ID)
}

// hostileResults checks that results that are no results are the vendor's failure, and end within bounds.
func (b Batches) hostileResults(t *testing.T) {
	good := b.Answered(mark+"-0", b.Usage) + "\n"
	for name, body := range map[string]func() io.Reader{
		"not JSON":           func() io.Reader { return strings.NewReader(good + "<html>\n") },
		"a list":             func() io.Reader { return strings.NewReader("[]\n") },
		"two on a line":      func() io.Reader { return strings.NewReader(strings.TrimSpace(good) + good) },
		"no custom id":       func() io.Reader { return strings.NewReader("{}\n") },
		"a custom id's path": func() io.Reader { return strings.NewReader(b.Answered("../x", "") + "\n") },
		"a long custom id":   func() io.Reader { return strings.NewReader(b.Answered(strings.Repeat("x", 65), "") + "\n") },
		"half of a line":     func() io.Reader { return strings.NewReader(good[:len(good)/2]) },
		"nested deeply": func() io.Reader {
			return strings.NewReader(`{"custom_id":"x","a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}\n")
		},
		"a line of 17 MiB": func() io.Reader {
			return strings.NewReader(`{"custom_id":"x","a":"` + strings.Repeat("x", 17<<20) + "\"}\n")
		},
		"a line without an end": func() io.Reader { return Repeat(strings.Repeat("x", 64<<10)) },
		"lines without an end":  func() io.Reader { return Repeat(strings.Repeat("{\"custom_id\":\"x\"}\n", 1<<12)) },
		"blanks without an end": func() io.Reader { return Repeat(strings.Repeat("\n", 64<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			v, report := b.ended(t)
			v.intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				if isResults(r) {
					_, _ = io.Copy(w, body()) // Ends when the caller leaves.
				}
				return isResults(r)
			})
			err := v.BatchResults(t.Context(), Credential(), nil, report, func(provider.BatchResult) error { return nil })
			if e := failure(t, err); e.Class != apierr.ClassServerError {
				t.Errorf("error %v, want a server error", err)
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		v, report := b.ended(t)
		v.intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if isResults(r) {
				_, _ = io.WriteString(w, good)
				flush(w)
				panic(http.ErrAbortHandler)
			}
			return false
		})
		got, err := results(t.Context(), v, report)
		if e := failure(t, err); e.Class != apierr.ClassTransient || len(got) != 1 {
			t.Errorf("error %v after %d results, want a failure of the connection after one", err, len(got))
		}
	})
	t.Run("no line break at the end", func(t *testing.T) {
		v, report := b.ended(t)
		v.intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if isResults(r) {
				_, _ = io.WriteString(w, "\r\n\n"+strings.TrimSpace(good))
			}
			return isResults(r)
		})
		if got, err := results(t.Context(), v, report); err != nil || len(got) != 1 {
			t.Errorf("%d results, error %v, want one", len(got), err)
		}
	})
}

// hostileIDs checks that an id becomes a part of a path only if it can't lead elsewhere.
func (b Batches) hostileIDs(t *testing.T) {
	for _, id := range []string{".", "../x", "..%2fx", "a/b", "a?b", "a#b", "a b", "a\r\nb", "é", strings.Repeat("x", 129)} {
		v := b.serve(t, nil)
		report := &provider.BatchReport{ID: id, Status: provider.BatchCompleted, Output: id, Errors: id}
		for name, call := range map[string]func() error{
			"read":    func() error { _, err := v.ReadBatch(t.Context(), Credential(), id); return err },
			"cancel":  func() error { return v.CancelBatch(t.Context(), Credential(), id) },
			"results": func() error { _, err := results(t.Context(), v, report); return err },
			"delete":  func() error { return v.DeleteBatch(t.Context(), Credential(), report) },
		} {
			if e, ok := errors.AsType[*provider.Error](call()); !ok || e.Class != apierr.ClassPolicy {
				t.Errorf("%s %q: %v, want a refusal", name, id, e)
			}
			if calls := v.called(); len(calls) > 0 {
				t.Errorf("%s %q: the vendor was called: %s", name, id, calls)
			}
		}
	}
	for name, change := range map[string]func(text, id string) string{
		"a path":     func(text, id string) string { return strings.ReplaceAll(text, `"`+id+`"`, `"../../x"`) },
		"another's":  func(text, id string) string { return strings.ReplaceAll(text, `"`+id+`"`, `"batch_other"`) },
		"none":       func(text, id string) string { return strings.ReplaceAll(text, `"`+id+`"`, `null`) },
		"no state":   func(text, _ string) string { return strings.ReplaceAll(text, `status"`, `other"`) },
		"not JSON":   func(text, _ string) string { return text + "}" },
		"not a job":  func(string, string) string { return "[]" },
		"an error's": func(string, string) string { return `{"type":"error","error":{"type":"api_error","message":"no"}}` },
	} {
		t.Run("a report with "+name, func(t *testing.T) {
			v, report := b.ended(t)
			v.intercept(func(w http.ResponseWriter, r *http.Request, api http.Handler) bool {
				own := httptest.NewRecorder()
				api.ServeHTTP(own, r)
				_, _ = io.WriteString(w, change(own.Body.String(), report.ID))
				return true
			})
			_, err := v.ReadBatch(t.Context(), Credential(), report.ID)
			if e := failure(t, err); e.Class != apierr.ClassServerError {
				t.Errorf("error %v, want a server error", err)
			}
		})
	}
}

// neverEnding checks that answers without an end last until the caller leaves.
func (b Batches) neverEnding(t *testing.T) {
	begun := make(chan struct{}, 8)
	v := b.serve(t, nil)
	v.intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodDelete {
			_, _ = io.WriteString(w, `{"id":"batch_1","a":"`)
		}
		flush(w)
		begun <- struct{}{}
		<-r.Context().Done()
		return true
	})
	left := errors.New("the caller left")
	for name := range b.calls(t.Context(), v) {
		if name == "cancel" || name == "delete" { // Their status is the answer.
			continue
		}
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() {
				<-begun
				cancel(left)
			}()
			if err := b.calls(ctx, v)[name](); !errors.Is(err, left) {
				t.Errorf("error %v, want that the caller left", err)
			}
		})
	}
}

// BatchGrowth reads results of all sizes, whole and byte by byte. lines are further lines of the dialect.
func BatchGrowth(t *testing.T, b Batches, lines ...growth.Input) {
	t.Helper()
	inputs := append(growth.Around(`{"custom_id":"x","a":`, growth.ValidJSON, "}\n"),
		growth.Repeat("results", "", b.Answered("x", b.Usage)+"\n", ""), growth.Repeat("failures", "", b.Failed("x")+"\n", ""),
		growth.Repeat("a long line", `{"custom_id":"x","a":"`, "x", "\"}\n"), growth.Repeat("blank lines", "", "\n", ""),
		growth.Repeat("members", `{"custom_id":"x"`, `,"usage":{}`, "}\n"), growth.Repeat("custom ids", `{"a":1`, `,"custom_id":"x"`, "}\n"),
		growth.Repeat("a long custom id", `{"custom_id":"`, "x", "\"}\n"),
	)
	report := &provider.BatchReport{ID: "batch_1", Status: provider.BatchCompleted, Output: "file-1"}
	read := func(body io.Reader) {
		p, err := b.New(baseURL, vendorOf{http.StatusOK, http.Header{}, func() io.Reader { return body }})
		if err != nil {
			t.Error(err)
			return
		}
		_ = p.BatchResults(context.Background(), provider.Credential{}, nil, report, func(provider.BatchResult) error { return nil })
	}
	growth.Linear(t, growth.Each(append(inputs, lines...), func(text []byte) {
		read(bytes.NewReader(text))
		read(iotest.OneByteReader(bytes.NewReader(text)))
	})...)
}

// FuzzResults checks that no text from a vendor passes for a result that it is not.
func FuzzResults(f *testing.F, b Batches) {
	f.Helper()
	for _, seed := range []string{
		b.Answered("a-1", b.Usage), b.Answered("a-1", ""), b.Failed("a-1"), `{"custom_id":"a"}`, `{"custom_id":7}`, `{}`, "", "\n\r\n", `{"custom_id":"a","result":[]}`,
		`{"custom_id":"a","response":{"status_code":200,"body":[]}}`, `{"custom_id":"a","result":{"type":"succeeded","message":{"usage":{"input_tokens":-1}}}}`,
	} {
		f.Add(seed)
	}
	report := &provider.BatchReport{ID: "batch_1", Status: provider.BatchCompleted, Output: "file-1"}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := b.New(baseURL, Canned(http.StatusOK, http.Header{}, text))
		if err != nil {
			t.Fatal(err)
		}
		err = p.BatchResults(t.Context(), Credential(), nil, report, func(r provider.BatchResult) error {
			switch {
			case r.CustomID == "" || len(r.CustomID) > 64:
				t.Errorf("a result of %q", r.CustomID)
			case !bytes.HasPrefix(r.Line, []byte("{")) || bytes.ContainsRune(r.Line, '\n'):
				t.Errorf("the line of a result is %q", r.Line)
			case r.Usage != nil && r.Outcome != provider.BatchAnswered:
				t.Errorf("%q reports usage without an answer", r.Line)
			case r.Usage != nil && (r.Usage.Prompt() < 0 || r.Usage.Completion() < 0):
				t.Errorf("%q reports %+v", r.Line, r.Usage)
			}
			return nil
		})
		if err != nil {
			_ = failure(t, err)
		}
	})
}
