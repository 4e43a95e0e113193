package api_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/custody/secretref"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

var fingerprint = keyring.NewFingerprint(secret.Value{})

// custody is what a bench needs to store credentials and to search for them where they must not be.
type custody struct {
	manager *byok.Manager
	reader  *byok.Reader
	cache   *byok.Cache
	secrets string // the folder of organizations' secrets
	sealing string // the folder of sealing keys
	tracer  trace.Tracer
	spans   *tracetest.InMemoryExporter
	meter   metric.Meter
	metrics *sdkmetric.ManualReader
}

// benchProviders are the names in the bench's policy.
type benchProviders struct{}

func (benchProviders) Canonical(name string) (string, bool) {
	name = strings.ToLower(name)
	if name == "prime" {
		return "first", true
	}
	return name, slices.Contains(strings.Fields("sandbox first second third fourth fifth keyless"), name)
}

func newCustody(tb testing.TB, b *bench, log *slog.Logger) custody {
	tb.Helper()
	c := custody{secrets: tb.TempDir(), sealing: tb.TempDir(), spans: tracetest.NewInMemoryExporter(), metrics: sdkmetric.NewManualReader()}
	c.newSealingKey(tb, "one.key", time.Now())
	seals, err := sealing.NewKeys(c.sealing)
	if err != nil {
		tb.Fatal(err)
	}
	references, err := secretref.New(secretref.Options{FilesDir: c.secrets, EnvPrefix: "BYOKTEST_{organization}__"})
	if err != nil {
		tb.Fatal(err)
	}
	store := postgres.NewByok(b.pool, b.control)
	reader := &byok.Reader{References: references, Seals: seals, Fingerprint: fingerprint}
	c.reader = reader
	c.cache = byok.NewCache(store, reader, log)
	c.manager = byok.NewManager(store, reader, benchProviders{})
	traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(c.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(c.metrics))
	tb.Cleanup(func() {
		_ = traces.Shutdown(context.Background())
		_ = meters.Shutdown(context.Background())
	})
	c.tracer, c.meter = traces.Tracer("test"), meters.Meter("test")
	return c
}

func (c custody) newSealingKey(tb testing.TB, name string, at time.Time) {
	tb.Helper()
	key, err := sealing.Generate(sealing.X25519, at)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := key.Text()
	if err != nil {
		tb.Fatal(err)
	}
	testkit.WriteFile(tb, filepath.Join(c.sealing, name), text.Reveal())
}

// keep stores a secret where an organization's file: reference finds it.
func (c custody) keep(tb testing.TB, organization, name, text string) {
	tb.Helper()
	path := filepath.Join(c.secrets, organization, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tb.Fatal(err)
	}
	testkit.WriteFile(tb, path, text+"\n")
}
