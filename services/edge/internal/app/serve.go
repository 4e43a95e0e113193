package app

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/redis"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/apidoc"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
	"switchyard.dev/services/platform/socket"
)

// wireServe builds the role serve: what the way of a customer's call needs, and nothing else.
func wireServe(ctx context.Context, s *service.Service, cfg Config) error {
	stores, err := openStores(ctx, s, cfg)
	if err != nil {
		return fmt.Errorf("stores: %w", err)
	}
	limiter := startLimiter(s, stores.redis)
	table, err := servedRoutes(cfg)
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	keys, err := startKeys(ctx, s, cfg, stores)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	users, err := startUsers(ctx, s, cfg, stores)
	if err != nil {
		return fmt.Errorf("user tokens: %w", err)
	}
	plans, err := startPlans(ctx, s, cfg, stores)
	if err != nil {
		return fmt.Errorf("plans: %w", err)
	}
	err = startServer(ctx, s, cfg, stores.pool, refresher(keys.watcher, users.watcher, plans.watcher), api.Options{
		Table: table, Verifier: keys.verifier, Users: users.verifier, Limiter: limiter, Quotas: plans.quotas,
		Credits: credit.NewManager(postgres.NewCredits(stores.pool), s.Log),
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.Log.InfoContext(ctx, "serving", "http", cfg.Listen, "metrics", cfg.MetricsListen, "routes", len(table.Routes))
	return nil
}

// servedRoutes returns the routes of the configured services.
func servedRoutes(cfg Config) (route.Table, error) {
	table, err := route.Snapshot()
	if err != nil {
		return route.Table{}, err
	}
	return table.Served(slices.Collect(maps.Keys(cfg.upstreams()))), nil
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

// keys are the verification of product keys and what keeps it current.
type keys struct {
	verifier *apikey.Verifier
	watcher  *apikey.Watcher
}

// startKeys starts the verification of product keys and the watcher.
func startKeys(ctx context.Context, s *service.Service, cfg Config, stores stores) (keys, error) {
	pepper, err := pepper(cfg)
	if err != nil {
		return keys{}, err
	}
	store := postgres.NewKeys(stores.pool)
	verifier := apikey.NewVerifier(pepper, store, cfg.KeyCacheSize, cfg.KeyStale,
		cfg.limits())
	watcher, err := apikey.NewWatcher(ctx, verifier, store, s.Log)
	if err != nil {
		return keys{}, err
	}
	s.Runner.Go("key watcher", watcher.Run)
	if stores.redis != nil {
		bus := newBus(stores.redis)
		s.Runner.Go("key announcements", func(ctx context.Context) error { return bus.listen(ctx, verifier.Forget) })
	}
	s.Runner.OnClose("last uses of keys", func(ctx context.Context) error {
		if err := watcher.Flush(ctx); err != nil {
			s.Log.WarnContext(ctx, "last uses of keys are lost", "error", err.Error())
		}
		return nil // The service has stopped as it should.
	})
	// While Postgres is unavailable a replica serves its cached keys for a limited time; then it is not ready.
	s.Runner.Check("keys", func(context.Context) error {
		if behind := watcher.Behind(); behind > cfg.KeyStale {
			return fmt.Errorf("changes of keys not read for %v", behind)
		}
		return nil
	})
	return keys{verifier, watcher}, nil
}

// users are the verification of end users' tokens and what keeps it current.
type users struct {
	verifier *usertoken.Verifier
	watcher  *usertoken.Watcher
}

// startUsers starts the verification of end users' tokens and the watcher.
func startUsers(ctx context.Context, s *service.Service, cfg Config, stores stores) (users, error) {
	verifier := usertoken.NewVerifier(cfg.limits())
	watcher, err := usertoken.NewWatcher(ctx, verifier, postgres.NewTokens(stores.pool), s.Log)
	if err != nil {
		return users{}, err
	}
	s.Runner.Go("user token watcher", watcher.Run)
	return users{verifier, watcher}, nil
}

// limits returns the default limits of keys, which hold for end users, and of organizations.
func (c *Config) limits() apikey.Limits {
	return apikey.Limits{Key: c.KeyLimit, Organization: c.OrgLimit}
}

// refresher returns the function that reads the changes of keys, of what tokens depend on, and of plans. The watchers report what fails.
func refresher(keys *apikey.Watcher, users *usertoken.Watcher, plans *plan.Watcher) func(context.Context) {
	return func(ctx context.Context) {
		keys.Refresh(ctx)
		users.Refresh(ctx)
		_ = plans.Refresh(ctx) // It polls, and logs a failure.
	}
}

// startServer starts the face and the metrics. o holds what the steps before it made.
func startServer(ctx context.Context, s *service.Service, cfg Config, pool *pgxpool.Pool, refresh func(context.Context), o api.Options) error {
	token, err := cfg.ServiceToken.Read()
	if err != nil {
		return fmt.Errorf("%s_SERVICE_TOKEN_FILE: %w", prefix, err)
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
	o.Open["GET /{$}"] = http.RedirectHandler(apidoc.PagePath, http.StatusSeeOther)
	bounds := cfg.bounds()
	if o.Documents, err = api.Documents(o.Table, bounds); err != nil {
		return err
	}
	o.Upstreams, o.Relay = cfg.upstreams(), proxy.New(transport, token, bounds)
	o.Control = wayToControl(cfg, transport, refresh)
	if cfg.GatewayURL.Host != "" {
		o.Members = newMembers(cfg, pool, transport, cfg.ServiceToken)
	}
	if o.Sockets, err = newSockets(s, cfg, token, bounds); err != nil {
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

// Bounds of the relay to the role control. They are separate from customers' bodies and calls, so that the relay takes
// no room from these. Each address has a share of them, because only control can tell callers apart.
const (
	controlBody   = 1 << 20
	controlMemory = 16 << 20
	addressMemory = 4 << 20
	controlCalls  = 1024
	addressCalls  = 25 // percent
)

// wayToControl returns the relay to the role control, nil without its URL.
func wayToControl(cfg Config, transport *connpool.Pool, refresh func(context.Context)) *api.Control {
	if cfg.ControlURL.Host == "" {
		return nil
	}
	bounds := cfg.bounds()
	bounds.Body, bounds.Memory, bounds.Share = controlBody, controlMemory, addressMemory
	bounds.Calls = fairshare.New(controlCalls, addressCalls)
	return &api.Control{
		URL: &cfg.ControlURL, Relay: proxy.NewPlain(transport, bounds), Console: cfg.RelayConsole,
		Proxies: decision.Proxies(cfg.TrustedProxies), Refresh: refresh,
	}
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
func newSockets(s *service.Service, cfg Config, token secret.Value, bounds proxy.Bounds) (*proxy.Sockets, error) {
	secure, err := cfg.UpstreamTLS.Config()
	if err != nil {
		return nil, fmt.Errorf("%s_UPSTREAM_TLS_: %w", prefix, err)
	}
	drain := socket.NewDrain()
	s.Runner.OnDrain("websockets", drain.Begin)
	return proxy.NewSockets(proxy.SocketTransport(secure), token, bounds, drain), nil
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
