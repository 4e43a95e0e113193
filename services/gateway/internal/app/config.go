package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/telemetry"
)

// prefix is the prefix of every setting's name.
const prefix = "GATEWAY"

// Config holds the service's settings.
type Config struct {
	HTTPListen string `env:"HTTP_LISTEN" envDefault:":8101" doc:"address of the JSON face, health and metrics"`
	GRPCListen string `env:"GRPC_LISTEN" envDefault:":9101" doc:"address of the gRPC face"`

	DatabaseURLFile secret.File `env:"DATABASE_URL_FILE,required" doc:"file with the Postgres URL of the gateway role"`
	RedisURLFile    secret.File `env:"REDIS_URL_FILE" doc:"file with the Redis URL, for the state that replicas share (breakers, caches); no request fails without it"`
	RedisCAFile     string      `env:"REDIS_CA_FILE" doc:"PEM CA certificates of a rediss:// server; empty for the machine's"`

	ServiceTokensFile string `env:"SERVICE_TOKENS_FILE" required:"unless GATEWAY_AUTH_DISABLED" doc:"file with the tokens of the services that may call (name, role, SHA-256)"`
	AuthDisabled      bool   `env:"AUTH_DISABLED" envDefault:"false" doc:"accept every caller; allowed only with both listeners on loopback"`

	TLS rpc.TLS `envPrefix:"TLS_"`

	SettingsStale time.Duration `env:"SETTINGS_STALE" envDefault:"2m" doc:"how long known suspensions and credentials hold without Postgres; then the replica is not ready"`

	PolicyFile         string      `env:"POLICY_FILE" doc:"routing policy (YAML); shipped/policy.yaml when empty"`
	PricesFile         string      `env:"PRICES_FILE" doc:"price table (YAML); shipped/prices.yaml when empty"`
	CatalogFile        string      `env:"CATALOG_FILE" doc:"model catalog (YAML); shipped/catalog.yaml when empty"`
	ExtraProvidersFile string      `env:"EXTRA_PROVIDERS_FILE" doc:"providers in addition to the policy's (YAML or JSON)"`
	FleetKeysDir       string      `env:"FLEET_KEYS_DIR" doc:"folder of relative key_file paths; the folder of the file that names them when empty"`
	FingerprintKey     secret.File `env:"FINGERPRINT_KEY_FILE" doc:"file with the key for hashing fingerprints of provider keys and pseudonyms of end users"`

	SealingKeysDir     string   `env:"SEALING_KEYS_DIR" doc:"folder of the private keys (*.key, see gateway byok keygen) for sealed credentials of organizations; the newest seals, all can open"`
	ByokSecretsDir     string   `env:"BYOK_SECRETS_DIR" doc:"folder with a subfolder for each organization, which holds the secrets that its file: references may name"`
	ByokEnvPrefix      string   `env:"BYOK_ENV_PREFIX" doc:"prefix of the variables that env: references may name, such as BYOK_{organization}__"`
	ByokSecretManagers []string `env:"BYOK_SECRET_MANAGERS" doc:"comma-separated URL prefixes that references to secret managers must have, such as awssecretsmanager://byok/{organization}/?region=eu-west-1 (awssecretsmanager, awsparamstore, gcpsecretmanager)"`

	CacheKeyFile secret.File `env:"CACHE_KEY_FILE" doc:"file with the secret (at least 32 bytes) that cached answers are sealed with, the same on all replicas; without it or without Redis no answer is cached"`

	TraceKeysFile secret.File `env:"TRACE_KEYS_FILE" doc:"file with the secrets (at least 32 bytes each, one per line) that captured requests and answers are sealed with, the same on all replicas: the first seals, all can open; if empty or the file is missing at the start, no content is captured"`

	LedgerMode string `env:"LEDGER_MODE" envDefault:"auto" doc:"how far an answer's ledger row must be: synced (to the spool's disk), committed (to Postgres), async (written to the spool) or auto: synced if the volume of GATEWAY_SPOOL_DIR outlives the pod, else committed"`
	SpoolDir   string `env:"SPOOL_DIR" doc:"folder in which ledger rows wait for Postgres; it must survive a restart, and replicas may share it; the system's temporary folder when empty"`
	SpoolLimit int64  `env:"SPOOL_LIMIT" envDefault:"268435456" doc:"bytes of waiting ledger rows from which completions get 503"`

	GoldenSetFile     string  `env:"GOLDEN_SET_FILE" doc:"golden set (YAML) of GET /v1/canary; shipped/golden.yaml when empty"`
	ProbeOrganization string  `env:"PROBE_ORGANIZATION" envDefault:"switchyard-probes" doc:"organization that pays for probes"`
	ProbeBudgetCents  float64 `env:"PROBE_BUDGET_CENTS" envDefault:"100" doc:"cents that probes may cost per day; applies if the organization that pays has no ceiling of its own"`

	AnswerTimeout     time.Duration `env:"ANSWER_TIMEOUT" envDefault:"2m" doc:"timeout of one attempt for a whole answer; doubled for the last candidate"`
	FirstTokenTimeout time.Duration `env:"FIRST_TOKEN_TIMEOUT" envDefault:"30s" doc:"timeout of one attempt for a stream's first content; doubled for the last candidate"`
	IdleTimeout       time.Duration `env:"IDLE_TIMEOUT" envDefault:"60s" doc:"timeout between two events of a stream"`
	TotalTimeout      time.Duration `env:"TOTAL_TIMEOUT" envDefault:"10m" doc:"timeout of a request with all its attempts"`
	ConnectTimeout    time.Duration `env:"CONNECT_TIMEOUT" envDefault:"5s" doc:"timeout for connecting to a provider"`

	ReconciliationRetention time.Duration `env:"RECONCILIATION_RETENTION" envDefault:"26280h" doc:"how long comparisons with vendors' invoices are kept"`

	ProviderConcurrency int `env:"PROVIDER_CONCURRENCY" envDefault:"1024" doc:"calls in flight to one provider; a quarter as many more wait for up to 250 ms"`
	OrganizationShare   int `env:"ORGANIZATION_SHARE" envDefault:"75" doc:"percentage that one organization may use of a provider's calls and of the memory for requests and answers"`

	RequestMemory int64 `env:"REQUEST_MEMORY" envDefault:"268435456" doc:"bytes of memory for requests in flight, each byte beyond 64 KiB of one counted four times; without it they get 429 or 503"`
	AnswerMemory  int64 `env:"ANSWER_MEMORY" envDefault:"134217728" doc:"bytes of memory for providers' answers and fetched images and documents in flight, counted twice; beyond it 503 answer_memory_full"`

	Background int `env:"BACKGROUND" envDefault:"64" doc:"responses made in the background at once, of which one organization may have GATEWAY_ORGANIZATION_SHARE percent; further ones wait; 0 refuses them"`

	WebSockets      int64 `env:"WEBSOCKETS" envDefault:"1024" doc:"WebSocket connections of the Responses API, of which one organization may have GATEWAY_ORGANIZATION_SHARE percent; 0 turns them off: upgrades get 426"`
	WebSocketMemory int64 `env:"WEBSOCKET_MEMORY" envDefault:"67108864" doc:"bytes of memory for responses that WebSocket connections may continue without storing them, shared in the same way; beyond it clients send the whole conversation"`

	MCPOrigins []string `env:"MCP_ORIGINS" doc:"comma-separated origins of web pages that may call /mcp, such as https://console.example; none when empty: callers that are no pages send no origin"`
	MCPHosts   []string `env:"MCP_HOSTS" doc:"comma-separated values of the Host header that requests to /mcp may have; any when empty"`

	MCPApprovalHold time.Duration `env:"MCP_APPROVAL_HOLD" envDefault:"45s" doc:"how long a tool's call is held until a person approves it, at most 5m; then it is refused, and may be repeated"`
	MCPApprovalURL  string        `env:"MCP_APPROVAL_URL" doc:"page of an approval, with {ref}; callers that open pages are sent there"`
	MCPApprovalTTL  time.Duration `env:"MCP_APPROVAL_TTL" envDefault:"1h" doc:"how long such an approval waits, 1m to 168h"`

	AllowTargets config.Targets  `env:"ALLOW_TARGETS" doc:"comma-separated host:port targets that the guard of fetched URLs allows, for development; providers need no entry"`
	DenyPrefixes config.Prefixes `env:"DENY_PREFIXES" doc:"networks (CIDR, comma-separated) that the guard refuses in addition to non-public addresses: public networks of your own, a local NAT64 prefix"`

	ProxyURLFile secret.File     `env:"PROXY_URL_FILE" doc:"file with the URL (http or https, optionally with user and password) of a proxy for all calls that leave the gateway, by CONNECT; providers may have their own in the policy"`
	DialNetworks config.Prefixes `env:"DIAL_NETWORKS" doc:"networks (CIDR, comma-separated) into which the gateway may connect for providers, token servers, secret managers and images, or in which its proxies are; all when empty"`

	Events Events `envPrefix:"EVENTS_"`

	LogLevel   slog.Level      `env:"LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error"`
	LogSample  telemetry.Share `env:"LOG_SAMPLE" envDefault:"1" doc:"share of successful calls that are logged; others always are"`
	StoreSpans bool            `env:"STORE_SPANS" envDefault:"false" doc:"spans of both stores"`
	DrainDelay time.Duration   `env:"DRAIN_DELAY" envDefault:"5s" doc:"time between not ready and the drain, for load balancers to notice"`
	DrainGrace time.Duration   `env:"DRAIN_GRACE" envDefault:"25s" doc:"time for calls and streams in flight to end"`
}

