package app

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/telemetry"
)

// prefix is that of the service's environment variables.
const prefix = "NOTIFY"

// Config holds the operator's settings.
type Config struct {
	HTTPListen string `env:"HTTP_LISTEN" envDefault:":8103" doc:"address of the JSON face, health and metrics"`
	GRPCListen string `env:"GRPC_LISTEN" envDefault:":9103" doc:"address of the gRPC face"`

	DatabaseURLFile secret.File `env:"DATABASE_URL_FILE,required" doc:"file with the Postgres URL of the notify role"`
	RedisURLFile    secret.File `env:"REDIS_URL_FILE" doc:"file with the Redis URL; without it, each replica has its own rates and breakers, and inbox streams find changes of other replicas by polling"`
	RedisCAFile     string      `env:"REDIS_CA_FILE" doc:"PEM CA certificates of a rediss:// server; empty for the machine's"`

	ServiceTokensFile string `env:"SERVICE_TOKENS_FILE" required:"unless NOTIFY_AUTH_DISABLED" doc:"file with the service tokens that may call (name, role, SHA-256)"`
	AuthDisabled      bool   `env:"AUTH_DISABLED" envDefault:"false" doc:"accept every caller; only with both faces on loopback"`

	TLS rpc.TLS `envPrefix:"TLS_"`

	WebPushEnabled bool    `env:"WEB_PUSH_ENABLED" envDefault:"false" doc:"offer web push: /v1/push/* and the web_push channel"`
	WebPush        WebPush `envPrefix:"WEB_PUSH_"`

	MaxStreams int           `env:"MAX_STREAMS" envDefault:"20000" doc:"largest number of inbox streams per replica"`
	EventsAge  time.Duration `env:"EVENTS_RETENTION" envDefault:"168h" doc:"how long changes of inboxes are kept so that streams can resume"`
	Demo       Demo          `envPrefix:"DEMO_"`

	EventsOrganization string `env:"EVENTS_ORGANIZATION" envDefault:"switchyard" doc:"organization that gets the events about the service itself, such as a VAPID key that a push service refuses; they are sent to webhook egress if its address is set"`

	Delivery Delivery
	Slack    SlackSettings   `envPrefix:"SLACK_"`
	SMTP     SMTPSettings    `envPrefix:"SMTP_"`
	Email    EmailSettings   `envPrefix:"EMAIL_"`
	Webhook  WebhookSettings `envPrefix:"WEBHOOK_"`

	LogLevel   slog.Level      `env:"LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error"`
	LogSample  telemetry.Share `env:"LOG_SAMPLE" envDefault:"1" doc:"share of successful calls that are logged; others always are"`
	StoreSpans bool            `env:"STORE_SPANS" envDefault:"false" doc:"spans of Postgres and Redis"`
	DrainDelay time.Duration   `env:"DRAIN_DELAY" envDefault:"5s" doc:"time between not ready and the drain, for load balancers to notice"`
	DrainGrace time.Duration   `env:"DRAIN_GRACE" envDefault:"25s" doc:"time for calls in flight to end"`
}

// Load reads the settings from environ.
func Load(environ []string) (Config, error) {
	var cfg Config
	err := config.Load(prefix, &cfg, environ)
	return cfg, err
}

// Validate checks the rules that involve several settings. Its error names every violation.
func (c Config) Validate() error {
	errs := []error{
		config.CheckListeners(
			config.Listener{Setting: prefix + "_HTTP_LISTEN", Address: c.HTTPListen},
			config.Listener{Setting: prefix + "_GRPC_LISTEN", Address: c.GRPCListen},
			config.Listener{Setting: prefix + "_DEMO_LISTEN", Address: c.Demo.Listen},
		),
		c.TLS.Check(prefix + "_TLS_"), config.CheckDrain(prefix, c.DrainDelay, c.DrainGrace),
		c.Webhook.EgressTLSFiles.Check(prefix + "_WEBHOOK_EGRESS_TLS_"),
	}
	switch {
	case !c.AuthDisabled && c.ServiceTokensFile == "":
		errs = append(errs, errors.New(prefix+"_SERVICE_TOKENS_FILE: required, but not set"))
	case c.AuthDisabled && (!rpc.Loopback(c.HTTPListen) || !rpc.Loopback(c.GRPCListen)):
		errs = append(errs, fmt.Errorf("%s_AUTH_DISABLED: only with %s_HTTP_LISTEN and %s_GRPC_LISTEN on loopback", prefix, prefix, prefix))
	}
	errs = append(errs, c.WebPush.validate(c.WebPushEnabled), c.validateDelivery(), c.validateChannels())
	if c.MaxStreams < 1 {
		errs = append(errs, fmt.Errorf("%s_MAX_STREAMS: must be 1 or more", prefix))
	}
	if !houseevent.MayReceive(c.EventsOrganization) {
		errs = append(errs, fmt.Errorf("%s_EVENTS_ORGANIZATION: %s", prefix, houseevent.OrganizationRule))
	}
	errs = append(errs, c.Demo.validate())
	return errors.Join(errs...)
}
