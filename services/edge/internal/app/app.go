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

// parts is the service while it is put together.
type parts struct {
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
	p := &parts{cfg: cfg}
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

func (p *parts) openTelemetry(ctx context.Context) error {
	t, err := telemetry.Setup(ctx, telemetry.Options{Service: service, LogLevel: p.cfg.LogLevel})
	if err != nil {
		return err
	}
	t.Install()
	p.telemetry = t
	p.runner = lifecycle.New(t.Log, lifecycle.Options{DrainDelay: p.cfg.DrainDelay, Grace: p.cfg.DrainGrace})
	p.runner.OnClose("telemetry", t.Shutdown)
	return nil
}

func (p *parts) openStores(ctx context.Context) error {
	pool, err := open(ctx, p.cfg)
	if err != nil {
		return err
	}
	p.pool = pool
	p.runner.OnClose("postgres", func(context.Context) error {
		pool.Close()
		return nil
	})
	if err := pgdb.CheckSchema(ctx, pool, migrations.FS, service); err != nil {
		return err
	}
	return p.openRedis(ctx)
}

// openRedis wires what replicas share and may lose: announcements and rate limits.
func (p *parts) openRedis(ctx context.Context) error {
	client, err := redis(ctx, p.cfg)
	if err != nil {
		return err
	}
	var fleet limit.Fleet
	if client != nil {
		p.bus, fleet = newBus(client), edgeredis.NewLimits(client)
		p.runner.OnClose("redis", func(context.Context) error { return client.Close() })
	}
	p.limiter = limit.New(fleet)
	p.runner.Go("rate limits", func(ctx context.Context) error { return p.limiter.Run(ctx, p.telemetry.Log) })
	return nil
}

// startKeys wires the check of product keys and what keeps it true.
func (p *parts) startKeys(ctx context.Context) error {
	table, err := route.Snapshot()
	if err != nil {
		return err
	}
	p.table = table.Served(slices.Collect(maps.Keys(p.cfg.upstreams())))
	pepper, err := pepper(p.cfg)
	if err != nil {
		return err
	}
	store := postgres.NewKeys(p.pool)
	p.verifier = apikey.NewVerifier(pepper, store, p.cfg.KeyCacheSize, p.cfg.KeyStale,
		apikey.Limits{Key: p.cfg.KeyLimit, Organization: p.cfg.OrgLimit})
	watcher, err := apikey.NewWatcher(ctx, p.verifier, store, p.telemetry.Log)
	if err != nil {
		return err
	}
	p.keys = apikey.NewManager(pepper, store, p.announcer(), table.Products(), p.telemetry.Log)
	p.runner.Go("key watcher", watcher.Run)
	if p.bus != nil {
		p.runner.Go("key announcements", func(ctx context.Context) error { return p.bus.listen(ctx, p.verifier.Forget) })
	}
	p.runner.OnClose("last uses of keys", func(ctx context.Context) error {
		watcher.Flush(ctx)
		return nil
	})
	// While Postgres is away a replica serves the keys it knows; then it is of no use.
	p.runner.Check("keys", func(context.Context) error {
		if behind := watcher.Behind(); behind > p.cfg.KeyStale {
			return fmt.Errorf("changes of keys unknown for %v", behind)
		}
		return nil
	})
	return nil
}

// announcer tells this replica first, then the others where there is a bus: an
// interface that holds a nil isn't nil.
func (p *parts) announcer() apikey.Announcer {
	if p.bus == nil {
		return hereFirst{forget: p.verifier.Forget}
	}
	return hereFirst{p.verifier.Forget, p.bus}
}

// startMeter wires the meter. Its loops end after the face has drained, and its
// spool closes behind them.
func (p *parts) startMeter(context.Context) error {
	dir := p.cfg.SpoolDir
	if dir == "" {
		dir = os.TempDir()
	}
	counts, err := spool.Open(filepath.Join(dir, "switchyard-edge"), p.cfg.SpoolLimit)
	if err != nil {
		return err
	}
	p.runner.OnClose("spool", func(context.Context) error { return counts.Close() })
	usage := postgres.NewUsage(p.pool)
	p.meter = meter.New(usage, counts, p.telemetry.Log)
	p.runner.Go("meter", p.meter.Write)
	p.runner.Go("meter replay", p.meter.Replay)
	p.runner.Go("usage upkeep", meter.NewUpkeep(usage, p.cfg.retention(), p.telemetry.Log).Run)
	p.runner.Check("meter", func(context.Context) error { return p.meter.Admit() })
	return nil
}

func (p *parts) startServer(ctx context.Context) error {
	token, err := p.cfg.ServiceToken.Read()
	if err != nil {
		return fmt.Errorf("EDGE_SERVICE_TOKEN_FILE: %w", err)
	}
	var tokens *caller.Tokens
	if !p.cfg.AuthDisabled {
		if tokens, err = caller.LoadTokens(string(p.cfg.ServiceTokens)); err != nil {
			return err
		}
		p.runner.Go("service tokens", func(ctx context.Context) error { return tokens.Watch(ctx, p.telemetry.Log) })
	}
	transport, err := p.upstreamTransport()
	if err != nil {
		return err
	}
	secure, err := p.cfg.TLS.Config()
	if err != nil {
		return err
	}
	handler, err := api.New(api.Options{
		Log: p.telemetry.Log, Tracer: p.telemetry.TracerProvider.Tracer(service), Meter: p.telemetry.MeterProvider.Meter(service),
		Table: p.table, Upstreams: p.cfg.upstreams(),
		Verifier: p.verifier, Limiter: p.limiter, Counter: p.meter, Relay: proxy.New(transport, token, p.cfg.bounds()),
		Keys: p.keys, Ledger: postgres.NewUsage(p.pool), Retention: p.cfg.retention(), Tokens: tokens,
		Open: map[string]http.Handler{
			"GET /health": rpc.Live(), "GET /health/live": rpc.Live(), "GET /health/ready": rpc.Ready(p.runner),
		},
	})
	if err != nil {
		return err
	}
	if err := p.startMetrics(ctx, secure); err != nil {
		return err
	}
	return rpc.ServeHTTP(ctx, p.runner, "http", p.cfg.Listen, handler, secure)
}

// startMetrics serves the metrics on a listener that customers don't reach.
func (p *parts) startMetrics(ctx context.Context, secure *tls.Config) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", p.telemetry.MetricsHandler())
	return rpc.ServeHTTP(ctx, p.runner, "metrics", p.cfg.MetricsListen, mux, secure)
}

// upstreamTransport is how the services are reached.
func (p *parts) upstreamTransport() (*connpool.Pool, error) {
	secure, err := p.cfg.UpstreamTLS.Config()
	if err != nil {
		return nil, fmt.Errorf("EDGE_UPSTREAM_TLS_: %w", err)
	}
	transport := proxy.Transport(secure)
	p.runner.OnClose("connections", func(context.Context) error {
		transport.CloseIdleConnections()
		return nil
	})
	return transport, nil
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
