// Package app wires the gateway's packages into one service. It is the only package that imports all others;
// cmd/gateway calls it.
package app

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/gen"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/custody/exposure"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/operations/console"
	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/service"
	"switchyard.dev/services/platform/socket"
)

const serviceName = "gateway"

// maxBody is the largest request body in bytes, with room for images inlined as data: URIs.
const maxBody = 32 << 20

// bodyWeight is how many times a byte of a body is in memory while its call lasts: as it was received, as it was decoded,
// as it is sent to a vendor, and once more as what one of these was made from.
const bodyWeight = 4

// settleTime is how long a call may take beyond GATEWAY_TOTAL_TIMEOUT, so that it can be recorded.
const settleTime = 5 * time.Second

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	lifecycle.TuneCollector()
	o := service.Options{Name: serviceName, LogLevel: cfg.LogLevel, LogDropped: cfg.LogSample.Rest(), StoreSpans: cfg.StoreSpans, DrainDelay: cfg.DrainDelay, DrainGrace: cfg.DrainGrace}
	return service.Run(ctx, o, func(ctx context.Context, s *service.Service) error { return build(ctx, s, cfg) })
}

// build builds the service. Each step returns what the steps after it need, and registers its background work.
func build(ctx context.Context, s *service.Service, cfg Config) error {
	stores, err := openStores(ctx, s, cfg)
	if err != nil {
		return fmt.Errorf("stores: %w", err)
	}
	out, err := network.New(network.Options{ConnectTime: cfg.ConnectTimeout, Proxy: cfg.ProxyURLFile, Allowed: cfg.DialNetworks})
	if err != nil {
		return fmt.Errorf("%s_PROXY_URL_FILE: %w", prefix, err)
	}
	governance, err := openGovernance(ctx, s, cfg, stores, out)
	if err != nil {
		return err
	}
	identities, err := startIdentities(s, cfg, out)
	if err != nil {
		return fmt.Errorf("identities: %w", err)
	}
	fleets, err := openFleet(ctx, s, cfg, stores, governance, out, identities)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	pipeline, err := openPipeline(ctx, s, cfg, stores, governance, fleets, out)
	if err != nil {
		return err
	}
	tools, err := openToolEgress(s, cfg, stores, governance, pipeline, out)
	if err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	operations, err := openOperations(ctx, s, cfg, stores, governance, pipeline)
	if err != nil {
		return err
	}
	if err := startServers(ctx, s, cfg, stores, governance, pipeline, tools, operations); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	s.Log.InfoContext(ctx, "serving", "http", cfg.HTTPListen, "grpc", cfg.GRPCListen)
	return nil
}

// stores are the connections to Postgres and Redis, and the settings in Postgres that change at run time.
type stores struct {
	pool    *pgxpool.Pool
	redis   *redisdb.Client // nil without Redis
	control *postgres.Control
	watcher *control.Watcher
}

// openStores opens the database, refuses a schema that is older than this build, and connects to Redis, which holds
// the state that replicas share. No request fails while Redis is down: everything in it can be rebuilt.
func openStores(ctx context.Context, s *service.Service, cfg Config) (stores, error) {
	pool, err := s.Pool(ctx, cfg.database(), migrations.FS)
	if err != nil {
		return stores{}, err
	}
	client, err := s.Redis(ctx, cfg.redis())
	if err != nil {
		return stores{}, err
	}
	settings, watcher := openControl(s, pool, client, cfg.SettingsStale)
	return stores{pool, client, settings, watcher}, nil
}

func (c Config) database() service.Database {
	return service.Database{Setting: prefix + "_DATABASE_URL_FILE", URLFile: c.DatabaseURLFile, Name: serviceName}
}

func (c Config) redis() service.Redis {
	return service.Redis{Settings: prefix + "_REDIS_", URLFile: c.RedisURLFile, CAFile: c.RedisCAFile, Prefix: serviceName}
}

func (c Config) access() service.Access {
	return service.Access{TokensFile: c.ServiceTokensFile, AuthDisabled: c.AuthDisabled, TLS: c.TLS}
}

// governance is who may call, with which credentials, and what operators have set over the policy.
type governance struct {
	replica       uuid.UUID
	organizations *postgres.Organizations
	runs          *postgres.Runs
	admission     *admission.Controller
	credentials   credentials
	overrides     *steering.Overrides
	models        *catalog.Store
}

