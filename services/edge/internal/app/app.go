package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/telemetry"
)

// edge is what the steps of a start build up.
type edge struct {
	cfg    Config
	runner *lifecycle.Runner
	tel    *telemetry.Telemetry

	pool     *pgxpool.Pool
	bus      *bus // nil without Redis
	verifier *apikey.Verifier
	book     *apikey.Book
	meter    *meter.Meter
	table    route.Table
}

// Serve runs the edge until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	if err := cfg.servable(); err != nil {
		return fmt.Errorf("settings:\n%w", err)
	}
	e := &edge{cfg: cfg}
	for _, step := range []func(context.Context) error{e.telemetry, e.stores, e.keys, e.counters, e.face} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return e.runner.Run(ctx)
}

func (e *edge) telemetry(ctx context.Context) error {
	tel, err := telemetry.Setup(ctx, telemetry.Options{Service: service, Version: version(), LogLevel: e.cfg.LogLevel})
	if err != nil {
		return err
	}
	e.tel = tel
	e.runner = lifecycle.New(tel.Log, lifecycle.Options{DrainDelay: e.cfg.DrainDelay, Grace: e.cfg.DrainGrace})
	e.runner.OnClose("telemetry", tel.Shutdown)
	return nil
}

func (e *edge) stores(ctx context.Context) error {
	pool, err := open(ctx, e.cfg)
	if err != nil {
		return err
	}
	e.pool = pool
	e.runner.OnClose("postgres", func(context.Context) error {
		pool.Close()
		return nil
	})
	if err := pgdb.CheckSchema(ctx, pool, migrations.FS, service); err != nil {
		return err
	}
	client, err := redis(ctx, e.cfg)
	if err != nil || client == nil {
		return err
	}
	e.bus = newBus(client)
	e.runner.OnClose("redis", func(context.Context) error { return client.Close() })
	return nil
}

// keys wires the check of product keys and what keeps it true.
func (e *edge) keys(ctx context.Context) error {
	table, err := route.Snapshot()
	if err != nil {
		return err
	}
	e.table = table.Served(slices.Collect(maps.Keys(e.cfg.upstreams())))
	pepper, err := pepper(e.cfg)
	if err != nil {
		return err
	}
	store := postgres.NewKeys(e.pool)
	e.verifier = apikey.NewVerifier(pepper, store, e.cfg.KeyCacheSize, e.cfg.KeyStale)
	watcher, err := apikey.NewWatcher(ctx, e.verifier, store, e.tel.Log)
	if err != nil {
		return err
	}
	e.book = apikey.NewBook(pepper, store, e.announcer(), table.Products(), e.tel.Log)
	e.runner.Go("key watcher", watcher.Run)
	if e.bus != nil {
		e.runner.Go("key announcements", func(ctx context.Context) error { return e.bus.listen(ctx, e.verifier.Forget) })
	}
	e.runner.OnClose("last uses of keys", func(ctx context.Context) error {
		watcher.Flush(ctx)
		return nil
	})
	// While Postgres is away a replica serves the keys it knows; then it is of no use.
	e.runner.Check("keys", func(context.Context) error {
		if behind := watcher.Behind(); behind > e.cfg.KeyStale {
			return fmt.Errorf("changes of keys unknown for %v", behind)
		}
		return nil
	})
	return nil
}

// announcer is the bus, or nothing: an interface that holds a nil isn't nil.
func (e *edge) announcer() apikey.Announcer {
	if e.bus == nil {
		return nil
	}
	return e.bus
}

// counters wires the meter. Its loops end after the face has drained, and its
// spool closes behind them.
func (e *edge) counters(context.Context) error {
	dir := e.cfg.SpoolDir
	if dir == "" {
		dir = os.TempDir()
	}
	spool, err := meter.OpenSpool(filepath.Join(dir, "switchyard-edge"), e.cfg.SpoolLimit)
	if err != nil {
		return err
	}
	e.runner.OnClose("spool", func(context.Context) error { return spool.Close() })
	e.meter = meter.New(postgres.NewUsage(e.pool), spool, e.tel.Log)
	e.runner.Go("meter", e.meter.Write)
	e.runner.Go("meter replay", e.meter.Replay)
	e.runner.Check("meter", func(context.Context) error { return e.meter.Admit() })
	return nil
}

func (e *edge) face(ctx context.Context) error {
	token, err := e.cfg.ServiceToken.Read()
	if err != nil {
		return fmt.Errorf("EDGE_SERVICE_TOKEN_FILE: %w", err)
	}
	var tokens *caller.Tokens
	if !e.cfg.AuthDisabled {
		if tokens, err = caller.LoadTokens(string(e.cfg.ServiceTokens)); err != nil {
			return err
		}
		e.runner.Go("service tokens", func(ctx context.Context) error { return tokens.Watch(ctx, e.tel.Log) })
	}
	transport := proxy.Transport()
	e.runner.OnClose("connections", func(context.Context) error {
		transport.CloseIdleConnections()
		return nil
	})
	handler, err := api.New(api.Options{
		Log: e.tel.Log, Tracer: e.tel.TracerProvider.Tracer(service), Meter: e.tel.MeterProvider.Meter(service),
		Table: e.table, Upstreams: e.cfg.upstreams(),
		Verifier: e.verifier, Counter: e.meter, Relay: proxy.New(transport, token, e.cfg.MaxBody),
		Book: e.book, Ledger: postgres.NewUsage(e.pool), Tokens: tokens,
		Open: map[string]http.Handler{
			"GET /health": rpc.Live(), "GET /health/live": rpc.Live(), "GET /health/ready": rpc.Ready(e.runner),
			"GET /metrics": e.tel.MetricsHandler(),
		},
	})
	if err != nil {
		return err
	}
	if err := rpc.ServeHTTP(ctx, e.runner, "http", e.cfg.Listen, handler, nil); err != nil {
		return err
	}
	e.tel.Log.InfoContext(ctx, "edge listens", "address", e.cfg.Listen, "routes", len(e.table.Routes))
	return nil
}

// open is the pool of the database that the settings name.
func open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	url, err := cfg.DatabaseURLFile.Read()
	if err != nil {
		return nil, fmt.Errorf("EDGE_DATABASE_URL_FILE: %w", err)
	}
	return pgdb.Open(ctx, pgdb.Options{URL: url.Reveal(), ApplicationName: service})
}

// redis is the client of the server that the settings name, nil without one.
func redis(ctx context.Context, cfg Config) (*redisdb.Client, error) {
	if cfg.RedisURLFile == "" {
		return nil, nil //nolint:nilnil // Redis is optional.
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

// version is that of the build, as the toolchain stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
