// Package app wires the edge: settings, construction, the order of start and drain, and the commands other than
// serve. It is the only package that imports all others.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	edgeredis "switchyard.dev/services/edge/internal/redis"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/spool"
	"switchyard.dev/services/platform/telemetry"
)

// builder holds the parts of the service during the wiring.
type builder struct {
	cfg       Config
	runner    *lifecycle.Runner
	telemetry *telemetry.Telemetry

	pool     *pgxpool.Pool
	bus      *bus // nil without Redis
	limiter  *limit.Limiter
	verifier *apikey.Verifier
	keys     *apikey.Manager
	meter    *meter.Meter
	table    route.Table
}

// Serve runs the edge until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	if err := cfg.servable(); err != nil {
		return fmt.Errorf("settings:\n%w", err)
	}
	p := &builder{cfg: cfg}
	if err := p.openTelemetry(ctx); err != nil {
		return err
	}
	err := p.runner.Build(ctx,
		lifecycle.Step{Name: "stores", Do: p.openStores},
		lifecycle.Step{Name: "keys", Do: p.startKeys},
		lifecycle.Step{Name: "meter", Do: p.startMeter},
		lifecycle.Step{Name: "server", Do: p.startServer},
	)
	if err != nil {
		return err
	}
	p.telemetry.Log.InfoContext(ctx, "serving", "http", cfg.Listen, "metrics", cfg.MetricsListen, "routes", len(p.table.Routes))
	return p.runner.Run(ctx)
}

func (b *builder) openTelemetry(ctx context.Context) error {
	t, err := telemetry.Setup(ctx, telemetry.Options{Service: service, LogLevel: b.cfg.LogLevel})
	if err != nil {
		return err
	}
	t.Install()
	b.telemetry = t
	b.runner = lifecycle.New(t.Log, lifecycle.Options{DrainDelay: b.cfg.DrainDelay, Grace: b.cfg.DrainGrace})
	b.runner.OnClose("telemetry", t.Shutdown)
	return nil
}

func (b *builder) openStores(ctx context.Context) error {
	pool, err := open(ctx, b.cfg)
	if err != nil {
		return err
	}
	b.pool = pool
	b.runner.OnClose("postgres", func(context.Context) error {
		pool.Close()
		return nil
	})
	if err := pgdb.CheckSchema(ctx, pool, migrations.FS, service); err != nil {
		return err
	}
	return b.openRedis(ctx)
}

// openRedis connects what replicas share and may lose: announcements and rate limits.
func (b *builder) openRedis(ctx context.Context) error {
	client, err := redis(ctx, b.cfg)
	if err != nil {
		return err
	}
	var fleet limit.Fleet
	if client != nil {
		b.bus, fleet = newBus(client), edgeredis.NewLimits(client)
		b.runner.OnClose("redis", func(context.Context) error { return client.Close() })
	}
	b.limiter = limit.New(fleet)
	b.runner.Go("rate limits", func(ctx context.Context) error { return b.limiter.Run(ctx, b.telemetry.Log) })
	return nil
}

// startKeys starts the verification of product keys and the watcher.
func (b *builder) startKeys(ctx context.Context) error {
	table, err := route.Snapshot()
	if err != nil {
		return err
	}
	b.table = table.Served(slices.Collect(maps.Keys(b.cfg.upstreams())))
	pepper, err := pepper(b.cfg)
	if err != nil {
		return err
	}
	store := postgres.NewKeys(b.pool)
	b.verifier = apikey.NewVerifier(pepper, store, b.cfg.KeyCacheSize, b.cfg.KeyStale,
		apikey.Limits{Key: b.cfg.KeyLimit, Organization: b.cfg.OrgLimit})
	watcher, err := apikey.NewWatcher(ctx, b.verifier, store, b.telemetry.Log)
	if err != nil {
		return err
	}
	b.keys = apikey.NewManager(pepper, store, b.announcer(), table.Products(), b.telemetry.Log)
	b.runner.Go("key watcher", watcher.Run)
	if b.bus != nil {
		b.runner.Go("key announcements", func(ctx context.Context) error { return b.bus.listen(ctx, b.verifier.Forget) })
	}
	b.runner.OnClose("last uses of keys", func(ctx context.Context) error {
		watcher.Flush(ctx)
		return nil
	})
	// While Postgres is unavailable a replica serves its cached keys for a limited time; then it is not ready.
	b.runner.Check("keys", func(context.Context) error {
		if behind := watcher.Behind(); behind > b.cfg.KeyStale {
			return fmt.Errorf("changes of keys not read for %v", behind)
		}
		return nil
	})
	return nil
}

// announcer notifies this replica first, then the others if there is a bus. The check for nil is needed because an
// interface that holds a nil pointer is not nil.
func (b *builder) announcer() apikey.Announcer {
	if b.bus == nil {
		return hereFirst{forget: b.verifier.Forget}
	}
	return hereFirst{b.verifier.Forget, b.bus}
}

