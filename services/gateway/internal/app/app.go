// Package app puts the gateway together. It is the only package that knows all
// others; cmd/gateway calls it.
package app

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/inference"
	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/telemetry"
)

const service = "gateway"

// maxBody has room for images inlined as data: URIs.
const maxBody = 32 << 20

// settleTime is what a call may take beyond its total clock, to be recorded.
const settleTime = 5 * time.Second

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
	engine, err := newEngine(ctx, cfg, tel, newLedger(pool, tel, runner))
	if err != nil {
		return err
	}
	server, err := newServer(cfg, tel)
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, engine); err != nil {
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

// newLedger starts the one writer, which writes what is left before the
// database closes.
func newLedger(pool *pgxpool.Pool, tel *telemetry.Telemetry, runner *lifecycle.Runner) *ledger.Writer {
	writer := ledger.NewWriter(postgres.NewLedger(pool), tel.Log)
	runner.Check("ledger", writer.Ready)
	runner.Go("ledger", writer.Run)
	runner.OnClose("ledger", writer.Close)
	return writer
}

func newEngine(ctx context.Context, cfg *Config, tel *telemetry.Telemetry, writer *ledger.Writer) (*inference.Engine, error) {
	policy, err := readPolicy(cfg)
	if err != nil {
		return nil, err
	}
	prices, err := readPrices(cfg, policy)
	if err != nil {
		return nil, err
	}
	providers, err := newProviders(cfg, policy)
	if err != nil {
		return nil, err
	}
	keys, err := newKeyring(ctx, cfg, tel, policy)
	if err != nil {
		return nil, err
	}
	return inference.New(inference.Options{
		Planner: policy, Providers: providers, Keys: keys, Prices: prices, Ledger: writer,
		Clocks: inference.Clocks{
			Answer: cfg.AnswerTimeout, FirstToken: cfg.FirstTokenTimeout, Idle: cfg.IdleTimeout, Total: cfg.TotalTimeout,
		},
		Log: tel.Log, Meter: tel.MeterProvider.Meter(service),
	})
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
		ErrorBody: apierr.NewDocument, MaxBody: maxBody, UnaryTimeout: cfg.TotalTimeout + settleTime, TLS: secure,
	})
}

// version is the build's, as the Go toolchain stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
