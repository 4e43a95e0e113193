// Package app wires webhook-egress: settings, construction in named steps, and the order of shutdown. It is the only
// package that imports all others.
package app

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"switchyard.dev/gen"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/service"
	"switchyard.dev/services/platform/tunnel"
	"switchyard.dev/services/webhook-egress/internal/api"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/circuit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/eventtype"
	"switchyard.dev/services/webhook-egress/internal/filter"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/internal/rate"
	"switchyard.dev/services/webhook-egress/internal/replay"
	"switchyard.dev/services/webhook-egress/internal/replica"
	"switchyard.dev/services/webhook-egress/internal/signing"
	"switchyard.dev/services/webhook-egress/internal/upkeep"
	"switchyard.dev/services/webhook-egress/migrations"
)

const (
	serviceName = "webhook-egress"
	// maxBody leaves room for whitespace around a payload of the largest size.
	maxBody = 1 << 20
	// unaryTimeout bounds a unary API call.
	unaryTimeout = 15 * time.Second
	// poolSize is for the API and the engine, unless the database's URL says another; controlSize is reserved for
	// heartbeats and upkeep, which must not queue behind them.
	poolSize, controlSize = 16, 2
	// holdDelay is how long a flow waits for a missing signing secret before the next try.
	holdDelay = 5 * time.Second
)

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	lifecycle.TuneCollector()
	o := service.Options{Name: serviceName, LogLevel: cfg.LogLevel, LogDropped: cfg.LogSample.Rest(), StoreSpans: cfg.StoreSpans, DrainDelay: cfg.DrainDelay, DrainGrace: cfg.DrainGrace}
	return service.Run(ctx, o, func(ctx context.Context, s *service.Service) error { return wire(ctx, s, cfg) })
}

// wire builds the service. Each step returns what the steps after it need.
func wire(ctx context.Context, s *service.Service, cfg Config) error {
	stores, err := openStores(ctx, s, cfg)
	if err != nil {
		return fmt.Errorf("stores: %w", err)
	}
	guard, err := newGuard(cfg)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	held, err := openSecrets(ctx, s, cfg)
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	circuits := newBreaker(cfg, stores.redis, s.Log)
	engine, err := startEngine(ctx, s, cfg, stores, guard, held, circuits)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	domain, err := startDomain(s, cfg, stores.store, engine, guard, held)
	if err != nil {
		return fmt.Errorf("domain: %w", err)
	}
	domain.Circuits = circuit.NewService(stores.store, circuits)
	if err := startServers(ctx, s, cfg, stores.store, domain); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	// After the faces, so that no delivery is enqueued during the drain of the engine.
	s.Runner.OnDrain("engine", engine.Drain)
	s.Log.InfoContext(ctx, "serving", "http", cfg.HTTPListen, "grpc", cfg.GRPCListen)
	return nil
}

// stores are the connections to Postgres and Redis.
type stores struct {
	store   *postgres.Store // on the pool of the API and the engine
	control *postgres.Store // on the pool of heartbeats and upkeep
	redis   *redisdb.Client // nil without Redis
}

// openStores opens the connection pools, refuses an outdated schema, and connects to Redis.
func openStores(ctx context.Context, s *service.Service, cfg Config) (stores, error) {
	database := cfg.database()
	database.Name, database.MaxConns = serviceName+"-control", controlSize
	control, err := s.Pool(ctx, database, migrations.FS)
	if err != nil {
		return stores{}, err
	}
	database.Name, database.MaxConns, database.DefaultConns = serviceName, 0, poolSize
	pool, err := s.Pool(ctx, database, nil)
	if err != nil {
		return stores{}, err
	}
	client, err := s.Redis(ctx, cfg.redis())
	if err != nil {
		return stores{}, err
	}
	store := postgres.New(pool, cfg.IdempotencyWindow)
	s.Runner.Check("database", store.Ping)
	return stores{store, postgres.New(control, cfg.IdempotencyWindow), client}, nil
}

func (c Config) database() service.Database {
	return service.Database{Setting: prefix + "_DATABASE_URL_FILE", URLFile: c.DatabaseURLFile, Settings: postgres.Settings()}
}

func (c Config) redis() service.Redis {
	return service.Redis{Settings: prefix + "_REDIS_", URLFile: c.RedisURLFile, CAFile: c.RedisCAFile, Prefix: "webhook"}
}

