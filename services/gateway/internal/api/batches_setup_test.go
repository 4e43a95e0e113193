package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/serving/inference"
)

// batched keeps the bench's files and batches. A test starts what works on the latter.
type batched struct {
	fleet *inference.Fleet
	files *file.Manager
	jobs  *batchjob.Manager
}

// batchPolicy has a host of batches in each dialect, and others that run none.
const batchPolicy = `
default_model: first/ok
providers:
  - {name: sandbox, dialect: sandbox, models: [sandbox]}
  - {name: first, dialect: openai, base_url: %[1]s, key_file: first.key, responses: true, batches: true, models: [ok, free, {name: text, operations: [completions]}, {name: omni-moderation-latest, operations: [moderations]}]}
  - {name: second, dialect: anthropic, base_url: %[1]s, key_file: first.key, batches: true, models: [spare]}
  - {name: third, dialect: openai, base_url: %[1]s, key_file: first.key, models: [ok, alone]}
ladder: [second/spare]
tools_needing_approval: [deploy]
`

// openBatches returns what the API keeps files and batches in: nothing where it is to have no keys.
func (b *bench) openBatches(tb testing.TB, log *slog.Logger, keep bool) (api.Files, api.BatchJobs) {
	tb.Helper()
	retention := func(string) time.Duration { return time.Hour }
	b.files = file.NewManager(postgres.NewFiles(b.pool), b.keys, retention)
	var err error
	b.jobs, err = batchjob.New(batchjob.Options{
		Store: postgres.NewBatchJobs(b.pool), Files: b.files, Sealer: b.keys, Fleet: func() *inference.Fleet { return b.fleet },
		Ledger: postgres.NewLedger(b.pool), Recorder: b.recorder, Retention: retention, Replica: "here", Log: log,
		Meter: metricnoop.NewMeterProvider().Meter(""),
		Refusal: func(ctx context.Context, organization, run string) error {
			grant, err := b.admission.Admit(ctx, organization, run, keyterm.Terms{})
			if err == nil {
				grant.End(false)
			}
			return err
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	if !keep {
		return nil, nil
	}
	return b.files, b.jobs
}

// batchVendor is a vendor of one batch at a time, in either dialect. Requests whose body holds "fail" fail.
type batchVendor struct {
	mu      sync.Mutex
	ids     []string
	bodies  []string
	status  string
	deleted int
}

// runsBatches makes the bench's vendor one of batches, in a state, and starts what works on them.
func (b *bench) runsBatches(tb testing.TB, status string) *batchVendor {
	tb.Helper()
	v := &batchVendor{status: status}
	routes := http.NewServeMux()
	v.serveOpenAI(routes)
	v.serveAnthropic(routes)
	b.vendor.mu.Lock()
	b.vendor.fails = routes.ServeHTTP
	b.vendor.mu.Unlock()
	b.start(tb)(b.jobs.Run)
	return v
}

// is sets the state of the vendor's batch.
func (v *batchVendor) is(status string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.status = status
}

// received returns the bodies of the last batch.
func (v *batchVendor) received() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.bodies, "\n")
}

func (v *batchVendor) handle(routes *http.ServeMux, pattern string, handle func(r *http.Request) string) {
	routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		defer v.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, handle(r))
	})
}

// results returns the lines of the answered requests, or of those that failed.
func (v *batchVendor) results(failed bool, line string) string {
	var lines strings.Builder
	for i, id := range v.ids {
		if strings.Contains(v.bodies[i], "fail") == failed {
			fmt.Fprintf(&lines, line+"\n", id)
		}
	}
	return lines.String()
}

func (v *batchVendor) serveOpenAI(routes *http.ServeMux) {
	v.handle(routes, "POST /v1/files", func(r *http.Request) string {
		v.ids, v.bodies = nil, nil
		if content, _, err := r.FormFile("file"); err == nil {
			text, _ := io.ReadAll(content)
			for line := range strings.Lines(string(text)) {
				v.ids = append(v.ids, gjson.Get(line, "custom_id").Str)
				v.bodies = append(v.bodies, gjson.Get(line, "body").Raw)
			}
		}
		return `{"id":"file-in","object":"file"}`
	})
	job := func(*http.Request) string {
		files := `"output_file_id":null,"error_file_id":null`
		if v.status == "completed" || v.status == "cancelled" {
			files = `"output_file_id":"file-out","error_file_id":"file-err"`
		}
		problems := "null"
		if v.status == "failed" {
			problems = `{"data":[{"code":"invalid_json_line","message":"Line 2 is not JSON.","param":"body","line":2}]}`
		}
		return `{"id":"batch_v","object":"batch","status":"` + v.status + `","input_file_id":"file-in",` + files +
			`,"errors":` + problems + `,"request_counts":{"total":9,"completed":0,"failed":0}}`
	}
	v.handle(routes, "POST /v1/batches", job)
	v.handle(routes, "GET /v1/batches/{id}", job)
	v.handle(routes, "POST /v1/batches/{id}/cancel", func(r *http.Request) string {
		v.status = "cancelled"
		return job(r)
	})
	v.handle(routes, "GET /v1/files/file-out/content", func(*http.Request) string {
		return v.results(false, `{"id":"r","custom_id":"%s","response":{"status_code":200,"request_id":"q","body":{"id":"c","model":"theirs","usage":{"prompt_tokens":10,"completion_tokens":2}}},"error":null}`)
	})
	v.handle(routes, "GET /v1/files/file-err/content", func(*http.Request) string {
		return v.results(true, `{"id":"r","custom_id":"%s","response":{"status_code":400,"request_id":"q","body":{"error":{"message":"no"}}},"error":null}`)
	})
	v.handle(routes, "DELETE /v1/files/{id}", func(r *http.Request) string {
		v.deleted++
		return `{"id":"` + r.PathValue("id") + `","deleted":true}`
	})
}

