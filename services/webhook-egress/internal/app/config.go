// Package app puts webhook-egress together: settings, wiring in named steps,
// and the order in which it stops. It is the only package that knows all others.
package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

// prefix of the service's variables.
const prefix = "WEBHOOK_EGRESS"

// Config holds the settings, read from WEBHOOK_EGRESS_*.
type Config struct {
	HTTPListen        string      `env:"HTTP_LISTEN" envDefault:":8102" doc:"address of the HTTP face"`
	GRPCListen        string      `env:"GRPC_LISTEN" envDefault:":9102" doc:"address of the gRPC face"`
	DatabaseURLFile   secret.File `env:"DATABASE_URL_FILE,required" doc:"file with the Postgres URL; its role's search_path is the service's schema"`
	RedisURLFile      secret.File `env:"REDIS_URL_FILE" doc:"file with the Redis URL; without one, a replica learns by polling what another left to it"`
	ServiceTokensFile string      `env:"SERVICE_TOKENS_FILE" doc:"YAML file with the callers' tokens: name, role, SHA-256"`
	AuthDisabled      bool        `env:"AUTH_DISABLED" envDefault:"false" doc:"take every caller for an operator; only with both faces on loopback"`
	LogLevel          slog.Level  `env:"LOG_LEVEL" envDefault:"info" doc:"lowest level that is logged: debug, info, warn, error"`

	TLS rpc.TLS `envPrefix:"TLS_"`

	OrgSecretsDir       string      `env:"ORG_SECRETS_DIR" doc:"directory with one file of signing secrets per organization, named by its percent-encoded id; a line each, the current one first"`
	DefaultSecretFile   secret.File `env:"DEFAULT_SECRET_FILE" doc:"file with the signing secrets of organizations that have no file of their own"`
	EncryptionKeyFile   secret.File `env:"ENCRYPTION_KEY_FILE" doc:"file with 32 bytes in hex or base64 that encrypt custom headers which carry a credential; without it those are refused"`
	DefaultOrganization string      `env:"DEFAULT_ORGANIZATION_ID" envDefault:"default" doc:"organization of requests that name none"`

	AllowTargets config.Targets `env:"ALLOW_TARGETS" doc:"host:port that the guard lets through although they are not public; for development"`
	RequireHTTPS bool           `env:"REQUIRE_HTTPS" envDefault:"true" doc:"refuse targets with plain http"`

	MaxAttempts       int              `env:"MAX_ATTEMPTS" envDefault:"12" doc:"attempts of a delivery that asks for no number, 1 to 20"`
	RetrySchedule     config.Durations `env:"RETRY_SCHEDULE" envDefault:"5s,30s,2m,10m,30m,1h,2h,4h,8h,12h" doc:"delay after each failed attempt, the last one repeats; up to a fifth is added"`
	RequestTimeout    time.Duration    `env:"REQUEST_TIMEOUT" envDefault:"15s" doc:"time for one request, from the lookup to the last byte; at most 30s"`
	Lease             time.Duration    `env:"LEASE" envDefault:"20s" doc:"how long a delivery stays with a replica that gives no sign; 5s more than the request timeout at least"`
	MaxInFlight       int              `env:"MAX_IN_FLIGHT" envDefault:"256" doc:"deliveries under way per replica, a payload in memory for each; one organization gets half, one target a quarter"`
	IdempotencyWindow time.Duration    `env:"IDEMPOTENCY_WINDOW" envDefault:"24h" doc:"how long an idempotency key is remembered"`

	DrainDelay time.Duration `env:"DRAIN_DELAY" envDefault:"5s" doc:"time between readiness going off and the drain"`
	DrainGrace time.Duration `env:"DRAIN_GRACE" envDefault:"25s" doc:"time for the drain; what is not sent by then is given back"`
}

// Load reads the settings from environ and checks them together.
func Load(environ []string) (Config, error) {
	var cfg Config
	err := config.Load(prefix, &cfg, environ)
	return cfg, err
}

// Print writes the effective settings, secrets redacted.
func Print(w io.Writer, cfg Config) error { return config.Print(w, prefix, cfg) }

// maxRequestTimeout bounds how long a target may keep a slot.
const maxRequestTimeout = 30 * time.Second

// maxRetryDelay is the longest delay that the schedule may hold.
const maxRetryDelay = 24 * time.Hour

// Validate checks what single settings can't show. Every fault is named.
func (c Config) Validate() error {
	loopback := rpc.Loopback(c.HTTPListen) && rpc.Loopback(c.GRPCListen)
	var errs []error
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{c.AuthDisabled && !loopback, "AUTH_DISABLED: only with both faces on loopback"},
		{!c.AuthDisabled && c.ServiceTokensFile == "", "SERVICE_TOKENS_FILE: required"},
		{
			c.MaxAttempts < delivery.MinAttempts || c.MaxAttempts > delivery.MaxAttempts,
			fmt.Sprintf("MAX_ATTEMPTS: want %d to %d", delivery.MinAttempts, delivery.MaxAttempts),
		},
		{len(c.RetrySchedule) == 0, "RETRY_SCHEDULE: want one delay or more"},
		{longest(c.RetrySchedule) > maxRetryDelay, "RETRY_SCHEDULE: want delays of 24h at most"},
		{c.RequestTimeout <= 0 || c.RequestTimeout > maxRequestTimeout, "REQUEST_TIMEOUT: want more than 0 and at most 30s"},
		{
			c.Lease < c.RequestTimeout+dispatch.LeaseMargin,
			fmt.Sprintf("LEASE: want %s at least: the request timeout and %s", c.RequestTimeout+dispatch.LeaseMargin, dispatch.LeaseMargin),
		},
		{c.MaxInFlight < 4 || c.MaxInFlight > 4096, "MAX_IN_FLIGHT: want 4 to 4096"},
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
