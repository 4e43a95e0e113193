// Package app wires webhook-egress: settings, construction in named steps, and the order of shutdown. It is the only
// package that imports all others.
package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/gen"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/platform/apidoc"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/telemetry"
	"switchyard.dev/services/webhook-egress/internal/api"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/internal/rate"
	"switchyard.dev/services/webhook-egress/internal/replay"
	"switchyard.dev/services/webhook-egress/internal/replica"
	"switchyard.dev/services/webhook-egress/internal/signing"
	"switchyard.dev/services/webhook-egress/internal/upkeep"
	"switchyard.dev/services/webhook-egress/migrations"
)

const (
	service = "webhook-egress"
	// maxBody leaves room for whitespace around a payload of the largest size.
	maxBody = 1 << 20
	// unaryTimeout bounds a unary API call.
	unaryTimeout = 15 * time.Second
	// poolSize is for the API and the engine; controlSize is reserved for heartbeats and upkeep, which must not queue
	// behind them.
	poolSize, controlSize = 16, 2
)

// builder holds the parts of the service during the wiring.
type builder struct {
	cfg       Config
	telemetry *telemetry.Telemetry
	runner    *lifecycle.Runner
	tracer    trace.Tracer
	meter     metric.Meter

	store   *postgres.Store // on the pool of the API and the engine
	control *postgres.Store // on the pool of heartbeats and upkeep
	redis   *redisdb.Client // nil without Redis
	wakes   *wakes
	guard   *netguard.Guard
	box     *seal.Box // nil without a key
	engine  *dispatch.Engine
}

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	lifecycle.TuneCollector()
	p := &builder{cfg: cfg}
	if err := p.openTelemetry(ctx); err != nil {
		return err
	}
	err := p.runner.Build(ctx,
		lifecycle.Step{Name: "stores", Do: p.openStores},
		lifecycle.Step{Name: "secrets and guard", Do: p.openGuards},
		lifecycle.Step{Name: "engine", Do: p.startEngine},
		lifecycle.Step{Name: "servers", Do: p.startServers},
	)
	if err != nil {
		return err
	}
	p.telemetry.Log.InfoContext(ctx, "serving", "http", cfg.HTTPListen, "grpc", cfg.GRPCListen)
	return p.runner.Run(ctx)
}

func (b *builder) openTelemetry(ctx context.Context) error {
	t, err := telemetry.Setup(ctx, telemetry.Options{Service: service, LogLevel: b.cfg.LogLevel})
	if err != nil {
		return err
	}
	t.Install()
	b.telemetry = t
	b.tracer, b.meter = t.TracerProvider.Tracer(service), t.MeterProvider.Meter(service)
	b.runner = lifecycle.New(t.Log, lifecycle.Options{DrainDelay: b.cfg.DrainDelay, Grace: b.cfg.DrainGrace})
	b.runner.OnClose("telemetry", t.Shutdown)
	return nil
}

// openStores opens the connection pools, refuses an outdated schema, and connects to Redis.
func (b *builder) openStores(ctx context.Context) error {
	database, err := b.cfg.DatabaseURLFile.Read()
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	open := func(name string, size int32) (*pgxpool.Pool, error) {
		pool, err := pgdb.Open(ctx, pgdb.Options{URL: database.Reveal(), MaxConns: size, ApplicationName: name, Settings: postgres.Settings()})
		if err != nil {
			return nil, err
		}
		b.runner.OnClose(name, func(context.Context) error { pool.Close(); return nil })
		return pool, nil
	}
	control, err := open(service+"-control", controlSize)
	if err != nil {
		return err
	}
	if err := pgdb.CheckSchema(ctx, control, migrations.FS, service); err != nil {
		return err
	}
	pool, err := open(service, poolSize)
	if err != nil {
		return err
	}
	b.store = postgres.New(pool, b.cfg.IdempotencyWindow)
	b.control = postgres.New(control, b.cfg.IdempotencyWindow)
	b.runner.Check("database", b.store.Ping)
	return b.openRedis(ctx)
}

