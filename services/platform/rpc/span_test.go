package rpc_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/codes"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit"
)

// The span of a call is an error if the service failed, and not if the caller did.
func TestSpansAreErrorsOfTheService(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want codes.Code
	}{
		{"an answer", nil, codes.Unset},
		{"a bad field", apierr.Invalid("name", "required"), codes.Unset},
		{"a refusal", apierr.New(apierr.KindConflict, "settled", "already decided"), codes.Unset},
		{"a store that is away", apierr.New(apierr.KindUnavailable, "store_unavailable", "try again"), codes.Error},
	} {
		t.Run(test.name, func(t *testing.T) {
			spans := tracetest.NewInMemoryExporter()
			server := newServer(t, &testkit.Buffer{}, func(o *rpc.Options) {
				o.Tracer = tracesdk.NewTracerProvider(tracesdk.WithSyncer(spans)).Tracer("")
			})
			server.RegisterService(echoDesc(), answer(nil))
			server.Handle(http.MethodGet, "/v1/watch", "/rpctest.EchoService/Watch", func(http.ResponseWriter, *http.Request) error {
				return test.err
			})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/watch", http.NoBody)
			r.Header.Set("Authorization", "Bearer svc")
			server.Handler().ServeHTTP(httptest.NewRecorder(), r)
			if all := spans.GetSpans(); len(all) != 1 || all[0].Status.Code != test.want {
				t.Errorf("spans %+v, want one with status %s", all, test.want)
			}
		})
	}
}
