package api_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/background"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// traced records the bench's requests.
type traced struct {
	recorder  *trace.Recorder
	archive   *trace.Archive
	responses *conversation.Manager
	queue     *background.Queue
	keys      *trace.Keys
	// rule says what is recorded; a test may change it.
	rule atomic.Pointer[trace.Rule]
}

func (b *bench) openTraces(tb testing.TB, log *slog.Logger) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "keys")
	testkit.WriteFile(tb, file, strings.Repeat("k", trace.MinSecret)+"\n")
	keys, err := trace.NewKeys(secret.File(file))
	if err != nil {
		tb.Fatal(err)
	}
	b.rule.Store(&trace.Rule{Lineage: true, Retention: time.Hour, SamplePercent: 100, MaxBytes: 64 << 10, ContentRetention: time.Hour})
	b.keys = keys
	store := postgres.NewTraces(b.pool)
	b.recorder, err = trace.NewRecorder(trace.Options{
		Store: store, Keys: keys, Rule: func(string) trace.Rule { return *b.rule.Load() }, Answer: api.AnswerJSON, Log: log, Meter: b.meter,
	})
	if err != nil {
		tb.Fatal(err)
	}
	redactor := redact.New([]redact.Pattern{{Name: "project", Expression: regexp.MustCompile(`PRJ-\d+`)}})
	b.responses = conversation.NewManager(postgres.NewResponses(b.pool), keys, func(string) time.Duration { return time.Hour })
	b.queue = background.NewQueue(background.Options{
		Store: postgres.NewBackground(b.pool), Conversations: b.responses, Sealer: keys, Replica: "here", Limit: 8, Share: 50, Log: log,
	})
	b.archive = trace.NewArchive(store, keys, func() *redact.Redactor { return redactor }, log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var group sync.WaitGroup
	group.Go(func() { _ = b.recorder.Run(ctx) })
	tb.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

// recorded waits until a request was recorded the given number of times.
func (b *bench) recorded(tb testing.TB, request string, times int) {
	tb.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		n := len(b.traces(tb, request))
		if n == times {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s is recorded %d times, want %d: %s", request, n, times, b.log.String())
		}
		select {
		case <-tb.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// traces returns the records of a request of all organizations.
func (b *bench) traces(tb testing.TB, request string) (found []trace.Record) {
	tb.Helper()
	for _, organization := range testkit.Value[[]string](tb, b.pool, "SELECT coalesce(array_agg(DISTINCT organization_id), '{}') FROM trace_segment") {
		page, _, err := b.archive.Lineage(tb.Context(), trace.Filter{Organization: organization, Request: request, Limit: 100})
		if err != nil {
			tb.Fatal(err)
		}
		found = append(found, page...)
	}
	return found
}

// storedTraces returns the text of everything that is stored of traces, records unpacked.
func (b *bench) storedTraces(tb testing.TB, kind string) string {
	tb.Helper()
	var text strings.Builder
	for _, body := range testkit.Value[[][]byte](tb, b.pool, "SELECT array_agg(body) FROM trace_segment WHERE kind = $1", kind) {
		if kind == trace.KindRecords {
			var err error
			if body, err = s2.Decode(nil, body); err != nil {
				tb.Fatal(err)
			}
		}
		text.Write(body)
	}
	return text.String()
}

// only returns the one item of a list.
func only(tb testing.TB, list any) map[string]any {
	tb.Helper()
	items, ok := list.([]any)
	if !ok || len(items) != 1 {
		tb.Fatalf("%v, want one item", list)
	}
	return items[0].(map[string]any)
}