// openRedis connects to Redis, which holds the state that replicas share and may lose.
func (b *builder) openRedis(ctx context.Context) error {
	b.wakes = newWakes(b.telemetry.Log)
	if b.cfg.RedisURLFile == "" {
		return nil
	}
	server, err := b.cfg.RedisURLFile.Read()
	if err != nil {
		return fmt.Errorf("redis URL: %w", err)
	}
	if b.redis, err = redisdb.Open(ctx, server.Reveal(), "webhook"); err != nil {
		return err
	}
	b.runner.OnClose("redis", func(context.Context) error { return b.redis.Close() })
	b.wakes.over(b.redis)
	return nil
}

func (b *builder) openGuards(context.Context) (err error) {
	proxy, err := b.egressProxy()
	if err != nil {
		return err
	}
	b.guard, err = netguard.New(netguard.Options{
		AllowTargets: b.cfg.AllowTargets, DenyPrefixes: b.cfg.DenyPrefixes, RequireHTTPS: b.cfg.RequireHTTPS, Proxy: proxy,
	})
	if err != nil || b.cfg.EncryptionKeyFile == "" {
		return err
	}
	key, err := b.cfg.EncryptionKeyFile.Read()
	if err != nil {
		return fmt.Errorf("encryption key: %w", err)
	}
	b.box, err = seal.New(key, "webhook")
	return err
}

// egressProxy reads the proxy's URL; nil for no proxy.
func (b *builder) egressProxy() (*url.URL, error) {
	if b.cfg.ProxyURLFile == "" {
		return nil, nil //nolint:nilnil // No proxy is not an error.
	}
	text, err := b.cfg.ProxyURLFile.Read()
	if err != nil {
		return nil, fmt.Errorf("egress proxy: %w", err)
	}
	proxy, err := url.Parse(strings.TrimSpace(text.Reveal()))
	if err != nil {
		return nil, errors.New("egress proxy: not a URL") // The parser's error would quote the URL, which may hold a password.
	}
	return proxy, nil
}

// startEngine joins the replicas and registers the background tasks.
func (b *builder) startEngine(ctx context.Context) error {
	log := b.telemetry.Log
	keeper := upkeep.New(b.control, log, b.cfg.Retention, b.expiredMeter())
	if err := keeper.Prepare(ctx); err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	member, err := replica.Join(ctx, b.control, name, log, func() { b.engine.Wake() })
	if err != nil {
		return err
	}
	limits := dispatch.LimitsOf(b.cfg.MaxInFlight, b.cfg.MaxInFlightBytes)
	sender := dispatch.NewHTTP(b.guard, b.cfg.RequestTimeout, limits.Flow)
	b.runner.OnClose("idle connections", func(context.Context) error { sender.Close(); return nil })
	options := dispatch.Options{
		Store: b.store, Sender: sender, Replica: member, Log: log, Meter: b.meter, Tracer: b.tracer, Now: time.Now,
		Secrets: signing.NewDirectory(b.cfg.OrgSecretsDir, b.cfg.DefaultSecretFile, log, time.Now),
		Policy:  delivery.Policy{Schedule: b.cfg.RetrySchedule, HoldDelay: holdDelay},
		Breaker: b.newBreaker(), Rates: b.newRates(),
		Limits: limits, Lease: b.cfg.Lease, Notify: b.wakes.notify,
	}
	if b.box != nil {
		options.Opener = b.box
	}
	if b.engine, err = dispatch.New(options); err != nil {
		return err
	}
	b.runner.Go("replica", member.Run)
	b.runner.Go("upkeep", keeper.Run)
	b.runner.Go("engine", b.engine.Run)
	b.runner.Go("wakes", func(ctx context.Context) error { return b.wakes.run(ctx, b.engine.Wake) })
	return nil
}