func openGovernance(ctx context.Context, s *service.Service, cfg Config, stores stores, out *network.Network) (g governance, err error) {
	if err := g.openAdmission(ctx, s, stores); err != nil {
		return g, fmt.Errorf("admission: %w", err)
	}
	if g.credentials, err = openCredentials(s, cfg, stores, out); err != nil {
		return g, fmt.Errorf("credentials: %w", err)
	}
	g.overrides, g.models = openSteering(s, stores)
	return g, nil
}

// pipeline is a request's way to a vendor and back.
type pipeline struct {
	fleets  *fleets
	health  *health.Monitor
	quotas  *quota.Books
	ledger  *ledger.Writer
	answers *cache.Cache
	// memory bounds the answers of vendors and tool servers.
	memory  *memory.Budget
	traces  traces
	engine  *inference.Engine
	batches batches
}

func openPipeline(ctx context.Context, s *service.Service, cfg Config, stores stores, g governance, fleets *fleets, out *network.Network) (p pipeline, err error) {
	p.fleets = fleets
	if p.health, err = startHealth(s, cfg, stores, fleets); err != nil {
		return p, fmt.Errorf("health: %w", err)
	}
	if p.quotas, err = startQuotas(s, stores); err != nil {
		return p, fmt.Errorf("quotas: %w", err)
	}
	if p.ledger, err = startLedger(ctx, s, cfg, stores); err != nil {
		return p, fmt.Errorf("ledger: %w", err)
	}
	if p.answers, err = openCache(ctx, s, cfg, stores, fleets); err != nil {
		return p, fmt.Errorf("cache: %w", err)
	}
	if p.traces, err = openTraces(ctx, s, cfg, stores, fleets); err != nil {
		return p, fmt.Errorf("traces: %w", err)
	}
	p.memory = memory.New(cfg.AnswerMemory, cfg.OrganizationShare)
	if err := p.memory.Measure(s.Meter); err != nil {
		return p, fmt.Errorf("memory: %w", err)
	}
	if p.engine, err = newEngine(s, cfg, stores, g, p, out); err != nil {
		return p, fmt.Errorf("engine: %w", err)
	}
	if p.batches, err = openBatches(s, stores, g, p); err != nil {
		return p, fmt.Errorf("batches: %w", err)
	}
	return p, nil
}

// operations are what operators look at and ask.
type operations struct {
	prober     *probe.Prober
	reconciler reconcile.Service
	status     *status.Reporter
}

// openOperations builds the operators' parts. It loads the settings, which all parts before it follow, and aggregates
// credential usage and spend asynchronously, after the ledger commit.
func openOperations(ctx context.Context, s *service.Service, cfg Config, stores stores, g governance, p pipeline) (o operations, err error) {
	if o.prober, err = openProbes(ctx, s, cfg, stores, g, p); err != nil {
		return o, fmt.Errorf("probes: %w", err)
	}
	if err := followControl(ctx, s, stores.watcher); err != nil {
		return o, fmt.Errorf("settings: %w", err)
	}
	s.Runner.Go("exposure", exposure.NewAggregator(postgres.NewExposure(stores.pool), s.Log).Run)
	if err := startSpend(s, stores.pool); err != nil {
		return o, fmt.Errorf("spend: %w", err)
	}
	o.reconciler = startReconciliations(s, cfg, stores)
	o.status = startStatus(s, cfg, stores, g, p)
	if err := startEvents(s, cfg, stores, g, p); err != nil {
		return o, fmt.Errorf("events: %w", err)
	}
	return o, nil
}

// newEngine returns the pipeline's engine.
func newEngine(s *service.Service, cfg Config, stores stores, g governance, p pipeline, out *network.Network) (*inference.Engine, error) {
	images, err := imagefetch.New(imagefetch.Options{
		AllowTargets: cfg.AllowTargets, DenyPrefixes: cfg.DenyPrefixes, Proxy: out.Proxy(), DialPrefixes: cfg.DialNetworks,
	})
	if err != nil {
		return nil, err
	}
	key, err := fingerprintKey(cfg)
	if err != nil {
		return nil, err
	}
	return inference.New(inference.Options{
		Fleet: p.fleets.fleet, Ledger: usageLedger{p.ledger, g.credentials.cache}, Images: images, Health: p.health, Quotas: p.quotas, Answers: p.answers, Admission: g.admission,
		Approvals: postgres.NewApprovals(stores.control), Canary: g.overrides, Recorder: p.traces.recorder, Memory: p.memory, After: rpc.After,
		Pseudonym: inference.NewPseudonym(key),
		Clocks: inference.Clocks{
			Answer: cfg.AnswerTimeout, FirstToken: cfg.FirstTokenTimeout, Idle: cfg.IdleTimeout, Total: cfg.TotalTimeout,
		},
		Log: s.Log, Meter: s.Meter, Tracer: s.Tracer,
	})
}