// minAnswerMemory is enough for one chat of the largest size, minRequestMemory for the largest request.
const (
	minAnswerMemory  = 48 << 20
	minRequestMemory = bodyWeight * maxBody
)

// Load reads and validates the configuration from environ. The error names every wrong setting.
func Load(environ []string) (Config, error) {
	var cfg Config
	err := config.Load(prefix, &cfg, environ)
	return cfg, err
}

// Validate refuses settings that would leave the service open to everyone or a call without a bound. The error names
// every wrong setting.
func (c Config) Validate() error {
	errs := []error{c.validateFaces()}
	switch {
	case !c.AuthDisabled && c.ServiceTokensFile == "":
		errs = append(errs, errors.New(prefix+"_SERVICE_TOKENS_FILE: required, but not set"))
	case c.AuthDisabled && (!rpc.Loopback(c.HTTPListen) || !rpc.Loopback(c.GRPCListen)):
		errs = append(errs, fmt.Errorf("%s_AUTH_DISABLED: only with %s_HTTP_LISTEN and %s_GRPC_LISTEN on loopback", prefix, prefix, prefix))
	}
	if _, err := newReferences(c, nil); err != nil {
		errs = append(errs, fmt.Errorf("%s_BYOK_ENV_PREFIX, %s_BYOK_SECRET_MANAGERS: %w", prefix, prefix, err))
	}
	switch ledger.Mode(c.LedgerMode) {
	case autoMode, ledger.ModeSynced, ledger.ModeCommitted, ledger.ModeAsync:
	default:
		errs = append(errs, fmt.Errorf("%s_LEDGER_MODE: want auto, synced, committed or async", prefix))
	}
	if c.Background < 0 {
		errs = append(errs, fmt.Errorf("%s_BACKGROUND: must not be negative", prefix))
	}
	if c.WebSockets < 0 || c.WebSocketMemory < 0 {
		errs = append(errs, fmt.Errorf("%s_WEBSOCKETS, %s_WEBSOCKET_MEMORY: must not be negative", prefix, prefix))
	}
	if c.SpoolLimit < 1 {
		errs = append(errs, fmt.Errorf("%s_SPOOL_LIMIT: must be above zero", prefix))
	}
	for _, clock := range []struct {
		name string
		time time.Duration
	}{
		{"ANSWER_TIMEOUT", c.AnswerTimeout},
		{"FIRST_TOKEN_TIMEOUT", c.FirstTokenTimeout},
		{"IDLE_TIMEOUT", c.IdleTimeout},
		{"TOTAL_TIMEOUT", c.TotalTimeout},
		{"CONNECT_TIMEOUT", c.ConnectTimeout},
		{"SETTINGS_STALE", c.SettingsStale},
	} {
		if clock.time <= 0 {
			errs = append(errs, fmt.Errorf("%s_%s: must be positive", prefix, clock.name))
		}
	}
	if c.ReconciliationRetention <= 0 {
		errs = append(errs, fmt.Errorf("%s_RECONCILIATION_RETENTION: must be positive", prefix))
	}
	if !(c.ProbeBudgetCents > 0 && c.ProbeBudgetCents < 1e9) {
		errs = append(errs, errors.New(prefix+"_PROBE_BUDGET_CENTS: must be positive"))
	}
	if c.ProbeOrganization == "" || !caller.Printable(c.ProbeOrganization) {
		errs = append(errs, errors.New(prefix+"_PROBE_ORGANIZATION: must be printable ASCII without spaces"))
	}
	if c.ProviderConcurrency <= 0 {
		errs = append(errs, errors.New(prefix+"_PROVIDER_CONCURRENCY: must be positive"))
	}
	if c.RequestMemory < minRequestMemory {
		errs = append(errs, fmt.Errorf("%s_REQUEST_MEMORY: want at least %d bytes", prefix, minRequestMemory))
	}
	if c.AnswerMemory < minAnswerMemory {
		errs = append(errs, fmt.Errorf("%s_ANSWER_MEMORY: want at least %d bytes", prefix, minAnswerMemory))
	}
	errs = append(errs, c.validateMCP())
	if c.OrganizationShare < 1 || c.OrganizationShare > 100 {
		errs = append(errs, errors.New(prefix+"_ORGANIZATION_SHARE: want a percentage from 1 to 100"))
	}
	errs = append(errs, c.Events.validate())
	errs = append(errs, config.CheckDrain(prefix, c.DrainDelay, c.DrainGrace))
	return errors.Join(errs...)
}

