package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/telemetry"
)

var parent = trace.NewSpanContext(trace.SpanContextConfig{
	TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
})

func inRequest(ctx context.Context) context.Context {
	return telemetry.WithRequestID(trace.ContextWithSpanContext(ctx, parent), "req-1")
}

func TestLog(t *testing.T) {
	const traceID = "01000000000000000000000000000000"
	tests := map[string]struct {
		log  func(context.Context, *slog.Logger)
		want map[string]any
	}{
		"outside a request": {
			func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "started", "port", 8101) },
			map[string]any{"level": "INFO", "msg": "started", "port": 8101.0},
		},
		"in a request": {
			func(ctx context.Context, log *slog.Logger) { log.WarnContext(inRequest(ctx), "slow") },
			map[string]any{"level": "WARN", "msg": "slow", "request_id": "req-1", "trace_id": traceID},
		},
		"in a request, in groups": {
			func(ctx context.Context, log *slog.Logger) {
				log.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").With("c", 3).ErrorContext(inRequest(ctx), "bad", "d", 4)
			},
			map[string]any{
				"level": "ERROR", "msg": "bad", "request_id": "req-1", "trace_id": traceID, "a": 1.0,
				"g": map[string]any{"b": 2.0, "h": map[string]any{"c": 3.0, "d": 4.0}},
			},
		},
		"a secret": {
			func(ctx context.Context, log *slog.Logger) {
				log.InfoContext(ctx, "config", "token", secret.New("hunter2"), "cfg", struct{ Token secret.Value }{secret.New("hunter2")})
			},
			map[string]any{"level": "INFO", "msg": "config", "token": "[redacted]", "cfg": map[string]any{"Token": "[redacted]"}},
		},
		"below the level": {
			func(ctx context.Context, log *slog.Logger) { log.DebugContext(ctx, "detail") },
			nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tt.log(t.Context(), setup(t, &out).Log)
			got := lines(t, &out)
			if tt.want == nil {
				if len(got) != 0 {
					t.Errorf("logged %v", got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("%d lines, want 1", len(got))
			}
			ts, ok := got[0]["ts"].(string)
			if _, err := time.Parse(time.RFC3339Nano, ts); !ok || err != nil || !strings.HasSuffix(ts, "Z") {
				t.Errorf("ts = %v, want RFC 3339 in UTC", got[0]["ts"])
			}
			delete(got[0], "ts")
			tt.want["service"], tt.want["version"] = "gateway", "v1.2.3"
			if diff := cmp.Diff(tt.want, got[0]); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

// Loggers derived from one logger must not see each other's attributes.
func TestLogBranches(t *testing.T) {
	var out bytes.Buffer
	group := setup(t, &out).Log.WithGroup("g").With("x", 1).With("y", 2)
	first, second := group.With("a", 1), group.With("b", 2)
	first.InfoContext(inRequest(t.Context()), "first")
	second.InfoContext(inRequest(t.Context()), "second")
	var got [][]string
	for _, line := range lines(t, &out) {
		inner, ok := line["g"].(map[string]any)
		if !ok || line["request_id"] != "req-1" {
			t.Errorf("line = %v", line)
		}
		got = append(got, slices.Sorted(maps.Keys(inner)))
	}
	if diff := cmp.Diff([][]string{{"a", "x", "y"}, {"b", "x", "y"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLogHandlerKeepsTheContract(t *testing.T) {
	var out bytes.Buffer
	newHandler := func(t *testing.T) slog.Handler {
		t.Helper()
		out.Reset()
		return setup(t, &out).Log.Handler()
	}
	slogtest.Run(t, newHandler, func(t *testing.T) map[string]any {
		t.Helper()
		line := lines(t, &out)[0]
		if ts, ok := line["ts"]; ok {
			line[slog.TimeKey] = ts
		}
		return line
	})
}

func TestRequestID(t *testing.T) {
	if got := telemetry.RequestID(t.Context()); got != "" {
		t.Errorf("without one = %q", got)
	}
	if got := telemetry.RequestID(inRequest(t.Context())); got != "req-1" {
		t.Errorf("with one = %q", got)
	}
}

func lines(t *testing.T, out *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range bytes.Lines(out.Bytes()) {
		var one map[string]any
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}
