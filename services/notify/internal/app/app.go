// Package app wires the notify service. It is the only package that imports all others; cmd/notify calls it.
package app

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/gen"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/notify/internal/api"
	"switchyard.dev/services/notify/internal/breaker"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
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
)

const service = "notify"

// maxBody and unaryTimeout bound a call. The body has room for a webhook payload of 512 KiB beside the message.
const (
	maxBody      = 1 << 20
	unaryTimeout = 10 * time.Second
)

// builder holds the parts of the service during the wiring.
type builder struct {
	cfg       Config
	telemetry *telemetry.Telemetry
	runner    *lifecycle.Runner
	pool      *pgxpool.Pool
	redis     *redisdb.Client // nil without Redis

	guard, webhookGuard *netguard.Guard
	roots               *x509.CertPool // nil for the system's roots
	box                 *seal.Box      // nil without a key
	breaker             *breaker.Breaker
	queue               *postgres.Queue

	senders  []channel.Sender
	engines  map[channel.Name]*dispatch.Engine
	push     *pushParts // nil while web push is off
	feed     *inbox.Feed
	notifier *notifier
}

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	p := &builder{cfg: cfg, engines: make(map[channel.Name]*dispatch.Engine)}
	if err := p.openTelemetry(ctx); err != nil {
		return err
	}
	err := p.runner.Build(ctx,
		lifecycle.Step{Name: "stores", Do: p.openStores},
		lifecycle.Step{Name: "guards", Do: p.openGuards},
		lifecycle.Step{Name: "channels", Do: p.startChannels},
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
	b.runner = lifecycle.New(t.Log, lifecycle.Options{DrainDelay: b.cfg.DrainDelay, Grace: b.cfg.DrainGrace})
	b.runner.OnClose("telemetry", t.Shutdown)
	return nil
}

// openStores opens the database and refuses a schema that is older than this build.
func (b *builder) openStores(ctx context.Context) error {
	url, err := b.cfg.DatabaseURLFile.Read()
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	b.pool, err = pgdb.Open(ctx, pgdb.Options{URL: url.Reveal(), ApplicationName: service})
	if err != nil {
		return err
	}
	b.runner.OnClose("postgres", func(context.Context) error {
		b.pool.Close()
		return nil
	})
	b.runner.Check("postgres", b.pool.Ping)
	if err := pgdb.CheckSchema(ctx, b.pool, migrations.FS, service); err != nil {
		return err
	}
	return b.openRedis(ctx)
}

// openRedis connects to Redis, which holds the state that replicas share and may lose.
func (b *builder) openRedis(ctx context.Context) error {
	if b.cfg.RedisURLFile == "" {
		return nil
	}
	server, err := b.cfg.RedisURLFile.Read()
	if err != nil {
		return fmt.Errorf("redis URL: %w", err)
	}
	if b.redis, err = redisdb.Open(ctx, server.Reveal(), service); err != nil {
		return err
	}
	b.runner.OnClose("redis", func(context.Context) error { return b.redis.Close() })
	return nil
}

// startServers registers and starts both faces.
func (b *builder) startServers(ctx context.Context) error {
	server, err := b.newServer()
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, b.services()); err != nil {
		return err
	}
	server.HandleOpen("GET /health", rpc.Live())
	server.HandleOpen("GET /health/live", rpc.Live())
	server.HandleOpen("GET /health/ready", rpc.Ready(b.runner))
	server.HandleOpen("GET /metrics", b.telemetry.MetricsHandler())
	pages, err := apidoc.Face(gen.OpenAPI, "notify", "Switchyard notify", "What first-party services and operators may call.")
	if err != nil {
		return err
	}
	for path, handler := range pages {
		server.HandleOpen("GET "+path, handler)
	}
	if err := server.Serve(ctx, b.runner, b.cfg.HTTPListen, b.cfg.GRPCListen); err != nil {
		return err
	}
	if err := b.serveDemo(ctx, server.Handler()); err != nil {
		return err
	}
	b.runner.OnDrain("dispatch", b.drainEngines)
	return nil
}

func (b *builder) newServer() (*rpc.Server, error) {
	var tokens *caller.Tokens
	if !b.cfg.AuthDisabled {
		var err error
		if tokens, err = caller.LoadTokens(b.cfg.ServiceTokensFile); err != nil {
			return nil, err
		}
	}
	secure, err := b.cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	return rpc.New(rpc.Options{
		Log: b.telemetry.Log, Tracer: b.telemetry.TracerProvider.Tracer(service), Meter: b.telemetry.MeterProvider.Meter(service),
		Tokens: tokens, Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson,
		ErrorBody: apierr.NewPlain, MaxBody: maxBody, UnaryTimeout: unaryTimeout, TLS: secure,
	})
}

// services creates the implementations behind the API.
func (b *builder) services() api.Services {
	outbox := postgres.NewOutbox(b.pool)
	b.startFeed(b.redis)
	sender := send.Options{
		Registry: channel.NewRegistry(b.cfg.WebPushEnabled, b.senders...),
		Outbox:   announced{outbox, b.notifier.notify}, Lifetime: b.cfg.Delivery.Lifetime, Wake: b.wake,
	}
	if b.box != nil {
		sender.Sealer = b.box
	}
	s := api.Services{
		Sender: send.NewService(sender), Logs: outbox,
		Inboxes: postgres.NewInboxes(b.pool).Announce(b.notifier.notify), Feed: b.feed,
	}
	if b.push != nil {
		s.Push = b.push.registry
	}
	return s
}
