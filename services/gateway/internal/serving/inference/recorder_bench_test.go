package inference_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sandbox"
	"switchyard.dev/services/platform/batch"
)

// BenchmarkRecord measures what recording adds to a request: nothing recorded, its
// observation without content, and with content. What happens after the answer is not
// in it.
func BenchmarkRecord(b *testing.B) {
	words := strings.Repeat("Why is the sky blue? ", 50)
	body := []byte(`{"model":"sandbox","messages":[{"role":"user","content":"` + words + `"}]}`)
	for _, rule := range []struct {
		name string
		keep int
	}{{"off", -1}, {"lineage", 0}, {"content", 256 << 10}} {
		engine := recorded(b, rule.keep)
		ask := func() *inference.Request {
			return &inference.Request{
				ID: "req_1", Organization: "acme", Route: routing.Request{Model: "sandbox", Substitution: true},
				Raw:  trace.RawRequest{Body: bytes.Clone(body)},
				Chat: provider.Chat{Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: words}}}}},
			}
		}
		b.Run("whole/"+rule.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := engine.Chat(b.Context(), ask()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("stream/"+rule.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				stream, err := engine.StreamChat(b.Context(), ask())
				for err == nil {
					_, err = stream.Next()
				}
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
				stream.Close()
			}
		})
	}
}

// forget empties the queue without storing anything.
func (r *Recorder) forget(_ context.Context, records []*inference.Record) {
	for _, a := range records {
		r.bytes.Add(-weight(a))
	}
}

// watched is an engine over the sandbox, with a recorder of a rule or without one.
func watched(b *testing.B, rule *Rule) *inference.Engine {
	b.Helper()
	policy, err := policy.Parse(policy.Source{Text: []byte("default_model: sandbox/sandbox\nproviders: [{name: sandbox, dialect: sandbox, models: [sandbox]}]\n")}, policy.Source{})
	if err != nil {
		b.Fatal(err)
	}
	prices, err := price.NewTable(nil)
	if err != nil {
		b.Fatal(err)
	}
	fleet := &inference.Fleet{
		Planner: routing.NewRouter(routing.Options{Policy: policy, Prices: prices, Affinities: routing.NewAffinityTable()}), Keys: noKeys{},
		Providers: map[string]provider.Provider{"sandbox": sandbox.New(sandbox.Config{})}, Prices: prices,
	}
	o := inference.Options{
		Fleet: func() *inference.Fleet { return fleet }, Ledger: noLedger{}, Log: slog.New(slog.DiscardHandler),
		Clocks: inference.Clocks{Answer: time.Minute, FirstToken: time.Minute, Idle: time.Minute, Total: time.Minute},
		Meter:  metricnoop.NewMeterProvider().Meter(""), Tracer: tracenoop.NewTracerProvider().Tracer(""),
	}
	if rule != nil {
		recorder, err := NewRecorder(Options{Keys: new(Keys), Rule: func(string) Rule { return *rule }, Log: o.Log, Meter: o.Meter})
		if err != nil {
			b.Fatal(err)
		}
		recorder.queue = batch.NewQueue(batch.Options{Size: maxQueue, Most: maxBatch}, recorder.forget)
		ctx, stop := context.WithCancel(b.Context())
		var emptying sync.WaitGroup
		emptying.Go(func() { _ = recorder.queue.Run(ctx) })
		b.Cleanup(func() { stop(); emptying.Wait() })
		o.Recorder = recorder
	}
	engine, err := inference.New(o)
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

type noKeys struct{}

func (noKeys) Resolve(context.Context, keyring.Scope, string) (provider.Credential, error) {
	return provider.Credential{Source: "fleet"}, nil
}

type noLedger struct{}

func (noLedger) Ready(context.Context) error { return nil }

func (noLedger) Commit(context.Context, ledger.Entry) error { return nil }
