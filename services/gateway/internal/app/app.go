// Package app puts the gateway together. It is the only package that knows all
// others; cmd/gateway calls it.
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
	"switchyard.dev/services/gateway/internal/admission"
	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/byok"
	"switchyard.dev/services/gateway/internal/cache"
	"switchyard.dev/services/gateway/internal/catalog"
	"switchyard.dev/services/gateway/internal/console"
	"switchyard.dev/services/gateway/internal/control"
	"switchyard.dev/services/gateway/internal/exposure"
	"switchyard.dev/services/gateway/internal/health"
	"switchyard.dev/services/gateway/internal/imagefetch"
	"switchyard.dev/services/gateway/internal/inference"
	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/memory"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/probe"
	"switchyard.dev/services/gateway/internal/reconcile"
	"switchyard.dev/services/gateway/internal/status"
	"switchyard.dev/services/gateway/internal/steering"
	"switchyard.dev/services/gateway/internal/trace"
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

// maxBody has room for images inlined as data: URIs.
const maxBody = 32 << 20

// settleTime is what a call may take beyond its total clock, to be recorded.
const settleTime = 5 * time.Second

// parts is the service while it is put together.
type parts struct {
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

	// replica is this one's name, overrides and models what operators set of the routing
	// and of models.
	replica    uuid.UUID
	overrides  *steering.Overrides
	models     *catalog.Store
	reconciler reconcile.Service
	status     *status.Reporter
}

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	lifecycle.TuneCollector()
	p := &parts{cfg: cfg}
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
		lifecycle.Step{Name: "exposure", Do: p.addUpUse},
		lifecycle.Step{Name: "reconciliations", Do: p.keepReconciliations},
		lifecycle.Step{Name: "status", Do: p.watchStatus},
		lifecycle.Step{Name: "servers", Do: p.startServers},
	)
	if err != nil {
		return err
	}
	p.telemetry.Log.InfoContext(ctx, "serving", "http", cfg.HTTPListen, "grpc", cfg.GRPCListen)
	return p.runner.Run(ctx)
}

func (p *parts) openTelemetry(ctx context.Context) error {
	t, err := telemetry.Setup(ctx, telemetry.Options{Service: service, LogLevel: p.cfg.LogLevel})
	if err != nil {
		return err
	}
	t.Install()
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
	return pgdb.CheckSchema(ctx, p.pool, migrations.FS, service)
}

// buildEngine puts the pipeline together.
func (p *parts) buildEngine(context.Context) error {
	images, err := imagefetch.New(imagefetch.Options{AllowTargets: p.cfg.AllowTargets, DenyPrefixes: p.cfg.DenyPrefixes})
	if err != nil {
		return err
	}
	answers := memory.New(p.cfg.AnswerMemory, p.cfg.OrganizationShare)
	if err := answers.Measure(p.telemetry.MeterProvider.Meter(service)); err != nil {
		return err
	}
	p.engine, err = inference.New(inference.Options{
		Fleet: p.fleets.fleet, Ledger: usedLedger{p.ledger, p.vault}, Images: images, Health: p.health, Answers: p.answers, Admission: p.admission,
		Approvals: postgres.NewApprovals(p.control), Canary: p.overrides, Recorder: p.recorder, Memory: answers, After: rpc.After,
		Clocks: inference.Clocks{
			Answer: p.cfg.AnswerTimeout, FirstToken: p.cfg.FirstTokenTimeout, Idle: p.cfg.IdleTimeout, Total: p.cfg.TotalTimeout,
		},
		Log: p.telemetry.Log, Meter: p.telemetry.MeterProvider.Meter(service), Tracer: p.telemetry.TracerProvider.Tracer(service),
	})
	return err
}

// addUpUse has the use of credentials added up, behind the ledger.
func (p *parts) addUpUse(context.Context) error {
	p.runner.Go("exposure", exposure.NewAggregator(postgres.NewExposure(p.pool), p.telemetry.Log).Run)
	return nil
}

// startServers registers both faces.
func (p *parts) startServers(ctx context.Context) error {
	server, err := p.newServer()
	if err != nil {
		return err
	}
	if err := api.Register(ctx, server, api.Nouns{
		Engine: p.engine, Policies: p.fleets, Usage: postgres.NewLedger(p.pool), Answers: erasure{p.answers, p.archive},
		Organizations: p.organizations, Runs: p.runs, Calls: p.admission,
		Byok: p.custodian, Traces: p.archive, Prober: p.prober,
		Approvals: postgres.NewApprovals(p.control), Trust: postgres.NewTrust(p.control),
		Exposure: postgres.NewExposure(p.pool), Audit: p.control, Canonical: p.fleets.canonical,
		Catalog: p.models, Steering: p.overrides, Status: p.status, Reconciler: p.reconciler, Prices: p.fleets.prices,
	}); err != nil {
		return err
	}
	server.HandleOpen("GET /health", rpc.Live())
	server.HandleOpen("GET /health/live", rpc.Live())
	server.HandleOpen("GET /health/ready", api.Ready(p.checks))
	server.HandleOpen("GET /metrics", p.telemetry.MetricsHandler())
	pages, err := console.Handlers()
	if err != nil {
		return err
	}
	document, err := apidoc.Face(gen.OpenAPI, "gateway", "Switchyard gateway", "What first-party services and operators may call. "+
		"Beside it POST /v1/chat/completions, POST /v1/messages and GET /v1/models answer the SDKs of OpenAI and Anthropic.")
	if err != nil {
		return err
	}
	maps.Copy(pages, document)
	for path, handler := range pages {
		server.HandleOpen("GET "+path, handler)
	}
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
		Tokens: tokens, Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, NullJSON: optionsv1.E_NullJson,
		ErrorBody: apierr.NewDocument, Dialect: api.DialectOf, RefuseBody: api.RefuseRawKeyBody, RefuseMessage: api.ScreenMessage, MaxBody: maxBody, UnaryTimeout: p.cfg.TotalTimeout + settleTime, TLS: secure,
	})
}
