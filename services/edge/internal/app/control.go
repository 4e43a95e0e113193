package app

import (
	"context"
	"fmt"
	"net/url"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/console"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/service"
)

// wireControl builds the role control.
func wireControl(ctx context.Context, s *service.Service, cfg Config) error {
	stores, err := openStores(ctx, s, cfg)
	if err != nil {
		return fmt.Errorf("stores: %w", err)
	}
	manager, err := newManager(s, cfg, stores)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	users, err := newUserTokens(ctx, s, cfg, stores)
	if err != nil {
		return fmt.Errorf("user tokens: %w", err)
	}
	tokens, err := startTokens(s, cfg)
	if err != nil {
		return fmt.Errorf("service tokens: %w", err)
	}
	billed, err := startSpend(s, cfg, stores)
	if err != nil {
		return fmt.Errorf("spend: %w", err)
	}
	usage, err := startUsage(ctx, s, cfg, stores, billed)
	if err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	rules, err := startAlerts(ctx, s, cfg, stores)
	if err != nil {
		return fmt.Errorf("alerts: %w", err)
	}
	people, err := startApprovers(ctx, s, cfg, stores, manager)
	if err != nil {
		return fmt.Errorf("approvers: %w", err)
	}
	plans, err := startPlans(ctx, s, cfg, stores)
	if err != nil {
		return fmt.Errorf("plans: %w", err)
	}
	if err := startEvents(ctx, s, cfg, stores, plans.watcher); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	exports, err := startExports(ctx, s, cfg, stores, billed)
	if err != nil {
		return fmt.Errorf("exports: %w", err)
	}
	limiter := startLimiter(s, stores.redis)
	pages, err := newPortal(ctx, s, cfg, stores, plans.quotas, limiter)
	if err != nil {
		return fmt.Errorf("portal: %w", err)
	}
	operators, err := newConsole(ctx, s, cfg, stores, tokens, limiter)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	err = startControlServer(ctx, s, cfg, control.Options{
		Keys: manager, Users: users, Ledger: usage, Retention: cfg.retention(), Tokens: tokens, Alerts: rules,
		Approvers: people.groups, Decisions: people.decisions, Slack: people.slack,
		Plans:   plan.NewManager(postgres.NewPlans(stores.pool), cfg.DefaultPlan, s.Log),
		Credits: credit.NewManager(postgres.NewCredits(stores.pool), s.Log),
		Windows: postgres.NewThresholds(stores.pool),
		Exports: exports, Portal: pages, Console: operators,
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.Log.InfoContext(ctx, "serving", "http", cfg.ControlListen)
	return nil
}

// newManager returns the manager of keys, which announces changes to the replicas of the role serve.
func newManager(s *service.Service, cfg Config, stores stores) (*apikey.Manager, error) {
	table, err := route.Snapshot()
	if err != nil {
		return nil, err
	}
	pepper, err := pepper(cfg)
	if err != nil {
		return nil, err
	}
	var announce apikey.Announcer
	if stores.redis != nil {
		announce = newBus(stores.redis)
	}
	return apikey.NewManager(pepper, postgres.NewKeys(stores.pool), announce, table.Products(), s.Log), nil
}

// newUserTokens returns the manager of end users' tokens, which has a key that signs them.
func newUserTokens(ctx context.Context, s *service.Service, cfg Config, stores stores) (*usertoken.Manager, error) {
	value, err := cfg.KeyPepperFile.Read()
	if err != nil {
		return nil, fmt.Errorf("%s_KEY_PEPPER_FILE: %w", prefix, err)
	}
	box, err := usertoken.NewBox(value)
	if err != nil {
		return nil, err
	}
	users := usertoken.NewManager(box, postgres.NewTokens(stores.pool), s.Log)
	return users, users.Ensure(ctx)
}

// startTokens returns the service tokens, which are read again when their file changes; nil if authentication is disabled.
func startTokens(s *service.Service, cfg Config) (*caller.Tokens, error) {
	tokens, err := cfg.access().Tokens()
	if err != nil || tokens == nil {
		return nil, err
	}
	s.Runner.Go("service tokens", func(ctx context.Context) error { return tokens.Watch(ctx, s.Log) })
	return tokens, nil
}

// newPortal returns what the portal needs; nil if it is off.
func newPortal(
	ctx context.Context, s *service.Service, cfg Config, stores stores, quotas *quota.Enforcer, limiter *limit.Limiter,
) (*control.Portal, error) {
	if cfg.PortalURL == (url.URL{}) {
		return nil, nil // control.Options requires it.
	}
	table, err := servedRoutes(cfg)
	if err != nil {
		return nil, err
	}
	token, err := cfg.ServiceToken.Read()
	if err != nil {
		return nil, fmt.Errorf("%s_SERVICE_TOKEN_FILE: %w", prefix, err)
	}
	transport, err := upstreamTransport(s, cfg)
	if err != nil {
		return nil, err
	}
	bounds := cfg.bounds()
	bounds.Body, bounds.Memory, bounds.Share = controlBody, controlMemory, addressMemory
	all, err := route.Snapshot()
	if err != nil {
		return nil, err
	}
	pages := &control.Portal{
		Sessions: portal.NewSessions(postgres.NewPortal(stores.pool), all), URL: &cfg.PortalURL, Table: table, Upstreams: cfg.upstreams(),
		Relay: proxy.New(transport, token, bounds), Limiter: limiter, Enforcer: quotas, Drain: onDrain(ctx, s),
	}
	if cfg.GatewayURL.Host != "" {
		pages.Members = newMembers(cfg, stores.pool, transport, cfg.ServiceToken)
	}
	return pages, nil
}

// newConsole returns what the console needs; nil if it is off.
func newConsole(
	ctx context.Context, s *service.Service, cfg Config, stores stores, tokens *caller.Tokens, limiter *limit.Limiter,
) (*control.Console, error) {
	if cfg.ConsoleURL == (url.URL{}) {
		return nil, nil // control.Options requires it.
	}
	if tokens == nil {
		return nil, fmt.Errorf("%s_AUTH_DISABLED: not with %s_CONSOLE_URL, whose sign-in needs service tokens", prefix, prefix)
	}
	table, err := servedRoutes(cfg)
	if err != nil {
		return nil, err
	}
	token, err := cfg.ControlToken.Read()
	if err != nil {
		return nil, fmt.Errorf("%s_CONTROL_TOKEN_FILE: %w", prefix, err)
	}
	transport, err := upstreamTransport(s, cfg)
	if err != nil {
		return nil, err
	}
	bounds := cfg.bounds()
	bounds.Body, bounds.Memory, bounds.Share, bounds.Calls = controlBody, controlMemory, controlMemory, nil // for operators
	return &control.Console{
		Sessions: console.NewSessions(postgres.NewConsole(stores.pool), tokens), URL: &cfg.ConsoleURL, Table: table, Upstreams: cfg.upstreams(),
		Relay: proxy.New(transport, token, bounds), Plain: proxy.NewPlain(transport, bounds), Token: token,
		Limiter: limiter, Drain: onDrain(ctx, s),
	}, nil
}

// startControlServer starts the face, which has the metrics, too: the role serve does not relay them. o holds what the
// steps before it made.
func startControlServer(ctx context.Context, s *service.Service, cfg Config, o control.Options) error {
	secure, err := cfg.TLS.Config()
	if err != nil {
		return err
	}
	o.Log, o.Tracer, o.Meter, o.Open = s.Log, s.Tracer, s.Meter, s.Probes(nil, nil)
	o.Open["GET /metrics"] = s.Metrics
	handler, err := control.New(o)
	if err != nil {
		return err
	}
	return rpc.ServeHTTP(ctx, s.Runner, "http", cfg.ControlListen, handler, secure)
}
