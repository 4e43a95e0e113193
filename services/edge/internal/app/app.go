// Package app wires the two roles of the edge, serve and control: settings, construction, the order of start and drain,
// and the other commands. It is the only package that imports all others.
package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/service"
)

// Serve runs the role serve, which customers call, until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	return run(ctx, serviceName, cfg, cfg.servable(), wireServe)
}

// Control runs the role control, which operators call, until ctx ends, then drains it. Customers' calls don't need it.
func Control(ctx context.Context, cfg Config) error {
	return run(ctx, controlName, cfg, cfg.controllable(), wireControl)
}

// wiring builds a role. Each of its steps returns what the steps after it need.
type wiring func(ctx context.Context, s *service.Service, cfg Config) error

// run runs a role under its name in logs, metrics and traces. wrong is what is wrong with its settings.
func run(ctx context.Context, name string, cfg Config, wrong error, wire wiring) error {
	if wrong != nil {
		return fmt.Errorf("settings:\n%w", wrong)
	}
	o := service.Options{Name: name, LogLevel: cfg.LogLevel, LogDropped: cfg.LogSample.Rest(), StoreSpans: cfg.StoreSpans, DrainDelay: cfg.DrainDelay, DrainGrace: cfg.DrainGrace}
	return service.Run(ctx, o, func(ctx context.Context, s *service.Service) error { return wire(ctx, s, cfg) })
}

// stores are the connections to Postgres and Redis.
type stores struct {
	pool  *pgxpool.Pool
	redis *redisdb.Client // nil without Redis
}

// openStores opens the database, refuses a schema that is older than this build, and connects to Redis.
func openStores(ctx context.Context, s *service.Service, cfg Config) (stores, error) {
	pool, err := s.Pool(ctx, cfg.database(), migrations.FS)
	if err != nil {
		return stores{}, err
	}
	client, err := s.Redis(ctx, cfg.redis())
	return stores{pool, client}, err
}

func (c Config) database() service.Database {
	return service.Database{Setting: prefix + "_DATABASE_URL_FILE", URLFile: c.DatabaseURLFile, Name: serviceName, Program: serviceName}
}

func (c Config) redis() service.Redis {
	return service.Redis{Settings: prefix + "_REDIS_", URLFile: c.RedisURLFile, CAFile: c.RedisCAFile, Prefix: serviceName}
}

func (c Config) access() service.Access {
	return service.Access{TokensFile: string(c.ServiceTokens), AuthDisabled: c.AuthDisabled}
}

func pepper(cfg Config) (*apikey.Pepper, error) {
	if cfg.KeyPepperFile == "" {
		return nil, errors.New(prefix + "_KEY_PEPPER_FILE: required, but not set")
	}
	value, err := cfg.KeyPepperFile.Read()
	if err != nil {
		return nil, fmt.Errorf("%s_KEY_PEPPER_FILE: %w", prefix, err)
	}
	return apikey.NewPepper(value)
}
