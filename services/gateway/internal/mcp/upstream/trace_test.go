package upstream_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// A call has a span by the conventions, which the server gets as its parent, and nothing else of the caller's trace.
func TestSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	parents := make(chan [2]string, 1)
	server, c := serve(t, stub(func(w http.ResponseWriter, r *http.Request, m asked) {
		var inBody string
		_ = json.Unmarshal(m.Params.Meta["traceparent"], &inBody)
		parents <- [2]string{r.Header.Get("Traceparent"), inBody}
		if r.Header.Get("Tracestate")+r.Header.Get("Baggage") != "" || m.Params.Meta["baggage"] != nil || m.Params.Meta["tracestate"] != nil {
			t.Errorf("headers %v, _meta %v", r.Header, m.Params.Meta)
		}
		if string(m.Params.Meta[wire.MetaClientInfo]) != `{"name":"switchyard-gateway","version":"1.2.3"}` || string(m.Params.Meta[wire.MetaCapabilities]) != "{}" {
			t.Errorf("_meta %s", m.Params.Meta)
		}
		document(w, m, map[string]string{"ok": good, "bad": `"result":{"content":[],"isError":true}`, "no": `"error":{"code":-5,"message":""}`}[m.Params.Name])
	}), func(o *upstream.Options) { o.Tracer = tracer })
	for tool, want := range map[string]map[string]string{
		"ok":  {"mcp.protocol.version": wire.Modern},
		"bad": {"error.type": "tool_error"},
		"no":  {"error.type": "-5", "rpc.response.status_code": "-5"},
	} {
		ctx, parent := tracer.Start(t.Context(), "caller")
		_, _ = c.Call(ctx, server, &upstream.Call{Tool: tool, Meta: map[string]json.RawMessage{"baggage": json.RawMessage(`"a=b"`), "tracestate": json.RawMessage(`"a=b"`)}})
		parent.End()
		ended := spans.Ended()
		span := ended[len(ended)-2]
		if span.Name() != "tools/call "+tool || span.Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Fatalf("span %s", span.Name())
		}
		sent := "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"
		if diff := cmp.Diff([2]string{sent, sent}, <-parents); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tool, diff)
		}
		want["mcp.method.name"], want["gen_ai.tool.name"], want["network.transport"], want["server.address"] = "tools/call", tool, "tcp", "127.0.0.1"
		got := map[string]string{}
		for _, a := range span.Attributes() {
			if _, ok := want[string(a.Key)]; ok {
				got[string(a.Key)] = a.Value.String()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tool, diff)
		}
	}
}

// Without a span of its own, a call carries none: the caller's trace stays inside.
func TestNoSpan(t *testing.T) {
	server, c := serve(t, stub(func(w http.ResponseWriter, r *http.Request, m asked) {
		if r.Header.Get("Traceparent") != "" || m.Params.Meta["traceparent"] != nil {
			t.Errorf("headers %v, _meta %v", r.Header, m.Params.Meta)
		}
		document(w, m, good)
	}), nil)
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "caller")
	defer span.End()
	if _, err := c.Call(ctx, server, &upstream.Call{Tool: strings.Repeat("a", 128)}); err != nil {
		t.Error(err)
	}
}
