package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/telemetry"
)

const (
	serviceName = "edge"
	controlName = "control"
	prefix      = "EDGE"
)

// minKeyStale is the least age of keys with which a replica counts as ready.
const minKeyStale = 5 * time.Second

// Config holds the settings of the edge.
type Config struct {
	Listen          string        `env:"LISTEN" envDefault:":8080" doc:"serve: address of the HTTP face"`
	ControlListen   string        `env:"CONTROL_LISTEN" envDefault:":8082" doc:"control: address of the HTTP face, which has /metrics, too; customers reach it through serve only"`
	ControlURL      url.URL       `env:"CONTROL_URL" doc:"serve: base URL of control, to which it relays /admin/v1/, /portal/, /decisions/, /v1/decisions/ and /slack/; without it these paths are not found"`
	PortalURL       url.URL       `env:"PORTAL_URL" doc:"control: scheme and host at which customers reach /portal/, for its links; without it there is no portal"`
	ConsoleURL      url.URL       `env:"CONSOLE_URL" doc:"control: scheme and host at which operators reach /console/; without it there is no console"`
	RelayConsole    bool          `env:"RELAY_CONSOLE" envDefault:"false" doc:"serve: relay /console/ to control, too; otherwise operators reach it at control only"`
	MetricsListen   string        `env:"METRICS_LISTEN" envDefault:":8081" doc:"serve: address of /metrics, which needs no authentication; customers must not reach it"`
	DatabaseURLFile secret.File   `env:"DATABASE_URL_FILE,required" doc:"file with the Postgres URL"`
	RedisURLFile    secret.File   `env:"REDIS_URL_FILE" doc:"file with the Redis URL; without it, other replicas learn of a revocation by polling only"`
	RedisCAFile     string        `env:"REDIS_CA_FILE" doc:"PEM CA certificates of a rediss:// server; empty for the machine's"`
	ServiceTokens   secret.File   `env:"SERVICE_TOKENS_FILE" required:"by control, unless EDGE_AUTH_DISABLED" doc:"control: YAML file of the tokens that may use the operator API"`
	AuthDisabled    bool          `env:"AUTH_DISABLED" envDefault:"false" doc:"control: open the operator API without tokens; only where both roles listen on loopback. Product keys are always checked"`
	ServiceToken    secret.File   `env:"SERVICE_TOKEN_FILE" required:"by serve" doc:"serve and the portal: file with the edge's service token for the services"`
	KeyPepperFile   secret.File   `env:"KEY_PEPPER_FILE" required:"by serve, control and keys" doc:"file with the secret, at least 32 bytes, for hashing product keys and sealing the keys that sign tokens; the same on all replicas"`
	KeyCacheSize    int           `env:"KEY_CACHE_SIZE" envDefault:"100000" doc:"serve: number of known keys that are cached, and as many unknown ones"`
	KeyStale        time.Duration `env:"KEY_STALE" envDefault:"2m" doc:"serve: how long a cached key stays valid while Postgres is unavailable"`
	GatewayURL      url.URL       `env:"GATEWAY_URL" doc:"base URL of the gateway; without it serve and the portal have none of its routes, and control neither adds up spend nor exports the ledger"`
	WebhookURL      url.URL       `env:"WEBHOOK_EGRESS_URL" doc:"serve and the portal: base URL of webhook-egress; without it its routes are not served"`
	NotifyURL       url.URL       `env:"NOTIFY_URL" doc:"serve and the portal: base URL of notify; without it its routes are not served"`

	ControlToken secret.File `env:"CONTROL_TOKEN_FILE" required:"by control, if the URL of a service is set" doc:"control: file with control's token of the role operator, for the services' counts of calls, the events of webhook-egress, notify, and the console. Without the URL of webhook-egress or notify alert rules are kept and not applied, and without that of webhook-egress no organization is told of limits that it reaches"`

	TrustedProxies config.Prefixes `env:"TRUSTED_PROXIES" doc:"serve: networks (CIDR, comma-separated) of the HTTP proxies, such as an ingress controller, whose X-Forwarded-For says which address calls /decisions/, /v1/decisions/ and /slack/, for its rate; empty for none"`

	PublicURL    url.URL     `env:"PUBLIC_URL" doc:"control: scheme and host at which approvers reach /decisions/, for the links in their messages; without it, EDGE_CONTROL_TOKEN_FILE, or the URL of a service approvers are not notified and there is no such page"`
	SlackApp     string      `env:"SLACK_APP_ID" doc:"control: id of the app of Slack whose buttons decide on approvals; with EDGE_SLACK_SIGNING_SECRETS_FILE"`
	SlackSecrets secret.File `env:"SLACK_SIGNING_SECRETS_FILE" doc:"control: file with the app's signing secret; a second line has the next one while it is rotated. Without it there is no /slack/interactions"`

	UpstreamTLS rpc.ClientTLS   `envPrefix:"UPSTREAM_TLS_"`
	TLS         rpc.Certificate `envPrefix:"TLS_"`

	KeyLimit     limit.Limit     `env:"KEY_LIMIT" doc:"serve: rate limit of keys without one of their own: requests/window or requests/window/burst, such as 600/1m; empty for none"`
	OrgLimit     limit.Limit     `env:"ORGANIZATION_LIMIT" doc:"serve: the same for all keys of an organization together"`
	DefaultPlan  string          `env:"DEFAULT_PLAN" doc:"plan of organizations without one of their own; empty for none, which limits nothing"`
	MaxBody      int64           `env:"MAX_BODY" envDefault:"33554432" doc:"serve: largest request body in bytes of a customer"`
	BodyMemory   int64           `env:"BODY_MEMORY" envDefault:"67108864" doc:"serve: bytes of larger request bodies in memory at once; calls beyond it get 503"`
	BodyShare    int64           `env:"BODY_SHARE" envDefault:"33554432" doc:"serve: bytes of them for one organization; its calls beyond it get 429"`
	MaxCalls     int64           `env:"MAX_CALLS" envDefault:"10000" doc:"serve and the portal: calls, streams and WebSocket connections of customers in flight at once; further ones get 503"`
	OrgShare     int             `env:"ORGANIZATION_SHARE" envDefault:"50" doc:"percentage of EDGE_MAX_CALLS that one organization may have; its calls beyond it get 429"`
	BodyTimeout  time.Duration   `env:"BODY_TIMEOUT" envDefault:"30s" doc:"serve: how long a customer may take to send a body"`
	WriteTimeout time.Duration   `env:"WRITE_TIMEOUT" envDefault:"30s" doc:"serve: how long a customer may take to read a piece of a response; streams have no total limit"`
	UsageMinutes time.Duration   `env:"USAGE_MINUTES" envDefault:"168h" doc:"control: how long usage is kept by the minute, then by the hour"`
	UsageHours   time.Duration   `env:"USAGE_HOURS" envDefault:"2160h" doc:"control: how long usage is kept by the hour, then by the day"`
	UsageDays    time.Duration   `env:"USAGE_DAYS" envDefault:"26280h" doc:"control: how long usage is kept at all"`
	ExportsFile  string          `env:"EXPORTS_FILE" doc:"control: YAML file of the billing systems that usage is exported to (docs/exports.md); empty for none"`
	LogLevel     slog.Level      `env:"LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error"`
	LogSample    telemetry.Share `env:"LOG_SAMPLE" envDefault:"1" doc:"share of successful calls that are logged; others always are"`
	StoreSpans   bool            `env:"STORE_SPANS" envDefault:"false" doc:"spans of Postgres and Redis"`
	DrainDelay   time.Duration   `env:"DRAIN_DELAY" envDefault:"5s" doc:"time between not ready and the drain, for load balancers to notice"`
	DrainGrace   time.Duration   `env:"DRAIN_GRACE" envDefault:"25s" doc:"time for requests in flight to finish"`
}

