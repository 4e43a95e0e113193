package batchjob_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/batchjob"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ada = batchjob.Scope{Organization: "acme", Owner: "ada"}

const prices = `
providers:
  - provider: one
    batch_percent: 50
    models: [{model: m, effective_from: 2025-01-01, input_per_mtok_usd: 2, output_per_mtok_usd: 10}]
  - provider: two
    models: [{model: m, effective_from: 2025-01-01, input_per_mtok_usd: 2, output_per_mtok_usd: 10}]
`

// vendor is a vendor of batch jobs in memory.
type vendor struct {
	name string
	// created are the jobs that it has made: the bodies of their lines by custom id. calls lists what it was asked.
	created map[string]map[string]string
	calls   []string
	// during, if set, is called while a job is made.
	during func()
	// creates, if set, is the error of the next creation; with it the job is made all the same if makes is set.
	creates error
	makes   bool
	// finds, reads and gives are errors of the next question.
	finds, reads, gives error
	status              provider.BatchStatus
	results             func(ids []string) []provider.BatchResult
}

func newVendor(name string) *vendor {
	return &vendor{name: name, created: make(map[string]map[string]string), status: provider.BatchCompleted}
}

func (v *vendor) Name() string            { return v.name }
func (v *vendor) RunsBatches(string) bool { return true }

func (v *vendor) called(what string) { v.calls = append(v.calls, what) }

func taken(err *error) error {
	defer func() { *err = nil }()
	return *err
}

func (v *vendor) CreateBatch(_ context.Context, c provider.Credential, job *provider.BatchJob) (*provider.BatchReport, error) {
	v.called("create by " + c.Source)
	lines := make(map[string]string)
	for line, err := range job.Lines {
		if err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		lines[line.CustomID] = string(line.Body) + " for " + job.Model
	}
	if v.during != nil {
		v.during()
	}
	err := taken(&v.creates)
	if err == nil || v.makes {
		v.created["v-"+job.Mark] = lines
	}
	if err != nil {
		return nil, err
	}
	return &provider.BatchReport{ID: "v-" + job.Mark, Status: provider.BatchValidating}, nil
}

func (v *vendor) FindBatch(_ context.Context, _ provider.Credential, s provider.BatchSearch) (*provider.BatchReport, error) {
	v.called("find")
	if err := taken(&v.finds); err != nil {
		return nil, err
	}
	if _, ok := v.created["v-"+s.Mark]; !ok || s.Other("v-"+s.Mark) {
		return nil, provider.ErrNoBatch
	}
	return &provider.BatchReport{ID: "v-" + s.Mark, Status: provider.BatchInProgress}, nil
}

func (v *vendor) ReadBatch(_ context.Context, _ provider.Credential, id string) (*provider.BatchReport, error) {
	v.called("read")
	if err := taken(&v.reads); err != nil {
		return nil, err
	}
	report := &provider.BatchReport{ID: id, Status: v.status}
	if v.results != nil && v.status.Ended() {
		report.Output = "out-" + id
	}
	return report, nil
}

func (v *vendor) CancelBatch(context.Context, provider.Credential, string) error {
	v.called("cancel")
	v.status = provider.BatchCancelled
	return nil
}

func (v *vendor) BatchResults(_ context.Context, _ provider.Credential, _ *provider.BatchJob, job *provider.BatchReport, each func(provider.BatchResult) error) error {
	v.called("results")
	ids := make([]string, len(v.created[job.ID]))
	mark := strings.TrimPrefix(job.ID, "v-")
	for n := range ids {
		ids[n] = fmt.Sprintf("%s-%d", mark, n)
	}
	for _, r := range v.results(ids) {
		if err := each(r); err != nil {
			return err
		}
	}
	return taken(&v.gives)
}

func (v *vendor) DeleteBatch(context.Context, provider.Credential, *provider.BatchReport) error {
	v.called("delete")
	return nil
}

// keys resolves a credential for each provider but those of none.
type keys map[string]bool

func (k keys) Resolve(_ context.Context, s keyring.Scope, name string) ([]provider.Credential, error) {
	if k[name] {
		return nil, keyring.ErrNoKey
	}
	if s.Byok == keyring.ModeFleet {
		return []provider.Credential{{Source: keyring.SourceFleet, Fingerprint: "f"}}, nil
	}
	return []provider.Credential{{Source: keyring.SourceByok, Fingerprint: "b"}}, nil
}

// flakyLedger fails once, at what is beyond so many entries; never where left is below 0.
type flakyLedger struct {
	*postgres.Ledger

	left, failures int
}

func (l *flakyLedger) Append(ctx context.Context, entries []ledger.Entry) error {
	if l.left >= 0 && l.left < len(entries) {
		l.left = -1
		l.failures++
		return errors.New("the store is away")
	}
	if l.left >= 0 {
		l.left -= len(entries)
	}
	return l.Ledger.Append(ctx, entries)
}

// fixture is a database with a replica, and two vendors of one model.
type fixture struct {
	*batchjob.Manager

	pool     *pgxpool.Pool
	files    *file.Manager
	one, two *vendor
	ledger   *flakyLedger
	keyless  keys
	refusal  error
	// ahead is how far the replica's clock is before the real one.
	ahead time.Duration
	// spent is the cost that was counted.
	spent   atomic.Int64
	metrics *sdkmetric.ManualReader
}