// startMeter starts the meter. Its loops end after the face has drained, and its spool closes after them.
func (b *builder) startMeter(context.Context) error {
	dir := b.cfg.SpoolDir
	if dir == "" {
		dir = os.TempDir()
	}
	counts, err := spool.Open(filepath.Join(dir, "switchyard-edge"), b.cfg.SpoolLimit)
	if err != nil {
		return err
	}
	b.runner.OnClose("spool", func(context.Context) error { return counts.Close() })
	usage := postgres.NewUsage(b.pool)
	b.meter = meter.New(usage, counts, b.telemetry.Log)
	b.runner.Go("meter", b.meter.Write)
	b.runner.Go("meter replay", b.meter.Replay)
	b.runner.Go("usage upkeep", meter.NewUpkeep(usage, b.cfg.retention(), b.telemetry.Log).Run)
	b.runner.Check("meter", func(context.Context) error { return b.meter.Admit() })
	return nil
}

func (b *builder) startServer(ctx context.Context) error {
	token, err := b.cfg.ServiceToken.Read()
	if err != nil {
		return fmt.Errorf("EDGE_SERVICE_TOKEN_FILE: %w", err)
	}
	var tokens *caller.Tokens
	if !b.cfg.AuthDisabled {
		if tokens, err = caller.LoadTokens(string(b.cfg.ServiceTokens)); err != nil {
			return err
		}
		b.runner.Go("service tokens", func(ctx context.Context) error { return tokens.Watch(ctx, b.telemetry.Log) })
	}
	transport, err := b.upstreamTransport()
	if err != nil {
		return err
	}
	secure, err := b.cfg.TLS.Config()
	if err != nil {
		return err
	}
	handler, err := api.New(api.Options{
		Log: b.telemetry.Log, Tracer: b.telemetry.TracerProvider.Tracer(service), Meter: b.telemetry.MeterProvider.Meter(service),
		Table: b.table, Upstreams: b.cfg.upstreams(),
		Verifier: b.verifier, Limiter: b.limiter, Counter: b.meter, Relay: proxy.New(transport, token, b.cfg.bounds()),
		Keys: b.keys, Ledger: postgres.NewUsage(b.pool), Retention: b.cfg.retention(), Tokens: tokens,
		Open: map[string]http.Handler{
			"GET /health": rpc.Live(), "GET /health/live": rpc.Live(), "GET /health/ready": rpc.Ready(b.runner),
		},
	})
	if err != nil {
		return err
	}
	if err := b.startMetrics(ctx, secure); err != nil {
		return err
	}
	return rpc.ServeHTTP(ctx, b.runner, "http", b.cfg.Listen, handler, secure)
}

// startMetrics serves the metrics on a listener that customers cannot reach.
func (b *builder) startMetrics(ctx context.Context, secure *tls.Config) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", b.telemetry.MetricsHandler())
	return rpc.ServeHTTP(ctx, b.runner, "metrics", b.cfg.MetricsListen, mux, secure)
}

// upstreamTransport returns the connection pool for the services.
func (b *builder) upstreamTransport() (*connpool.Pool, error) {
	secure, err := b.cfg.UpstreamTLS.Config()
	if err != nil {
		return nil, fmt.Errorf("EDGE_UPSTREAM_TLS_: %w", err)
	}
	transport := proxy.Transport(secure)
	b.runner.OnClose("connections", func(context.Context) error {
		transport.CloseIdleConnections()
		return nil
	})
	return transport, nil
}

// open returns the connection pool of the configured database.
func open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	url, err := cfg.DatabaseURLFile.Read()
	if err != nil {
		return nil, fmt.Errorf("EDGE_DATABASE_URL_FILE: %w", err)
	}
	return pgdb.Open(ctx, pgdb.Options{URL: url.Reveal(), ApplicationName: service})
}

// redis returns the client of the configured server, nil without one.
func redis(ctx context.Context, cfg Config) (*redisdb.Client, error) {
	if cfg.RedisURLFile == "" {
		return nil, nil // Redis is optional.
	}
	url, err := cfg.RedisURLFile.Read()
	if err != nil {
		return nil, fmt.Errorf("EDGE_REDIS_URL_FILE: %w", err)
	}
	return redisdb.Open(ctx, url.Reveal(), service)
}

func pepper(cfg Config) (*apikey.Pepper, error) {
	if cfg.KeyPepperFile == "" {
		return nil, errors.New("EDGE_KEY_PEPPER_FILE: required, but not set")
	}
	value, err := cfg.KeyPepperFile.Read()
	if err != nil {
		return nil, fmt.Errorf("EDGE_KEY_PEPPER_FILE: %w", err)
	}
	return apikey.NewPepper(value)
}
