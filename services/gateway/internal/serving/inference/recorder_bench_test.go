package inference_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
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

// keeping is a recorder that discards records, but has so many bytes of each answer kept.
type keeping int

func (k keeping) Observe(string) (keep int, ok bool) { return int(k), true }

func (keeping) Record(context.Context, *trace.Observation) {}

// recorded returns an engine over the sandbox that keeps so many bytes of each answer; with a negative number it has no
// recorder.
func recorded(b *testing.B, keep int) *inference.Engine {
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
	if keep >= 0 {
		o.Recorder = keeping(keep)
	}
	engine, err := inference.New(o)
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

type noKeys struct{}

func (noKeys) Resolve(context.Context, keyring.Scope, string) ([]provider.Credential, error) {
	return []provider.Credential{{Source: "fleet"}}, nil
}

type noLedger struct{}

func (noLedger) Ready(context.Context) error { return nil }

func (noLedger) Commit(context.Context, ledger.Entry) error { return nil }
