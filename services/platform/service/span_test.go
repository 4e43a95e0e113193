package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// Spans of the stores have the text of a statement and the name of a command, and no values. Without a trace there are
// none.
func TestStoreSpans(t *testing.T) {
	const value = "heliotrope"
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = tracers.Shutdown(context.Background()) })
	s := &Service{Log: testkit.Logger(t), Runner: lifecycle.New(testkit.Logger(t), lifecycle.Options{}), storeTracers: innerTracers{tracers}}
	pool, err := s.Pool(t.Context(), Database{URLFile: file(t, testkit.PostgresURL(t, nil)), Name: "spans"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	address := testkit.Redis(t).Options().Addr
	client, err := s.Redis(t.Context(), Redis{URLFile: file(t, "redis://"+address), Prefix: "spans"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	_ = client.Get(t.Context(), value).Err()
	if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if alone := spans.GetSpans(); len(alone) > 0 {
		t.Errorf("spans outside of a trace: %+v", alone)
	}
	ctx, request := tracers.Tracer("test").Start(t.Context(), "request")
	if _, err := pool.Exec(ctx, "SELECT $1::text", value); err != nil {
		t.Fatal(err)
	}
	if err := client.Get(ctx, value).Err(); err == nil {
		t.Fatal("the key exists")
	}
	request.End()
	all := fmt.Sprintf("%+v", spans.GetSpans())
	if !strings.Contains(all, "SELECT $1::text") || !strings.Contains(all, "Name:get ") {
		t.Errorf("no span of the statement or of the command in %s", all)
	}
	if strings.Contains(all, value) {
		t.Errorf("a value is in %s", all)
	}
}

// file returns a file that contains a URL.
func file(t *testing.T, url string) secret.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	return secret.File(path)
}
