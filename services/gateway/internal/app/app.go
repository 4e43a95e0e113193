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
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/service"
)

const serviceName = "gateway"

// maxBody is the largest request body in bytes, with room for images inlined as data: URIs.
const maxBody = 32 << 20

// settleTime is how long a call may take beyond GATEWAY_TOTAL_TIMEOUT, so that it can be recorded.
const settleTime = 5 * time.Second

// builder holds the parts of the service while it is built.
type builder struct {
	cfg       Config
	service   *service.Service
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
	o := service.Options{Name: serviceName, LogLevel: cfg.LogLevel, DrainDelay: cfg.DrainDelay, DrainGrace: cfg.DrainGrace}
	return service.Run(ctx, o, func(ctx context.Context, s *service.Service) error {
		b := &builder{cfg: cfg, service: s}
		return b.wire(ctx)
	})
}

// wire builds the service in named steps.
func (b *builder) wire(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"stores", b.openStores},
		{"redis", b.openRedis},
		{"control", b.openControl},
		{"admission", b.openAdmission},
		{"credentials", b.openByok},
		{"steering", b.openSteering},
		{"fleet", b.openFleet},
		{"health", b.watchHealth},
		{"ledger", b.startLedger},
		{"cache", b.openCache},
		{"traces", b.openTraces},
		{"engine", b.buildEngine},
		{"probes", b.openProbes},
		{"settings", b.followControl},
		{"exposure", b.aggregateExposure},
		{"reconciliations", b.openReconciliations},
		{"status", b.watchStatus},
		{"servers", b.startServers},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	b.service.Log.InfoContext(ctx, "serving", "http", b.cfg.HTTPListen, "grpc", b.cfg.GRPCListen)
	return nil
}

// openStores opens the database and refuses a schema older than this build.
func (b *builder) openStores(ctx context.Context) (err error) {
	database := service.Database{Setting: prefix + "_DATABASE_URL_FILE", URLFile: b.cfg.DatabaseURLFile, Name: serviceName}
	b.pool, err = b.service.Pool(ctx, database, migrations.FS)
	return err
}

// buildEngine builds the pipeline.
func (b *builder) buildEngine(context.Context) error {
	images, err := imagefetch.New(imagefetch.Options{AllowTargets: b.cfg.AllowTargets, DenyPrefixes: b.cfg.DenyPrefixes})
	if err != nil {
		return err
	}
	answers := memory.New(b.cfg.AnswerMemory, b.cfg.OrganizationShare)
	if err := answers.Measure(b.service.Meter); err != nil {
		return err
	}
	b.engine, err = inference.New(inference.Options{
		Fleet: b.fleets.fleet, Ledger: usageLedger{b.ledger, b.vault}, Images: images, Health: b.health, Answers: b.answers, Admission: b.admission,
		Approvals: postgres.NewApprovals(b.control), Canary: b.overrides, Recorder: b.recorder, Memory: answers, After: rpc.After,
		Clocks: inference.Clocks{
			Answer: b.cfg.AnswerTimeout, FirstToken: b.cfg.FirstTokenTimeout, Idle: b.cfg.IdleTimeout, Total: b.cfg.TotalTimeout,
		},
		Log: b.service.Log, Meter: b.service.Meter, Tracer: b.service.Tracer,
	})
	return err
}

// aggregateExposure aggregates credential usage asynchronously, after the ledger commit.
func (b *builder) aggregateExposure(context.Context) error {
	b.service.Runner.Go("exposure", exposure.NewAggregator(postgres.NewExposure(b.pool), b.service.Log).Run)
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
	pages, err := console.Handlers()
	if err != nil {
		return err
	}
	err = b.service.Mount(server, service.Open{Ready: api.Ready(b.checks), Pages: pages, Contract: service.Contract{
		Files: gen.OpenAPI, Name: "gateway", Title: "Switchyard gateway",
		Description: "What first-party services and operators may call. " +
			"Beside it POST /v1/chat/completions, POST /v1/messages and GET /v1/models answer the SDKs of OpenAI and Anthropic.",
	}})
	if err != nil {
		return err
	}
	return server.Serve(ctx, b.service.Runner, b.cfg.HTTPListen, b.cfg.GRPCListen)
}

func (b *builder) newServer() (*rpc.Server, error) {
	access := service.Access{TokensFile: b.cfg.ServiceTokensFile, AuthDisabled: b.cfg.AuthDisabled, TLS: b.cfg.TLS}
	return b.service.NewServer(access, rpc.Options{
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, NullJSON: optionsv1.E_NullJson,
		ErrorBody: apierr.NewDocument, Dialect: api.DialectOf, RefuseBody: api.RefuseRawKeyBody, RefuseMessage: api.ScreenMessage,
		MaxBody: maxBody, UnaryTimeout: b.cfg.TotalTimeout + settleTime,
	})
}