func (b *builder) newBreaker() *breaker.Breaker {
	policy := breaker.DefaultPolicy()
	policy.Failures, policy.Pause, policy.MaxPause = b.cfg.BreakerFailures, b.cfg.BreakerPause, b.cfg.BreakerMaxPause
	return breaker.New(breaker.Options{
		Policy: policy, Store: redisdb.NewKV(b.redis, "breaker"), Log: b.telemetry.Log, Now: time.Now, Random: rand.Float64,
	})
}

func (b *builder) newRates() *rate.Limiter {
	return rate.New(redisdb.NewKV(b.redis, "rate"), b.telemetry.Log, time.Now)
}

// holdDelay is how long a flow waits for a missing signing secret before the next try.
const holdDelay = 5 * time.Second

// domain creates the implementations behind the API and registers their background tasks.
func (b *builder) domain() api.Domain {
	intake, targets := delivery.Intake{MaxAttempts: b.cfg.MaxAttempts}, delivery.NewTargets(b.guard, time.Now)
	if b.box != nil {
		intake.Sealer = b.box
	}
	log, replays := b.telemetry.Log, postgres.Replays{Store: b.store}
	deliveries := delivery.NewService(delivery.Options{
		Store: b.store, Dispatcher: b.engine, Targets: targets, Intake: intake, SigningMode: signing.OrgTimestamp, Now: time.Now,
	})
	registry := endpoint.NewService(endpoint.Options{
		Store: postgres.Endpoints{Store: b.store}, Deliverer: deliveries, Waker: b.engine, Targets: targets, Sealer: intake.Sealer,
		Limit: b.cfg.MaxEndpoints, Log: log, Now: time.Now,
	})
	b.runner.Go("enqueue", deliveries.Run)
	b.runner.Go("deleted endpoints", registry.Run)
	b.runner.Go("operational events", event.NewRelay(b.store, b.engine, b.cfg.MaxAttempts, log, time.Now).Run)
	b.runner.Go("replays", replay.NewWorker(replays, b.engine, log).Run)
	return api.Domain{
		Deliverer: deliveries, Registry: registry, Emitter: event.NewService(b.store, b.engine, intake, time.Now),
		Replayer: replay.NewService(replays, time.Now), Organization: b.cfg.DefaultOrganization,
	}
}

// startServers registers both faces. They drain before the engine, so that no delivery is enqueued during its drain.
func (b *builder) startServers(ctx context.Context) error {
	var tokens *caller.Tokens
	if !b.cfg.AuthDisabled {
		var err error
		if tokens, err = caller.LoadTokens(b.cfg.ServiceTokensFile); err != nil {
			return err
		}
	}
	secure, err := b.cfg.TLS.Config()
	if err != nil {
		return err
	}
	server, err := rpc.New(rpc.Options{
		Log: b.telemetry.Log, Tracer: b.tracer, Meter: b.meter, Tokens: tokens,
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson,
		ErrorBody: apierr.NewDocument,
		MaxBody:   maxBody, UnaryTimeout: unaryTimeout, TLS: secure,
	})
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, b.domain()); err != nil {
		return err
	}
	server.HandleOpen("GET /health", health(b.store.Ping))
	server.HandleOpen("GET /health/live", rpc.Live())
	server.HandleOpen("GET /health/ready", rpc.Ready(b.runner))
	server.HandleOpen("GET /metrics", b.telemetry.MetricsHandler())
	pages, err := apidoc.Face(gen.OpenAPI, "webhooks", "Switchyard webhook egress", "What first-party services and operators may call.")
	if err != nil {
		return err
	}
	for path, handler := range pages {
		server.HandleOpen("GET "+path, handler)
	}
	if err := server.Serve(ctx, b.runner, b.cfg.HTTPListen, b.cfg.GRPCListen); err != nil {
		return err
	}
	b.runner.OnDrain("engine", b.engine.Drain)
	return nil
}
