package app

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/telemetry"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

// prefix is that of the service's environment variables.
const prefix = "WEBHOOK_EGRESS"

// Config holds the settings, read from WEBHOOK_EGRESS_*.
type Config struct {
	HTTPListen        string          `env:"HTTP_LISTEN" envDefault:":8102" doc:"address of the HTTP face"`
	GRPCListen        string          `env:"GRPC_LISTEN" envDefault:":9102" doc:"address of the gRPC face"`
	DatabaseURLFile   secret.File     `env:"DATABASE_URL_FILE,required" doc:"file with the Postgres URL; its role's search_path is the service's schema"`
	RedisURLFile      secret.File     `env:"REDIS_URL_FILE" doc:"file with the Redis URL; without it, replicas find each other's work by polling only, and each has its own breakers and rates"`
	RedisCAFile       string          `env:"REDIS_CA_FILE" doc:"PEM CA certificates of a rediss:// server; empty for the machine's"`
	ServiceTokensFile string          `env:"SERVICE_TOKENS_FILE" required:"unless WEBHOOK_EGRESS_AUTH_DISABLED" doc:"YAML file with the callers' tokens: name, role, SHA-256"`
	AuthDisabled      bool            `env:"AUTH_DISABLED" envDefault:"false" doc:"treat every caller as an operator; only with both faces on loopback"`
	LogLevel          slog.Level      `env:"LOG_LEVEL" envDefault:"info" doc:"lowest level that is logged: debug, info, warn, error"`
	LogSample         telemetry.Share `env:"LOG_SAMPLE" envDefault:"1" doc:"share of successful calls that are logged; others always are"`
	StoreSpans        bool            `env:"STORE_SPANS" envDefault:"false" doc:"spans of Postgres and Redis"`

	TLS rpc.TLS `envPrefix:"TLS_"`

	OrgSecretsDir       string      `env:"ORG_SECRETS_DIR" doc:"directory with one file of signing secrets per organization, named by its percent-encoded id; one secret per line, the current one first"`
	DefaultSecretFile   secret.File `env:"DEFAULT_SECRET_FILE" doc:"file with the signing secrets of organizations that have no file of their own"`
	EncryptionKeyFile   secret.File `env:"ENCRYPTION_KEY_FILE" doc:"file with 32 bytes in hex or base64: the key that encrypts endpoints' secrets, headers and authentication, and custom headers with credentials; without it they are refused"`
	SigningKeysFile     secret.File `env:"SIGNING_KEYS_FILE" doc:"file with the Ed25519 keys of v1a signatures in the form of Standard Webhooks (whsk_), one per line, the one that signs first; all are published, and the file is read again when it changes"`
	DefaultOrganization string      `env:"DEFAULT_ORGANIZATION_ID" envDefault:"default" doc:"organization of requests that name none"`

	AllowTargets config.Targets  `env:"ALLOW_TARGETS" doc:"host:port pairs that the guard allows although they are not public; for development"`
	DenyPrefixes config.Prefixes `env:"DENY_PREFIXES" doc:"networks (CIDR, comma-separated) that the guard refuses in addition to non-public addresses: public networks of your own, a local NAT64 prefix"`
	RequireHTTPS bool            `env:"REQUIRE_HTTPS" envDefault:"true" doc:"refuse targets with plain http"`
	ProxyURLFile secret.File     `env:"PROXY_URL_FILE" doc:"file with the URL (http or https, optionally with user and password) of a proxy for all requests, by CONNECT; the guard checks the address before the proxy gets it"`

	MaxAttempts       int              `env:"MAX_ATTEMPTS" envDefault:"12" doc:"attempts of a delivery that does not set max_attempts, 1 to 20"`
	RetrySchedule     config.Durations `env:"RETRY_SCHEDULE" envDefault:"5s,30s,2m,10m,30m,1h,2h,4h,8h,12h" doc:"delay after each failed attempt; the last one repeats; up to a fifth is added at random"`
	RequestTimeout    time.Duration    `env:"REQUEST_TIMEOUT" envDefault:"15s" doc:"time for one request, from the lookup to the last byte; at most 30s"`
	Lease             time.Duration    `env:"LEASE" envDefault:"20s" doc:"how long a delivery stays leased to a replica; at least 5s more than the request timeout"`
	MaxInFlight       int              `env:"MAX_IN_FLIGHT" envDefault:"1024" doc:"deliveries in flight per replica, each with its payload in memory; one organization may use half, one target a quarter"`
	MaxInFlightBytes  int              `env:"MAX_IN_FLIGHT_BYTES" envDefault:"67108864" doc:"bytes of payload in flight per replica; at least 8 MiB"`
	IdempotencyWindow time.Duration    `env:"IDEMPOTENCY_WINDOW" envDefault:"24h" doc:"how long an idempotency key is valid"`
	Retention         time.Duration    `env:"RETENTION" envDefault:"720h" doc:"how long deliveries, their payloads and attempts are kept, by whole days; a day with queued deliveries is kept until they end; 0 keeps everything"`
	MaxEndpoints      int              `env:"MAX_ENDPOINTS" envDefault:"1000" doc:"endpoints that an organization may have; more are refused with 409"`
	MaxEventTypes     int              `env:"MAX_EVENT_TYPES" envDefault:"500" doc:"event types that an organization may register; more are refused with 409"`

	BreakerFailures int           `env:"BREAKER_FAILURES" envDefault:"5" doc:"failures in a row that open the circuit of an endpoint, a path or a host; failures of half of 20 or more attempts within a minute open that of an endpoint or path too"`
	BreakerPause    time.Duration `env:"BREAKER_PAUSE" envDefault:"10s" doc:"how long an open circuit pauses deliveries the first time; doubled each further time"`
	BreakerMaxPause time.Duration `env:"BREAKER_MAX_PAUSE" envDefault:"10m" doc:"longest pause of an open circuit"`

	DrainDelay time.Duration `env:"DRAIN_DELAY" envDefault:"5s" doc:"time between not ready and the drain, for load balancers to notice"`
	DrainGrace time.Duration `env:"DRAIN_GRACE" envDefault:"25s" doc:"time for the drain; unsent deliveries are then given back"`
}