// Load reads the settings from environ.
func Load(environ []string) (Config, error) {
	var cfg Config
	err := config.Load(prefix, &cfg, environ)
	return cfg, err
}

// Validate checks the rules that involve several settings. Its error names every violation.
func (c *Config) Validate() error {
	errs := []error{
		config.CheckListeners(
			config.Listener{Setting: "EDGE_LISTEN", Address: c.Listen}, config.Listener{Setting: "EDGE_METRICS_LISTEN", Address: c.MetricsListen},
		),
		config.CheckListeners(config.Listener{Setting: "EDGE_CONTROL_LISTEN", Address: c.ControlListen}), // Of a process of its own.
		c.TLS.Check("EDGE_TLS_"), c.UpstreamTLS.Check("EDGE_UPSTREAM_TLS_"), config.CheckDrain(prefix, c.DrainDelay, c.DrainGrace),
	}
	if c.AuthDisabled && (!rpc.Loopback(c.Listen) || !rpc.Loopback(c.ControlListen)) {
		errs = append(errs, errors.New("EDGE_AUTH_DISABLED: only with EDGE_LISTEN and EDGE_CONTROL_LISTEN on loopback addresses"))
	}
	if c.KeyStale < minKeyStale {
		errs = append(errs, fmt.Errorf("EDGE_KEY_STALE: want %s at least: keys are read about every second", minKeyStale))
	}
	if slices.ContainsFunc(c.TrustedProxies, func(network netip.Prefix) bool { return network.Bits() == 0 }) {
		errs = append(errs, errors.New("EDGE_TRUSTED_PROXIES: want the networks of proxies, not all addresses"))
	}
	for name, value := range map[string]int64{
		"EDGE_MAX_BODY": c.MaxBody, "EDGE_KEY_CACHE_SIZE": int64(c.KeyCacheSize), "EDGE_MAX_CALLS": c.MaxCalls,
		"EDGE_BODY_TIMEOUT": int64(c.BodyTimeout), "EDGE_WRITE_TIMEOUT": int64(c.WriteTimeout),
	} {
		if value < 1 {
			errs = append(errs, fmt.Errorf("%s: must be above zero", name))
		}
	}
	if c.BodyShare < c.MaxBody || c.BodyMemory < c.BodyShare {
		errs = append(errs, errors.New("EDGE_BODY_SHARE: must be EDGE_MAX_BODY or more, and EDGE_BODY_MEMORY as much or more"))
	}
	if c.OrgShare < 1 || c.OrgShare > 100 {
		errs = append(errs, errors.New("EDGE_ORGANIZATION_SHARE: must be a percentage from 1 to 100"))
	}
	for name, base := range map[string]url.URL{
		"EDGE_GATEWAY_URL": c.GatewayURL, "EDGE_WEBHOOK_EGRESS_URL": c.WebhookURL, "EDGE_NOTIFY_URL": c.NotifyURL,
		"EDGE_CONTROL_URL": c.ControlURL,
	} {
		if base.Host != "" && base.Scheme != "https" && (base.Scheme != "http" || c.UpstreamTLS != (rpc.ClientTLS{})) {
			errs = append(errs, fmt.Errorf("%s: must be http, or https where EDGE_UPSTREAM_TLS_ settings are given", name))
		}
	}
	if err := c.retention().Check(); err != nil {
		errs = append(errs, fmt.Errorf("EDGE_USAGE_MINUTES, EDGE_USAGE_HOURS, EDGE_USAGE_DAYS: %w", err))
	}
	return errors.Join(errs...)
}