func open(t *testing.T) *fixture {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	testkit.WriteFile(t, name, strings.Repeat("k", trace.MinSecret)+"\n")
	sealer, err := trace.NewKeys(secret.File(name))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{pool: testkit.Postgres(t, migrations.FS), one: newVendor("one"), two: newVendor("two"), keyless: keys{}}
	f.ledger = &flakyLedger{Ledger: postgres.NewLedger(f.pool), left: -1}
	retention := func(string) time.Duration { return time.Hour }
	f.files = file.NewManager(postgres.NewFiles(f.pool), sealer, retention)
	fleet := &inference.Fleet{
		Keys: f.keyless, Providers: map[string]provider.Provider{"one": f.one, "two": f.two}, Prices: pricetest.Table(t, prices),
	}
	f.metrics = sdkmetric.NewManualReader()
	f.Manager, err = batchjob.New(batchjob.Options{
		Store: postgres.NewBatchJobs(f.pool), Files: f.files, Sealer: sealer, Fleet: func() *inference.Fleet { return fleet },
		Ledger: f.ledger, Refusal: func(context.Context, string, string) error { return f.refusal },
		Retention: retention, Replica: "here", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(f.ahead) },
		Spent: func(r *ledger.Report) { f.spent.Add(int64(r.Cost)) }, Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(f.metrics)).Meter(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// create stores a job of n requests that either vendor may run.
func (f *fixture) create(t *testing.T, n int, reserve *batchjob.Reservation) *batchjob.Job {
	t.Helper()
	j := batchjob.NewJob(ada, batchjob.FormOpenAI, time.Now())
	var content strings.Builder
	requests := make([]batchjob.Request, n)
	for i := range requests {
		requests[i] = batchjob.Request{ID: fmt.Sprint("mine-", i), Input: 5, MostInput: 100, MostOutput: 50}
		fmt.Fprintf(&content, `{"custom_id":"mine-%d","body":{"n":%d,"url":"data:image/jpg;base64,/9j/4AAQ"}}`+"\n", i, i)
	}
	input, err := f.files.Create(t.Context(), ada, file.File{ID: file.NewID(), Purpose: file.PurposeBatch, CreatedAt: time.Now()}, []byte(content.String()))
	if err != nil {
		t.Fatal(err)
	}
	target := func(of string) batchjob.Target {
		return batchjob.Target{Target: provider.Target{Provider: of, Model: "m"}, Upstream: "m-" + of, Source: keyring.SourceFleet}
	}
	j.API, j.Model, j.Input, j.Count, j.RequestID = "/v1/chat/completions", "asked", input.ID, n, "r"
	j.Targets = []batchjob.Target{target("one"), target("two")}
	if err := f.Create(t.Context(), j, requests, reserve); err != nil {
		t.Fatal(err)
	}
	return j
}

// turn makes all jobs due and works on them, n times.
func (f *fixture) turn(t *testing.T, n int) {
	t.Helper()
	for range n {
		testkit.Exec(t, f.pool, "UPDATE batch_job SET due_at = now() - interval '1 second', held_until = now() - interval '1 second'")
		if err := f.Turn(t.Context()); err != nil { // A step that fails is repeated.
			t.Logf("a turn failed: %v", err)
		}
	}
}

func (f *fixture) get(t *testing.T, id string) *batchjob.Job {
	t.Helper()
	j, err := f.Get(t.Context(), ada, batchjob.FormOpenAI, id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// content returns a file as text; empty for none.
func (f *fixture) content(t *testing.T, id string) string {
	t.Helper()
	if id == "" {
		return ""
	}
	stored, err := f.files.Get(t.Context(), ada, id)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for piece, err := range f.files.Read(t.Context(), ada, stored) {
		if err != nil {
			t.Fatal(err)
		}
		text.Write(piece)
	}
	return text.String()
}

// billed returns the number of ledger rows and their sum in pico-USD.
func (f *fixture) billed(t *testing.T) (rows, cost int64) {
	t.Helper()
	return testkit.Value[int64](t, f.pool, "SELECT count(*) FROM ledger_entry"), testkit.Value[int64](t, f.pool, "SELECT coalesce(sum(cost_pico_usd), 0)::bigint FROM ledger_entry")
}

// counted returns the sum of a counter for a label's value.
func (f *fixture) counted(t *testing.T, name, value string) (sum int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := f.metrics.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			data, _ := m.Data.(metricdata.Sum[int64])
			for _, point := range data.DataPoints {
				if label := point.Attributes.ToSlice(); m.Name == name && label[0].Value.AsString() == value {
					sum += point.Value
				}
			}
		}
	}
	return sum
}

// answer returns the result of an answered request.
func answer(id string, usage *provider.Usage) provider.BatchResult {
	line, _ := json.Marshal(map[string]any{"custom_id": id, "response": map[string]any{"status_code": 200, "body": map[string]any{"model": "m-vendor"}}})
	return provider.BatchResult{CustomID: id, Line: line, Outcome: provider.BatchAnswered, Usage: usage}
}

func failure(id string) provider.BatchResult {
	return provider.BatchResult{CustomID: id, Line: []byte(`{"custom_id":"` + id + `","error":{"code":"x"}}`), Outcome: provider.BatchRequestFailed}
}