func (v *batchVendor) serveAnthropic(routes *http.ServeMux) {
	job := func(*http.Request) string {
		status, results := "in_progress", "null"
		if v.status == "completed" {
			status, results = "ended", `"https://example.com/results"`
		}
		return `{"id":"msgbatch_v","type":"message_batch","processing_status":"` + status + `","created_at":"2026-01-01T00:00:00Z","ended_at":null,` +
			`"cancel_initiated_at":null,"results_url":` + results + `,"request_counts":{"processing":0,"succeeded":0,"errored":0,"canceled":0,"expired":0}}`
	}
	const root = "/v1/messages/batches"
	v.handle(routes, "POST "+root, func(r *http.Request) string {
		v.ids, v.bodies = nil, nil
		text, _ := io.ReadAll(r.Body)
		gjson.GetBytes(text, "requests").ForEach(func(_, request gjson.Result) bool {
			v.ids = append(v.ids, request.Get("custom_id").Str)
			v.bodies = append(v.bodies, request.Get("params").Raw)
			return true
		})
		return job(r)
	})
	v.handle(routes, "GET "+root+"/{id}", job)
	v.handle(routes, "POST "+root+"/{id}/cancel", job)
	v.handle(routes, "GET "+root+"/{id}/results", func(*http.Request) string {
		return v.results(false, `{"custom_id":"%s","result":{"type":"succeeded","message":{"type":"message","model":"theirs","content":[],"usage":{"input_tokens":4,"output_tokens":2}}}}`) +
			v.results(true, `{"custom_id":"%s","result":{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error","message":"no"}}}}`)
	})
	v.handle(routes, "DELETE "+root+"/{id}", func(*http.Request) string {
		v.deleted++
		return `{"id":"msgbatch_v","type":"message_batch_deleted"}`
	})
}

// fileForm returns a form of fields, in pairs, with a file of a name, and its media type.
func fileForm(tb testing.TB, name, content string, fields ...string) (kind, body string) {
	tb.Helper()
	var text bytes.Buffer
	w := multipart.NewWriter(&text)
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			tb.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("file", name)
	if err == nil {
		_, err = io.WriteString(part, content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return w.FormDataContentType(), text.String()
}

// upload stores a file of requests and returns its id. headers are in pairs.
func (b *bench) upload(tb testing.TB, content string, headers ...string) string {
	tb.Helper()
	kind, body := fileForm(tb, "in.jsonl", content, "purpose", "batch")
	got := b.say(tb, "POST", "/v1/files", body, append([]string{"Content-Type", kind}, headers...)...)
	if got.status != http.StatusOK {
		tb.Fatalf("upload: %d %s", got.status, got.body)
	}
	return gjson.Get(got.body, "id").Str
}

// chatLine returns a request of a batch.
func chatLine(id, fields string) string {
	return `{"custom_id":"` + id + `","method":"POST","url":"/v1/chat/completions","body":{` + fields + `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}}` + "\n"
}

// batchOf returns a request for a batch of a file.
func batchOf(input, more string) string {
	return `{"input_file_id":"` + input + `","endpoint":"/v1/chat/completions","completion_window":"24h"` + more + `}`
}

// submit makes a batch of some requests, and returns the answer.
func (b *bench) submit(tb testing.TB, content, more string, headers ...string) answer {
	tb.Helper()
	return b.say(tb, "POST", "/v1/batches", batchOf(b.upload(tb, content, headers...), more), headers...)
}

// reaches polls a batch until its field has a value.
func (b *bench) reaches(tb testing.TB, path, field, want string) gjson.Result {
	tb.Helper()
	var got answer
	until(tb, func() string {
		got = b.say(tb, "GET", path, "")
		if gjson.Get(got.body, field).Str == want {
			return ""
		}
		return fmt.Sprintf("%d %s, want %s %s: %s", got.status, got.body, field, want, b.log.String())
	})
	return gjson.Parse(got.body)
}

var (
	madeIDs   = regexp.MustCompile(`(file-|batch_)[A-Z2-7]{26}`)
	madeTimes = regexp.MustCompile(`"20[0-9-]+T[0-9:.]+Z"|\b1[0-9]{9}\b|\b[2-9][0-9]{9}\b`)
)

// shape returns JSON without what differs from one run to the next.
func shape(body string) string {
	return madeTimes.ReplaceAllString(madeIDs.ReplaceAllString(strings.TrimSpace(body), "${1}ID"), `"TIME"`)
}

// store stores a file of requests that is larger than the bench's bodies may be, and returns its id.
func (b *bench) store(tb testing.TB, content string) string {
	tb.Helper()
	stored, err := b.files.Create(tb.Context(), file.Scope{Organization: "acme"},
		file.File{ID: file.NewID(), Purpose: file.PurposeBatch, CreatedAt: time.Now()}, []byte(content))
	if err != nil {
		tb.Fatal(err)
	}
	return stored.ID
}