func (c *Config) retention() meter.Retention {
	return meter.Retention{Minutes: c.UsageMinutes, Hours: c.UsageHours, Days: c.UsageDays}
}

// bounds returns the bounds of what customers may use. Relays that share them count their calls in flight together.
func (c *Config) bounds() proxy.Bounds {
	return proxy.Bounds{
		Body: c.MaxBody, Memory: c.BodyMemory, Share: c.BodyShare, BodyTime: c.BodyTimeout, WriteTime: c.WriteTimeout,
		Calls: fairshare.New(c.MaxCalls, c.OrgShare),
	}
}

// servable checks the settings that only the role serve needs.
func (c *Config) servable() error {
	errs := []error{
		required("EDGE_SERVICE_TOKEN_FILE", c.ServiceToken), required("EDGE_KEY_PEPPER_FILE", c.KeyPepperFile),
	}
	if len(c.services()) == 0 {
		errs = append(errs, errors.New("EDGE_GATEWAY_URL, EDGE_WEBHOOK_EGRESS_URL, EDGE_NOTIFY_URL: at least one is required"))
	}
	return errors.Join(errs...)
}

// controllable checks the settings that only the role control needs.
func (c *Config) controllable() error {
	errs := []error{required("EDGE_KEY_PEPPER_FILE", c.KeyPepperFile)}
	if len(c.services()) > 0 {
		errs = append(errs, required("EDGE_CONTROL_TOKEN_FILE", c.ControlToken))
	}
	if !c.AuthDisabled {
		errs = append(errs, required("EDGE_SERVICE_TOKENS_FILE", c.ServiceTokens))
	}
	if c.PortalURL != (url.URL{}) {
		errs = append(errs, c.portable()...)
	}
	if c.PublicURL != (url.URL{}) {
		errs = append(errs, originSetting("EDGE_PUBLIC_URL", c.PublicURL))
	}
	if (c.SlackApp == "") != (c.SlackSecrets == "") {
		errs = append(errs, errors.New("EDGE_SLACK_SIGNING_SECRETS_FILE: only with EDGE_SLACK_APP_ID, and that only with it"))
	}
	if c.ConsoleURL != (url.URL{}) {
		errs = append(errs, c.operable()...)
	}
	return errors.Join(errs...)
}

