// Package app wires the edge: settings, construction, the order of start and drain, and the commands other than
// serve. It is the only package that imports all others.
package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/redis"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
	"switchyard.dev/services/platform/socket"
)

// Serve runs the edge until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	if err := cfg.servable(); err != nil {
		return fmt.Errorf("settings:\n%w", err)
	}
	o := service.Options{Name: serviceName, LogLevel: cfg.LogLevel, DrainDelay: cfg.DrainDelay, DrainGrace: cfg.DrainGrace}
	return service.Run(ctx, o, func(ctx context.Context, s *service.Service) error { return wire(ctx, s, cfg) })
}

// wire builds the service. Each step returns what the steps after it need.
func wire(ctx context.Context, s *service.Service, cfg Config) error {
	stores, err := openStores(ctx, s, cfg)
	if err != nil {
		return fmt.Errorf("stores: %w", err)
	}
	limiter := startLimiter(s, stores.redis)
	routes, err := newRoutes(cfg)
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	keys, err := startKeys(ctx, s, cfg, stores, routes.products)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	counter, err := startMeter(ctx, s, cfg, stores.pool)
	if err != nil {
		return fmt.Errorf("meter: %w", err)
	}
	err = startServer(ctx, s, cfg, api.Options{
		Table: routes.table, Verifier: keys.verifier, Keys: keys.manager, Limiter: limiter, Counter: counter,
		Ledger: postgres.NewUsage(stores.pool),
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.Log.InfoContext(ctx, "serving", "http", cfg.Listen, "metrics", cfg.MetricsListen, "routes", len(routes.table.Routes))
	return nil
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
	return service.Database{Setting: prefix + "_DATABASE_URL_FILE", URLFile: c.DatabaseURLFile, Name: serviceName}
}

func (c Config) redis() service.Redis {
	return service.Redis{Setting: prefix + "_REDIS_URL_FILE", URLFile: c.RedisURLFile, Prefix: serviceName}
}

// startLimiter starts the rate limits, which replicas share through Redis.
func startLimiter(s *service.Service, client *redisdb.Client) *limit.Limiter {
	var fleet limit.Fleet
	if client != nil {
		fleet = redis.NewLimits(client)
	}
	limiter := limit.New(fleet)
	s.Runner.Go("rate limits", func(ctx context.Context) error { return limiter.Run(ctx, s.Log) })
	return limiter
}

// routes are the routes of the configured services, and the products of all services.
type routes struct {
	table    route.Table
	products []string
}

func newRoutes(cfg Config) (routes, error) {
	table, err := route.Snapshot()
	if err != nil {
		return routes{}, err
	}
	return routes{table.Served(slices.Collect(maps.Keys(cfg.upstreams()))), table.Products()}, nil
}

// keys are the verification of product keys and their manager.
type keys struct {
	verifier *apikey.Verifier
	manager  *apikey.Manager
}

// startKeys starts the verification of product keys and the watcher.
func startKeys(ctx context.Context, s *service.Service, cfg Config, stores stores, products []string) (keys, error) {
	pepper, err := pepper(cfg)
	if err != nil {
		return keys{}, err
	}
	store := postgres.NewKeys(stores.pool)
	verifier := apikey.NewVerifier(pepper, store, cfg.KeyCacheSize, cfg.KeyStale,
		apikey.Limits{Key: cfg.KeyLimit, Organization: cfg.OrgLimit})
	watcher, err := apikey.NewWatcher(ctx, verifier, store, s.Log)
	if err != nil {
		return keys{}, err
	}
	s.Runner.Go("key watcher", watcher.Run)
	announcer := hereFirst{forget: verifier.Forget}
	if stores.redis != nil {
		bus := newBus(stores.redis)
		announcer.others = bus
		s.Runner.Go("key announcements", func(ctx context.Context) error { return bus.listen(ctx, verifier.Forget) })
	}
	s.Runner.OnClose("last uses of keys", func(ctx context.Context) error {
		watcher.Flush(ctx)
		return nil
	})
	// While Postgres is unavailable a replica serves its cached keys for a limited time; then it is not ready.
	s.Runner.Check("keys", func(context.Context) error {
		if behind := watcher.Behind(); behind > cfg.KeyStale {
			return fmt.Errorf("changes of keys not read for %v", behind)
		}
		return nil
	})
	return keys{verifier, apikey.NewManager(pepper, store, announcer, products, s.Log)}, nil
}

// startServer starts the face and the metrics. o holds what the steps before it made.
func startServer(ctx context.Context, s *service.Service, cfg Config, o api.Options) error {
	token, err := cfg.ServiceToken.Read()
	if err != nil {
		return fmt.Errorf("%s_SERVICE_TOKEN_FILE: %w", prefix, err)
	}
	o.Tokens, err = service.Access{TokensFile: string(cfg.ServiceTokens), AuthDisabled: cfg.AuthDisabled}.Tokens()
	if err != nil {
		return err
	}
	if o.Tokens != nil {
		s.Runner.Go("service tokens", func(ctx context.Context) error { return o.Tokens.Watch(ctx, s.Log) })
	}
	transport, err := upstreamTransport(s, cfg)
	if err != nil {
		return err
	}
	secure, err := cfg.TLS.Config()
	if err != nil {
		return err
	}
	o.Log, o.Tracer, o.Meter, o.Open = s.Log, s.Tracer, s.Meter, s.Probes(nil, nil)
	o.Upstreams, o.Relay, o.Retention = cfg.upstreams(), proxy.New(transport, token, cfg.bounds()), cfg.retention()
	o.Bounds = cfg.bounds()
	if o.Sockets, err = newSockets(s, cfg, token); err != nil {
		return err
	}
	o.Drain = onDrain(ctx, s)
	handler, err := api.New(o)
	if err != nil {
		return err
	}
	// The metrics are on a listener that customers cannot reach.
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", s.Metrics)
	if err := rpc.ServeHTTP(ctx, s.Runner, "metrics", cfg.MetricsListen, metrics, secure); err != nil {
		return err
	}
	return rpc.ServeHTTP(ctx, s.Runner, "http", cfg.Listen, handler, secure)
}

// upstreamTransport returns the connection pool for the services.
func upstreamTransport(s *service.Service, cfg Config) (*connpool.Pool, error) {
	secure, err := cfg.UpstreamTLS.Config()
	if err != nil {
		return nil, fmt.Errorf("%s_UPSTREAM_TLS_: %w", prefix, err)
	}
	transport := proxy.Transport(secure)
	s.Runner.OnClose("connections", func(context.Context) error {
		transport.CloseIdleConnections()
		return nil
	})
	return transport, nil
}

// newSockets returns the relay of WebSocket connections. Its drain begins before that of the face, which waits for the
// connections.
func newSockets(s *service.Service, cfg Config, token secret.Value) (*proxy.Sockets, error) {
	secure, err := cfg.UpstreamTLS.Config()
	if err != nil {
		return nil, fmt.Errorf("%s_UPSTREAM_TLS_: %w", prefix, err)
	}
	drain := socket.NewDrain()
	s.Runner.OnDrain("websockets", drain.Begin)
	return proxy.NewSockets(proxy.SocketTransport(secure), token, cfg.bounds(), drain), nil
}

// onDrain returns the function that has calls ended when the service drains, before the face waits for them.
func onDrain(ctx context.Context, s *service.Service) func(end func()) (stop func() bool) {
	drained, drain := context.WithCancel(context.WithoutCancel(ctx))
	s.Runner.OnDrain("streams of events", func(context.Context) error {
		drain()
		return nil
	})
	return func(end func()) func() bool { return context.AfterFunc(drained, end) }
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