// Load reads the settings from environ and checks them together.
func Load(environ []string) (Config, error) {
	var cfg Config
	err := config.Load(prefix, &cfg, environ)
	return cfg, err
}

// maxRequestTimeout bounds how long a target may occupy a slot.
const maxRequestTimeout = 30 * time.Second

// minRetention prevents upkeep from dropping the days that it creates.
const minRetention = 48 * time.Hour

// maxRetryDelay is the longest delay that the schedule may contain.
const maxRetryDelay = 24 * time.Hour

// Validate checks the rules that involve several settings. Its error names every violation.
func (c Config) Validate() error {
	loopback := rpc.Loopback(c.HTTPListen) && rpc.Loopback(c.GRPCListen)
	errs := []error{
		config.CheckListeners(
			config.Listener{Setting: prefix + "_HTTP_LISTEN", Address: c.HTTPListen},
			config.Listener{Setting: prefix + "_GRPC_LISTEN", Address: c.GRPCListen},
		),
		c.TLS.Check(prefix + "_TLS_"), config.CheckDrain(prefix, c.DrainDelay, c.DrainGrace),
	}
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{c.AuthDisabled && !loopback, "AUTH_DISABLED: only with both faces on loopback"},
		{!c.AuthDisabled && c.ServiceTokensFile == "", "SERVICE_TOKENS_FILE: required, but not set"},
		{
			c.MaxAttempts < delivery.MinAttempts || c.MaxAttempts > delivery.MaxAttempts,
			fmt.Sprintf("MAX_ATTEMPTS: want %d to %d", delivery.MinAttempts, delivery.MaxAttempts),
		},
		{len(c.RetrySchedule) == 0, "RETRY_SCHEDULE: want one delay or more"},
		{longest(c.RetrySchedule) > maxRetryDelay, "RETRY_SCHEDULE: want delays of 24h at most"},
		{c.RequestTimeout <= 0 || c.RequestTimeout > maxRequestTimeout, "REQUEST_TIMEOUT: want more than 0 and at most 30s"},
		{
			c.Lease < c.RequestTimeout+dispatch.LeaseMargin,
			fmt.Sprintf("LEASE: want %s at least: %s_REQUEST_TIMEOUT and %s", c.RequestTimeout+dispatch.LeaseMargin, prefix, dispatch.LeaseMargin),
		},
		{c.MaxInFlight < 4 || c.MaxInFlight > 4096, "MAX_IN_FLIGHT: want 4 to 4096"},
		{c.MaxInFlightBytes < dispatch.MinBytes, "MAX_IN_FLIGHT_BYTES: want 8388608 at least"},
		{c.MaxEndpoints < 1, "MAX_ENDPOINTS: want 1 at least"},
		{c.MaxEventTypes < 1 || c.MaxEventTypes > 10_000, "MAX_EVENT_TYPES: want 1 to 10000"},
		{c.Retention != 0 && c.Retention < minRetention, "RETENTION: want 48h at least, or 0"},
		{c.BreakerFailures < 1, "BREAKER_FAILURES: want 1 at least"},
		{
			c.BreakerPause <= 0 || c.BreakerMaxPause < c.BreakerPause || c.BreakerMaxPause > maxRetryDelay,
			"BREAKER_PAUSE, " + prefix + "_BREAKER_MAX_PAUSE: want more than 0, the second no less than the first and at most 24h",
		},
		{c.IdempotencyWindow < time.Minute, "IDEMPOTENCY_WINDOW: want a minute at least"},
	} {
		if rule.broken {
			errs = append(errs, errors.New(prefix+"_"+rule.text))
		}
	}
	return errors.Join(errs...)
}

func longest(delays []time.Duration) time.Duration {
	var most time.Duration
	for _, d := range delays {
		most = max(most, d)
	}
	return most
}
