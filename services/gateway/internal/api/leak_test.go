package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/testkit"
)

// The fleet's key, which vendors repeat in errors of every kind, appears on no face and in no telemetry: bodies,
// headers, gRPC statuses, log, spans, metrics, rows.
func TestFleetKeyStaysInside(t *testing.T) {
	b := setup(t)
	var written []string
	for _, face := range []struct{ path, more string }{{chatPath, ""}, {completions, ""}, {messagesPath, `"max_tokens":9,`}} {
		for _, model := range []string{"first/down", "first/cut", "first/late-error", "first/ok"} {
			for _, stream := range []bool{false, true} {
				got := b.say(t, "POST", face.path, fmt.Sprintf(`{"model":%q,"stream":%v,%s%s}`, model, stream, face.more, messages),
					"X-Switchyard-Early-Stream", fmt.Sprint(stream))
				written = append(written, got.body, fmt.Sprint(got.header))
			}
		}
	}
	client, md := b.client()
	_, err := client.Chat(metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.LlmRequest{Model: "first/down", AllowSubstitution: new(false), Messages: user("hi")})
	if err == nil {
		t.Error("no error over gRPC")
	}
	var numbers metricdata.ResourceMetrics
	if err := b.metrics.Collect(t.Context(), &numbers); err != nil {
		t.Fatal(err)
	}
	counted, _ := json.Marshal(numbers)
	var spans strings.Builder
	for _, span := range b.spans.GetSpans() {
		fmt.Fprintf(&spans, "%+v\n", span)
	}
	var rows string
	if err := b.pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(l::text, ' '), '') FROM ledger_entry l").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if spans.Len() == 0 || len(numbers.ScopeMetrics) == 0 || rows == "" || !strings.Contains(b.log.String(), "[redacted]") {
		t.Error("there is nothing to look through, or no vendor repeated the key: the test proves nothing")
	}
	testkit.NoLeak(t, canary, append(written, fmt.Sprint(err), string(counted), spans.String(), rows, b.log.String())...)
}
