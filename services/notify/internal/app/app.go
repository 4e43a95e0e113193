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

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg *Config) error {
	tel, err := telemetry.Setup(ctx, telemetry.Options{Service: service, Version: version(), LogLevel: cfg.LogLevel})
	if err != nil {
		return err
	}
	runner := lifecycle.New(tel.Log, lifecycle.Options{DrainDelay: cfg.DrainDelay, Grace: cfg.DrainGrace})
	runner.OnClose("telemetry", tel.Shutdown)

	pool, err := openStore(ctx, cfg, runner)
	if err != nil {
		return err
	}
	server, err := newServer(cfg, tel)
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, newServices(cfg, pool)); err != nil {
		return err
	}
	server.HandleOpen("GET /health", rpc.Live())
	server.HandleOpen("GET /health/live", rpc.Live())
	server.HandleOpen("GET /health/ready", rpc.Ready(runner))
	server.HandleOpen("GET /metrics", tel.MetricsHandler())
	if err := server.Serve(ctx, runner, cfg.HTTPListen, cfg.GRPCListen); err != nil {
		return err
	}
	tel.Log.InfoContext(ctx, "serving", "http", cfg.HTTPListen, "grpc", cfg.GRPCListen)
	return runner.Run(ctx)
}

// openStore opens the database and refuses a schema older than this build.
func openStore(ctx context.Context, cfg *Config, runner *lifecycle.Runner) (*pgxpool.Pool, error) {
	url, err := cfg.DatabaseURL.Read()
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	pool, err := pgdb.Open(ctx, pgdb.Options{URL: url.Reveal(), ApplicationName: service})
	if err != nil {
		return nil, err
	}
	if err := pgdb.CheckSchema(ctx, pool, migrations.FS, service); err != nil {
		pool.Close()
		return nil, err
	}
	runner.Check("postgres", pool.Ping)
	runner.OnClose("postgres", func(context.Context) error {
		pool.Close()
		return nil
	})
	return pool, nil
}

func newServices(cfg *Config, pool *pgxpool.Pool) api.Services {
	outbox := postgres.NewOutbox(pool)
	registry := channel.NewRegistry(cfg.WebPushEnabled, channel.InAppSender{})
	return api.Services{
		Sender:  send.NewService(registry, outbox),
		Logs:    outbox,
		Inboxes: postgres.NewInboxes(pool),
		WebPush: cfg.WebPushEnabled,
	}
}

func newServer(cfg *Config, tel *telemetry.Telemetry) (*rpc.Server, error) {
	var tokens *caller.Tokens
	if !cfg.AuthDisabled {
		var err error
		if tokens, err = caller.LoadTokens(cfg.ServiceTokens); err != nil {
			return nil, err
		}
	}
	secure, err := cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	return rpc.New(rpc.Options{
		Log: tel.Log, Tracer: tel.TracerProvider.Tracer(service), Meter: tel.MeterProvider.Meter(service),
		Tokens: tokens, Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson,
		ErrorBody: api.ErrorBody, MaxBody: maxBody, UnaryTimeout: unaryTimeout, TLS: secure,
	})
}

// version is the build's, as the Go toolchain stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