// startServers registers the handlers of both faces and serves them.
func startServers(
	ctx context.Context, s *service.Service, cfg Config, stores stores, g governance, p pipeline, t toolEgress, o operations,
) error {
	bodies, err := newBodies(s, cfg)
	if err != nil {
		return err
	}
	server, err := newServer(s, cfg, bodies, p.ledger)
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, api.Dependencies{
		Engine: p.engine, Policies: p.fleets, Usage: postgres.NewLedger(stores.pool), Spend: postgres.NewSpend(stores.pool), Counts: startCounts(s, stores), Answers: erasure{p.answers, p.traces, p.batches},
		Organizations: g.organizations, Runs: g.runs, MostDepth: p.fleets.mostDepth, Calls: g.admission,
		Byok: g.credentials.manager(p.fleets), Traces: p.traces.archive, Conversations: p.traces.conversations(), Prober: o.prober,
		Approvals: postgres.NewApprovals(stores.control), Trust: postgres.NewTrust(stores.control), Expressions: t.expressions, Tools: t.api(), ToolFace: t.face(s, cfg),
		Exposure: postgres.NewExposure(stores.pool), Audit: stores.control, Canonical: p.fleets.canonical,
		Catalog: g.models, Steering: g.overrides, Status: o.status, Reconciler: o.reconciler, Prices: p.fleets.prices,
		Background: openBackground(s, cfg, stores, g, p.traces), Sockets: sockets(s, cfg, g, bodies),
		Files: p.batches.apiFiles(), BatchJobs: p.batches.apiJobs(),
	}); err != nil {
		return err
	}
	pages, err := console.Handlers()
	if err != nil {
		return err
	}
	err = s.Mount(server, service.Open{Ready: api.Ready(checks(s)), Pages: pages, Contract: service.Contract{
		Files: gen.OpenAPI, Name: "gateway", Title: "Switchyard gateway",
		Description: "What first-party services and operators may call. " +
			"Beside it POST /v1/chat/completions, /v1/responses, /v1/messages and GET /v1/models answer the SDKs of OpenAI and Anthropic, " +
			"and the methods below /v1beta/models and /v1/models those of Google.",
	}})
	if err != nil {
		return err
	}
	return server.Serve(ctx, s.Runner, cfg.HTTPListen, cfg.GRPCListen)
}

// sockets configures the WebSocket mode of the Responses API. Its drain begins before that of the faces, which wait for the
// connections.
func sockets(s *service.Service, cfg Config, g governance, bodies *bodymemory.Budget) api.Sockets {
	drain := socket.NewDrain()
	s.Runner.OnDrain("websockets", drain.Begin)
	return api.Sockets{
		Connections: cfg.WebSockets, Memory: cfg.WebSocketMemory, Share: cfg.OrganizationShare, Message: maxBody, Bodies: bodies,
		Drain: drain, Admission: g.admission,
	}
}

// newBodies returns the memory of request bodies, of which the largest body always fits into an organization's share.
func newBodies(s *service.Service, cfg Config) (*bodymemory.Budget, error) {
	share := max(cfg.RequestMemory/100*int64(cfg.OrganizationShare), bodyWeight*maxBody)
	bodies := bodymemory.New(cfg.RequestMemory, share, bodyWeight)
	return bodies, bodies.Measure(s.Meter)
}

func newServer(s *service.Service, cfg Config, bodies *bodymemory.Budget, counts callcount.Recorder) (*rpc.Server, error) {
	return s.NewServer(cfg.access(), rpc.Options{
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, NullJSON: optionsv1.E_NullJson,
		ErrorBody: apierr.NewDocument, Dialect: api.DialectOf, RefuseBody: api.RefuseRawKeyBody, RefuseMessage: api.ScreenMessage,
		MaxBody: maxBody, Bodies: bodies, UnaryTimeout: cfg.TotalTimeout + settleTime, Counts: counts,
	})
}