// validateFaces refuses addresses that can't be listened on, and TLS without a certificate.
func (c Config) validateFaces() error {
	return errors.Join(config.CheckListeners(
		config.Listener{Setting: prefix + "_HTTP_LISTEN", Address: c.HTTPListen},
		config.Listener{Setting: prefix + "_GRPC_LISTEN", Address: c.GRPCListen},
	), c.TLS.Check(prefix+"_TLS_"))
}

// Bounds of the settings for approvals of tools' calls.
const (
	maxApprovalHold                = 5 * time.Minute
	minApprovalTTL, maxApprovalTTL = time.Minute, 7 * 24 * time.Hour
)

// maxApprovalURL bounds the URL of the page of an approval, in bytes.
const maxApprovalURL = 1024

// isApprovalURL reports whether a text is the URL of the pages of approvals.
func isApprovalURL(text string) bool {
	u, err := url.Parse(strings.ReplaceAll(text, toolcall.RefMark, "apr_1"))
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		len(text) <= maxApprovalURL && !strings.Contains(u.Host, "apr_1") && strings.Contains(text, toolcall.RefMark)
}

// validateMCP refuses origins and hosts that no request can have, and times out of bounds.
func (c Config) validateMCP() error {
	var errs []error
	if c.MCPApprovalHold < 0 || c.MCPApprovalHold > maxApprovalHold {
		errs = append(errs, fmt.Errorf("%s_MCP_APPROVAL_HOLD: must be 0 to %s", prefix, maxApprovalHold))
	}
	if c.MCPApprovalTTL < minApprovalTTL || c.MCPApprovalTTL > maxApprovalTTL {
		errs = append(errs, fmt.Errorf("%s_MCP_APPROVAL_TTL: must be %s to %s", prefix, minApprovalTTL, maxApprovalTTL))
	}
	if c.MCPApprovalURL != "" && !isApprovalURL(c.MCPApprovalURL) {
		errs = append(errs, fmt.Errorf("%s_MCP_APPROVAL_URL: want a URL of at most %d bytes with {ref}, such as https://console.example/approvals/{ref}", prefix, maxApprovalURL))
	}
	for _, origin := range c.MCPOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != strings.ToLower(origin) {
			errs = append(errs, errors.New(prefix+"_MCP_ORIGINS: want lower-case origins such as https://console.example"))
		}
	}
	for _, host := range c.MCPHosts {
		if host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, "/ ") {
			errs = append(errs, errors.New(prefix+"_MCP_HOSTS: want lower-case names, with their ports as clients send them"))
		}
	}
	return errors.Join(errs...)
}
