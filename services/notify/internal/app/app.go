// Package app puts the notify service together. It is the only package that
// knows all others; cmd/notify calls it.
package app

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/notify/internal/api"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/telemetry"
)

const service = "notify"

// Limits of a call. The body has room for a webhook payload of 512 KiB beside
// the message.
const (
	maxBody      = 1 << 20
	unaryTimeout = 10 * time.Second
)

// parts is the service while it is put together.
type parts struct {
	cfg       Config
	telemetry *telemetry.Telemetry
	runner    *lifecycle.Runner
	pool      *pgxpool.Pool
}

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	p := &parts{cfg: cfg}
	if err := p.openTelemetry(ctx); err != nil {
		return err
	}
	err := p.runner.Build(ctx,
		lifecycle.Step{Name: "stores", Do: p.openStores},
		lifecycle.Step{Name: "servers", Do: p.startServers},
	)
	if err != nil {
		return err
	}
	p.telemetry.Log.InfoContext(ctx, "serving", "http", cfg.HTTPListen, "grpc", cfg.GRPCListen)
	return p.runner.Run(ctx)
}

func (p *parts) openTelemetry(ctx context.Context) error {
	t, err := telemetry.Setup(ctx, telemetry.Options{Service: service, Version: version(), LogLevel: p.cfg.LogLevel})
	if err != nil {
		return err
	}
	p.telemetry = t
	p.runner = lifecycle.New(t.Log, lifecycle.Options{DrainDelay: p.cfg.DrainDelay, Grace: p.cfg.DrainGrace})
	p.runner.OnClose("telemetry", t.Shutdown)
	return nil
}

// openStores opens the database and refuses a schema older than this build.
func (p *parts) openStores(ctx context.Context) error {
	url, err := p.cfg.DatabaseURLFile.Read()
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	p.pool, err = pgdb.Open(ctx, pgdb.Options{URL: url.Reveal(), ApplicationName: service})
	if err != nil {
		return err
	}
	p.runner.OnClose("postgres", func(context.Context) error {
		p.pool.Close()
		return nil
	})
	p.runner.Check("postgres", p.pool.Ping)
	return pgdb.CheckSchema(ctx, p.pool, migrations.FS, service)
}

// startServers registers both faces.
func (p *parts) startServers(ctx context.Context) error {
	server, err := p.newServer()
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, p.services()); err != nil {
		return err
	}
	server.HandleOpen("GET /health", rpc.Live())
	server.HandleOpen("GET /health/live", rpc.Live())
	server.HandleOpen("GET /health/ready", rpc.Ready(p.runner))
	server.HandleOpen("GET /metrics", p.telemetry.MetricsHandler())
	return server.Serve(ctx, p.runner, p.cfg.HTTPListen, p.cfg.GRPCListen)
}

func (p *parts) newServer() (*rpc.Server, error) {
	var tokens *caller.Tokens
	if !p.cfg.AuthDisabled {
		var err error
		if tokens, err = caller.LoadTokens(p.cfg.ServiceTokensFile); err != nil {
			return nil, err
		}
	}
	secure, err := p.cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	return rpc.New(rpc.Options{
		Log: p.telemetry.Log, Tracer: p.telemetry.TracerProvider.Tracer(service), Meter: p.telemetry.MeterProvider.Meter(service),
		Tokens: tokens, Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson,
		ErrorBody: api.ErrorBody, MaxBody: maxBody, UnaryTimeout: unaryTimeout, TLS: secure,
	})
}

// services are the nouns that the handlers speak to.
func (p *parts) services() api.Services {
	outbox := postgres.NewOutbox(p.pool)
	registry := channel.NewRegistry(p.cfg.WebPushEnabled, channel.InAppSender{})
	return api.Services{
		Sender:  send.NewService(registry, outbox),
		Logs:    outbox,
		Inboxes: postgres.NewInboxes(p.pool),
		WebPush: p.cfg.WebPushEnabled,
	}
}

// version is the build's, as the Go toolchain stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