// portable checks the settings that the portal needs.
func (c *Config) portable() []error {
	errs := []error{required("EDGE_SERVICE_TOKEN_FILE", c.ServiceToken), originSetting("EDGE_PORTAL_URL", c.PortalURL)}
	if len(c.services()) == 0 {
		errs = append(errs, errors.New("EDGE_GATEWAY_URL, EDGE_WEBHOOK_EGRESS_URL, EDGE_NOTIFY_URL: the portal needs at least one"))
	}
	return errs
}

// operable checks the settings that the console needs.
func (c *Config) operable() []error {
	return []error{
		required("EDGE_CONTROL_TOKEN_FILE", c.ControlToken), required("EDGE_SERVICE_TOKENS_FILE", c.ServiceTokens),
		originSetting("EDGE_CONSOLE_URL", c.ConsoleURL),
	}
}

// originSetting checks the URL at which browsers reach pages, whose cookies are for https or this machine only.
func originSetting(setting string, u url.URL) error {
	secure := u.Scheme == "https" || u.Scheme == "http" && rpc.Loopback(net.JoinHostPort(u.Hostname(), "0"))
	if u.Host != "" && secure && u == (url.URL{Scheme: u.Scheme, Host: u.Host}) {
		return nil
	}
	return errors.New(setting + ": must be https, or http on a loopback address, with a host and nothing more")
}

func required(setting string, file secret.File) error {
	if file == "" {
		return fmt.Errorf("%s: required, but not set", setting)
	}
	return nil
}

// upstreams returns where calls are relayed to, the configured services and control, by their name in the route table.
func (c *Config) upstreams() map[string]*url.URL {
	found := c.services()
	if c.ControlURL.Host != "" {
		found[controlName] = &c.ControlURL
	}
	return found
}

// services returns the configured services by their name in the route table.
func (c *Config) services() map[string]*url.URL {
	found := make(map[string]*url.URL)
	for name, base := range map[string]*url.URL{"gateway": &c.GatewayURL, "webhook-egress": &c.WebhookURL, "notify": &c.NotifyURL} {
		if base.Host != "" {
			found[name] = base
		}
	}
	return found
}
