// Package app wires the gateway's packages into one service. It is the only package that imports all others;
// cmd/gateway calls it.
package app

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/gen"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/custody/byok"
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
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/apidoc"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/telemetry"
)

const service = "gateway"

// maxBody is the largest request body in bytes, with room for images inlined as data: URIs.
const maxBody = 32 << 20

// settleTime is how long a call may take beyond GATEWAY_TOTAL_TIMEOUT, so that it can be recorded.
const settleTime = 5 * time.Second

// builder holds the parts of the service while it is built.
type builder struct {
	cfg       Config
	telemetry *telemetry.Telemetry
	runner    *lifecycle.Runner
	pool      *pgxpool.Pool
	redis     *redisdb.Client // nil for none
	control   *postgres.Control
	watcher   *control.Watcher
	vault     *byok.Vault
	custodian *byok.Custodian

	organizations *postgres.Organizations
	runs          *postgres.Runs
	admission     *admission.Controller

	fleets   *fleets
	health   *health.Monitor
	ledger   *ledger.Writer
	answers  *cache.Cache
	recorder *trace.Recorder
	archive  *trace.Archive
	prober   *probe.Prober
	engine   *inference.Engine

	// replica is this replica's name; overrides and models are the operators' settings for routing and for models.
	replica    uuid.UUID
	overrides  *steering.Overrides
	models     *catalog.Store
	reconciler reconcile.Service
	status     *status.Reporter
}

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	lifecycle.TuneCollector()
	p := &builder{cfg: cfg}
	if err := p.openTelemetry(ctx); err != nil {
		return err
	}
	err := p.runner.Build(ctx,
		lifecycle.Step{Name: "stores", Do: p.openStores},
		lifecycle.Step{Name: "redis", Do: p.openRedis},
		lifecycle.Step{Name: "control", Do: p.openControl},
		lifecycle.Step{Name: "admission", Do: p.openAdmission},
		lifecycle.Step{Name: "credentials", Do: p.openByok},
		lifecycle.Step{Name: "steering", Do: p.openSteering},
		lifecycle.Step{Name: "fleet", Do: p.openFleet},
		lifecycle.Step{Name: "health", Do: p.watchHealth},
		lifecycle.Step{Name: "ledger", Do: p.startLedger},
		lifecycle.Step{Name: "cache", Do: p.openCache},
		lifecycle.Step{Name: "traces", Do: p.openTraces},
		lifecycle.Step{Name: "engine", Do: p.buildEngine},
		lifecycle.Step{Name: "probes", Do: p.openProbes},
		lifecycle.Step{Name: "settings", Do: p.followControl},
		lifecycle.Step{Name: "exposure", Do: p.aggregateExposure},
		lifecycle.Step{Name: "reconciliations", Do: p.openReconciliations},
		lifecycle.Step{Name: "status", Do: p.watchStatus},
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

// openStores opens the database and refuses a schema older than this build.
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
	return pgdb.CheckSchema(ctx, b.pool, migrations.FS, service)
}

// buildEngine builds the pipeline.
func (b *builder) buildEngine(context.Context) error {
	images, err := imagefetch.New(imagefetch.Options{AllowTargets: b.cfg.AllowTargets, DenyPrefixes: b.cfg.DenyPrefixes})
	if err != nil {
		return err
	}
	answers := memory.New(b.cfg.AnswerMemory, b.cfg.OrganizationShare)
	if err := answers.Measure(b.telemetry.MeterProvider.Meter(service)); err != nil {
		return err
	}
	b.engine, err = inference.New(inference.Options{
		Fleet: b.fleets.fleet, Ledger: usageLedger{b.ledger, b.vault}, Images: images, Health: b.health, Answers: b.answers, Admission: b.admission,
		Approvals: postgres.NewApprovals(b.control), Canary: b.overrides, Recorder: b.recorder, Memory: answers, After: rpc.After,
		Clocks: inference.Clocks{
			Answer: b.cfg.AnswerTimeout, FirstToken: b.cfg.FirstTokenTimeout, Idle: b.cfg.IdleTimeout, Total: b.cfg.TotalTimeout,
		},
		Log: b.telemetry.Log, Meter: b.telemetry.MeterProvider.Meter(service), Tracer: b.telemetry.TracerProvider.Tracer(service),
	})
	return err
}

// aggregateExposure aggregates credential usage asynchronously, after the ledger commit.
func (b *builder) aggregateExposure(context.Context) error {
	b.runner.Go("exposure", exposure.NewAggregator(postgres.NewExposure(b.pool), b.telemetry.Log).Run)
	return nil
}

// startServers registers the handlers of both faces and serves them.
func (b *builder) startServers(ctx context.Context) error {
	server, err := b.newServer()
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, api.Dependencies{
		Engine: b.engine, Policies: b.fleets, Usage: postgres.NewLedger(b.pool), Answers: erasure{b.answers, b.archive},
		Organizations: b.organizations, Runs: b.runs, Calls: b.admission,
		Byok: b.custodian, Traces: b.archive, Prober: b.prober,
		Approvals: postgres.NewApprovals(b.control), Trust: postgres.NewTrust(b.control),
		Exposure: postgres.NewExposure(b.pool), Audit: b.control, Canonical: b.fleets.canonical,
		Catalog: b.models, Steering: b.overrides, Status: b.status, Reconciler: b.reconciler, Prices: b.fleets.prices,
	}); err != nil {
		return err
	}
	server.HandleOpen("GET /health", rpc.Live())
	server.HandleOpen("GET /health/live", rpc.Live())
	server.HandleOpen("GET /health/ready", api.Ready(b.checks))
	server.HandleOpen("GET /metrics", b.telemetry.MetricsHandler())
	pages, err := console.Handlers()
	if err != nil {
		return err
	}
	document, err := apidoc.Face(gen.OpenAPI, "gateway", "Switchyard gateway", "The API for first-party services and operators. "+
		"In addition, POST /v1/chat/completions, POST /v1/messages and GET /v1/models serve the SDKs of OpenAI and Anthropic.")
	if err != nil {
		return err
	}
	maps.Copy(pages, document)
	for path, handler := range pages {
		server.HandleOpen("GET "+path, handler)
	}
	return server.Serve(ctx, b.runner, b.cfg.HTTPListen, b.cfg.GRPCListen)
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
		Tokens: tokens, Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, NullJSON: optionsv1.E_NullJson,
		ErrorBody: apierr.NewDocument, Dialect: api.DialectOf, RefuseBody: api.RefuseRawKeyBody, RefuseMessage: api.ScreenMessage, MaxBody: maxBody, UnaryTimeout: b.cfg.TotalTimeout + settleTime, TLS: secure,
	})
}