func (c Config) access() service.Access {
	return service.Access{TokensFile: c.ServiceTokensFile, AuthDisabled: c.AuthDisabled, TLS: c.TLS}
}

func newGuard(cfg Config) (*netguard.Guard, error) {
	proxy, err := tunnel.Open(cfg.ProxyURLFile, nil)
	if err != nil {
		return nil, fmt.Errorf("%s_PROXY_URL_FILE: %w", prefix, err)
	}
	return netguard.New(netguard.Options{
		AllowTargets: cfg.AllowTargets, DenyPrefixes: cfg.DenyPrefixes, RequireHTTPS: cfg.RequireHTTPS, Proxy: proxy,
	})
}

// secrets are what deliveries are signed with, and the key of what is stored.
type secrets struct {
	box           *seal.Box // encrypts the secrets of endpoints; nil without a key
	keys          *signing.KeySet
	organizations *signing.Directory
}

// openSecrets reads the keys, and logs what is wrong with the organizations' secrets.
func openSecrets(ctx context.Context, s *service.Service, cfg Config) (held secrets, err error) {
	if held.box, err = newBox(cfg); err != nil {
		return secrets{}, err
	}
	if held.keys, err = signing.OpenKeys(cfg.SigningKeysFile, s.Log); err != nil {
		return secrets{}, fmt.Errorf("%s_SIGNING_KEYS_FILE: %w", prefix, err)
	}
	held.organizations = signing.NewDirectory(cfg.OrgSecretsDir, cfg.DefaultSecretFile, s.Log, time.Now)
	held.organizations.Check(ctx)
	return held, nil
}

// newBox reads the key that encrypts the secrets of endpoints; nil for no key.
func newBox(cfg Config) (*seal.Box, error) {
	if cfg.EncryptionKeyFile == "" {
		return nil, nil //nolint:nilnil // No key is not an error.
	}
	key, err := cfg.EncryptionKeyFile.Read()
	if err != nil {
		return nil, fmt.Errorf("%s_ENCRYPTION_KEY_FILE: %w", prefix, err)
	}
	return seal.New(key, "webhook")
}

// startEngine joins the replicas and registers the background tasks.
func startEngine(
	ctx context.Context, s *service.Service, cfg Config, stores stores, guard *netguard.Guard, held secrets, circuits *breaker.Breaker,
) (engine *dispatch.Engine, err error) {
	maintainer := upkeep.New(stores.control, s.Log, cfg.Retention, expiredMeter(s.Meter))
	if err := maintainer.Prepare(ctx); err != nil {
		return nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}
	member, err := replica.Join(ctx, stores.control, name, s.Log, func() { engine.Wake() })
	if err != nil {
		return nil, err
	}
	limits := dispatch.LimitsOf(cfg.MaxInFlight, cfg.MaxInFlightBytes)
	sender := dispatch.NewHTTP(guard, dispatch.HTTPOptions{Timeout: cfg.RequestTimeout, PerHost: limits.Flow})
	tokens := auth.NewTokens(guard, time.Now)
	s.Runner.OnClose("idle connections", func(context.Context) error { sender.Close(); tokens.Close(); return nil })
	wakes := newWakes(stores.redis, s.Log)
	options := dispatch.Options{
		Store: stores.store, Sender: sender, Replica: member, Log: s.Log, Meter: s.Meter, Tracer: s.Tracer, Now: time.Now,
		Secrets: held.organizations,
		Policy:  delivery.Policy{Schedule: cfg.RetrySchedule, HoldDelay: holdDelay},
		Breaker: circuits, Rates: rate.New(redisdb.NewKV(stores.redis, "rate"), s.Log, time.Now),
		Limits: limits, Lease: cfg.Lease, Notify: wakes.notify, Keys: held.keys, Tokens: tokens, Timeout: cfg.RequestTimeout,
	}
	if held.box != nil {
		options.Opener = held.box
	}
	if engine, err = dispatch.New(options); err != nil {
		return nil, err
	}
	s.Runner.Go("replica", member.Run)
	s.Runner.Go("upkeep", maintainer.Run)
	s.Runner.Go("engine", engine.Run)
	s.Runner.Go("wakes", func(ctx context.Context) error { return wakes.run(ctx, engine.Wake) })
	return engine, nil
}

