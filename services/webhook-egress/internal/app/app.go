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
	"switchyard.dev/services/webhook-egress/internal/redis"
	"switchyard.dev/services/webhook-egress/internal/replay"
	"switchyard.dev/services/webhook-egress/internal/replica"
	"switchyard.dev/services/webhook-egress/internal/signing"
	"switchyard.dev/services/webhook-egress/internal/upkeep"
	"switchyard.dev/services/webhook-egress/migrations"
)

const (
	service = "webhook-egress"
	// maxBody leaves room for spaces in a payload of the largest size.
	maxBody = 1 << 20
	// unaryTimeout bounds an API call.
	unaryTimeout = 15 * time.Second
	// poolSize is for the API and the engine; controlSize is kept for
	// heartbeats and upkeep, which must not queue behind them.
	poolSize, controlSize = 16, 2
)

// parts is the service while it is put together.
type parts struct {
	cfg       Config
	telemetry *telemetry.Telemetry
	runner    *lifecycle.Runner
	tracer    trace.Tracer
	meter     metric.Meter

	store   *postgres.Store // on the pool of the API and the engine
	control *postgres.Store // on the pool of heartbeats and upkeep
	redis   *redisdb.Client // nil for none
	wakes   *wakes
	guard   *netguard.Guard
	box     *seal.Box // nil without a key
	engine  *dispatch.Engine
}

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	lifecycle.TuneCollector()
	p := &parts{cfg: cfg}
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

func (p *parts) openTelemetry(ctx context.Context) error {
	t, err := telemetry.Setup(ctx, telemetry.Options{Service: service, LogLevel: p.cfg.LogLevel})
	if err != nil {
		return err
	}
	t.Install()
	p.telemetry = t
	p.tracer, p.meter = t.TracerProvider.Tracer(service), t.MeterProvider.Meter(service)
	p.runner = lifecycle.New(t.Log, lifecycle.Options{DrainDelay: p.cfg.DrainDelay, Grace: p.cfg.DrainGrace})
	p.runner.OnClose("telemetry", t.Shutdown)
	return nil
}