func newBreaker(cfg Config, client *redisdb.Client, log *slog.Logger) *breaker.Breaker {
	policy := breaker.DefaultPolicy()
	policy.Failures, policy.Pause, policy.MaxPause = cfg.BreakerFailures, cfg.BreakerPause, cfg.BreakerMaxPause
	return breaker.New(breaker.Options{
		Policy: policy, Store: redisdb.NewKV(client, "breaker"), Log: log, Now: time.Now, Random: rand.Float64,
	})
}

// startDomain creates the implementations behind the API and registers their background tasks.
func startDomain(
	s *service.Service, cfg Config, store *postgres.Store, engine *dispatch.Engine, guard *netguard.Guard, held secrets,
) (api.Domain, error) {
	filters, err := filter.New(filterMeter(s.Meter))
	if err != nil {
		return api.Domain{}, err
	}
	intake, targets := delivery.Intake{MaxAttempts: cfg.MaxAttempts}, delivery.NewTargets(guard, time.Now)
	var opener endpoint.Opener
	if held.box != nil {
		intake.Sealer, opener = held.box, held.box
	}
	replays := postgres.Replays{Store: store}
	deliveries := delivery.NewService(delivery.Options{
		Store: store, Dispatcher: engine, Targets: targets, Intake: intake, SigningMode: signing.OrgTimestamp, Now: time.Now,
	})
	registry := endpoint.NewService(endpoint.Options{
		Store: postgres.Endpoints{Store: store}, Deliverer: deliveries, Waker: engine, Targets: targets, Sealer: intake.Sealer,
		Opener: opener, Secrets: held.organizations, Filters: filters, Keys: held.keys, Limit: cfg.MaxEndpoints,
		Log: s.Log, Now: time.Now,
	})
	types := eventtype.NewService(eventtype.Options{
		Store: postgres.EventTypes{Store: store}, Limit: cfg.MaxEventTypes, Observe: schemaMeter(s.Meter), Log: s.Log, Now: time.Now,
	})
	s.Runner.Go("enqueue", deliveries.Run)
	s.Runner.Go("deleted endpoints", registry.Run)
	s.Runner.Go("operational events", event.NewRelay(store, engine, filters, cfg.MaxAttempts, s.Log, time.Now).Run)
	s.Runner.Go("replays", replay.NewWorker(replays, engine, s.Log).Run)
	return api.Domain{
		Deliverer: deliveries, Registry: registry, Types: types,
		Emitter:  event.NewService(store, engine, filters, types, intake, time.Now),
		House:    event.NewHouse(store, engine, filters, cfg.MaxAttempts, time.Now),
		Replayer: replay.NewService(replays, time.Now), Organization: cfg.DefaultOrganization, Keys: held.keys,
	}, nil
}

// startCounts starts the recorder of calls whose record doesn't store their count, and the pager of all counts. Both
// run until the faces have drained.
func startCounts(s *service.Service, counts *countfeed.Feed) (*countfeed.Recorder, *countfeed.Pager) {
	recorder, pager := countfeed.NewRecorder(counts), countfeed.NewPager(counts, s.Log)
	s.Runner.Go("recorder of call counts", recorder.Run)
	s.Runner.Go("pager of call counts", pager.Run)
	return recorder, pager
}

// startServers registers both faces.
func startServers(ctx context.Context, s *service.Service, cfg Config, store *postgres.Store, domain api.Domain) error {
	recorder, pager := startCounts(s, store.Counts())
	server, err := s.NewServer(cfg.access(), rpc.Options{
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, ErrorBody: apierr.NewDocument,
		MaxBody: maxBody, UnaryTimeout: unaryTimeout, Counts: recorder,
	})
	if err != nil {
		return err
	}
	domain.CallCounts = pager
	if err := api.Register(ctx, server, domain); err != nil {
		return err
	}
	err = s.Mount(server, service.Open{Health: health(store.Ping), Contract: service.Contract{
		Files: gen.OpenAPI, Name: "webhooks", Title: "Switchyard webhook egress",
		Description: "What first-party services and operators may call.",
	}})
	if err != nil {
		return err
	}
	return server.Serve(ctx, s.Runner, cfg.HTTPListen, cfg.GRPCListen)
}