// openStores opens the pools, refuses an old schema, and connects to Redis.
func (p *parts) openStores(ctx context.Context) error {
	database, err := p.cfg.DatabaseURLFile.Read()
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	open := func(name string, size int32) (*pgxpool.Pool, error) {
		pool, err := pgdb.Open(ctx, pgdb.Options{URL: database.Reveal(), MaxConns: size, ApplicationName: name, Settings: postgres.Settings()})
		if err != nil {
			return nil, err
		}
		p.runner.OnClose(name, func(context.Context) error { pool.Close(); return nil })
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
	p.store = postgres.New(pool, p.cfg.IdempotencyWindow)
	p.control = postgres.New(control, p.cfg.IdempotencyWindow)
	p.runner.Check("database", p.store.Ping)
	return p.openRedis(ctx)
}

// openRedis connects to what replicas share and may lose.
func (p *parts) openRedis(ctx context.Context) error {
	p.wakes = newWakes(p.telemetry.Log)
	if p.cfg.RedisURLFile == "" {
		return nil
	}
	server, err := p.cfg.RedisURLFile.Read()
	if err != nil {
		return fmt.Errorf("redis URL: %w", err)
	}
	if p.redis, err = redisdb.Open(ctx, server.Reveal(), "webhook"); err != nil {
		return err
	}
	p.runner.OnClose("redis", func(context.Context) error { return p.redis.Close() })
	p.wakes.over(p.redis)
	return nil
}

func (p *parts) openGuards(context.Context) (err error) {
	proxy, err := p.egressProxy()
	if err != nil {
		return err
	}
	p.guard, err = netguard.New(netguard.Options{
		AllowTargets: p.cfg.AllowTargets, DenyPrefixes: p.cfg.DenyPrefixes, RequireHTTPS: p.cfg.RequireHTTPS, Proxy: proxy,
	})
	if err != nil || p.cfg.EncryptionKeyFile == "" {
		return err
	}
	key, err := p.cfg.EncryptionKeyFile.Read()
	if err != nil {
		return fmt.Errorf("encryption key: %w", err)
	}
	p.box, err = seal.New(key, "webhook")
	return err
}

// egressProxy reads the proxy's URL; nil for none.
func (p *parts) egressProxy() (*url.URL, error) {
	if p.cfg.ProxyURLFile == "" {
		return nil, nil //nolint:nilnil // No proxy is no fault.
	}
	text, err := p.cfg.ProxyURLFile.Read()
	if err != nil {
		return nil, fmt.Errorf("egress proxy: %w", err)
	}
	proxy, err := url.Parse(strings.TrimSpace(text.Reveal()))
	if err != nil {
		return nil, errors.New("egress proxy: not a URL") // The parser's error would quote it.
	}
	return proxy, nil
}

// startEngine joins the replicas and registers what runs beside the servers.
func (p *parts) startEngine(ctx context.Context) error {
	log := p.telemetry.Log
	keeper := upkeep.New(p.control, log, p.cfg.Retention, p.expiredMeter())
	if err := keeper.Prepare(ctx); err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	member, err := replica.Join(ctx, p.control, name, log, func() { p.engine.Wake() })
	if err != nil {
		return err
	}
	limits := dispatch.LimitsOf(p.cfg.MaxInFlight, p.cfg.MaxInFlightBytes)
	sender := dispatch.NewHTTP(p.guard, p.cfg.RequestTimeout, limits.Flow)
	p.runner.OnClose("idle connections", func(context.Context) error { sender.Close(); return nil })
	options := dispatch.Options{
		Store: p.store, Sender: sender, Replica: member, Log: log, Meter: p.meter, Tracer: p.tracer, Now: time.Now,
		Secrets: signing.NewDirectory(p.cfg.OrgSecretsDir, p.cfg.DefaultSecretFile, log, time.Now),
		Policy:  delivery.Policy{Schedule: p.cfg.RetrySchedule, HoldDelay: holdDelay},
		Breaker: p.newBreaker(), Rates: p.newRates(),
		Limits: limits, Lease: p.cfg.Lease, Notify: p.wakes.notify,
	}
	if p.box != nil {
		options.Opener = p.box
	}
	if p.engine, err = dispatch.New(options); err != nil {
		return err
	}
	p.runner.Go("replica", member.Run)
	p.runner.Go("upkeep", keeper.Run)
	p.runner.Go("engine", p.engine.Run)
	p.runner.Go("wakes", func(ctx context.Context) error { return p.wakes.run(ctx, p.engine.Wake) })
	return nil
}

func (p *parts) newBreaker() *breaker.Breaker {
	policy := breaker.DefaultPolicy()
	policy.Failures, policy.Pause, policy.MaxPause = p.cfg.BreakerFailures, p.cfg.BreakerPause, p.cfg.BreakerMaxPause
	o := breaker.Options{Policy: policy, Log: p.telemetry.Log, Now: time.Now, Random: rand.Float64}
	if p.redis != nil {
		o.KV = redis.NewBreakers(p.redis)
	}
	return breaker.New(o)
}

func (p *parts) newRates() *rate.Limiter {
	var kv rate.KV
	if p.redis != nil {
		kv = redis.NewRates(p.redis)
	}
	return rate.New(kv, p.telemetry.Log, time.Now)
}

// holdDelay is how long a flow waits for a signing secret before it looks again.
const holdDelay = 5 * time.Second

// domain makes what stands behind the API, and registers what of it runs.
func (p *parts) domain() api.Domain {
	intake, targets := delivery.Intake{MaxAttempts: p.cfg.MaxAttempts}, delivery.NewTargets(p.guard, time.Now)
	if p.box != nil {
		intake.Sealer = p.box
	}
	log, replays := p.telemetry.Log, postgres.Replays{Store: p.store}
	deliveries := delivery.NewService(delivery.Options{
		Store: p.store, Dispatcher: p.engine, Targets: targets, Intake: intake, SigningMode: signing.OrgTimestamp, Now: time.Now,
	})
	registry := endpoint.NewService(endpoint.Options{
		Store: postgres.Endpoints{Store: p.store}, Deliverer: deliveries, Waker: p.engine, Targets: targets, Sealer: intake.Sealer,
		Limit: p.cfg.MaxEndpoints, Log: log, Now: time.Now,
	})
	p.runner.Go("enqueue", deliveries.Run)
	p.runner.Go("deleted endpoints", registry.Run)
	p.runner.Go("operational events", event.NewRelay(p.store, p.engine, p.cfg.MaxAttempts, log, time.Now).Run)
	p.runner.Go("replays", replay.NewWorker(replays, p.engine, log).Run)
	return api.Domain{
		Deliverer: deliveries, Registry: registry, Emitter: event.NewService(p.store, p.engine, intake, time.Now),
		Replayer: replay.NewService(replays, time.Now), Organization: p.cfg.DefaultOrganization,
	}
}

// startServers registers the faces. They drain before the engine, so that
// nothing is enqueued while it finishes.
func (p *parts) startServers(ctx context.Context) error {
	var tokens *caller.Tokens
	if !p.cfg.AuthDisabled {
		var err error
		if tokens, err = caller.LoadTokens(p.cfg.ServiceTokensFile); err != nil {
			return err
		}
	}
	secure, err := p.cfg.TLS.Config()
	if err != nil {
		return err
	}
	server, err := rpc.New(rpc.Options{
		Log: p.telemetry.Log, Tracer: p.tracer, Meter: p.meter, Tokens: tokens,
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson,
		ErrorBody: apierr.NewDocument,
		MaxBody:   maxBody, UnaryTimeout: unaryTimeout, TLS: secure,
	})
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, p.domain()); err != nil {
		return err
	}
	server.HandleOpen("GET /health", health(p.store.Ping))
	server.HandleOpen("GET /health/live", rpc.Live())
	server.HandleOpen("GET /health/ready", rpc.Ready(p.runner))
	server.HandleOpen("GET /metrics", p.telemetry.MetricsHandler())
	pages, err := apidoc.Face(gen.OpenAPI, "webhooks", "Switchyard webhook egress", "What first-party services and operators may call.")
	if err != nil {
		return err
	}
	for path, handler := range pages {
		server.HandleOpen("GET "+path, handler)
	}
	if err := server.Serve(ctx, p.runner, p.cfg.HTTPListen, p.cfg.GRPCListen); err != nil {
		return err
	}
	p.runner.OnDrain("engine", p.engine.Drain)
	return nil
}
