package app

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/smtp"
	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
)

// Delivery holds the settings that are common to all channels that call out.
type Delivery struct {
	EncryptionKeyFile secret.File      `env:"ENCRYPTION_KEY_FILE" doc:"file with 32 bytes in hex or base64: the key that encrypts queued messages; without it every channel but in_app is refused"`
	CAFile            string           `env:"CA_FILE" doc:"PEM file with CA certificates to trust in addition to the system's (Slack, receivers, push services, the mail server)"`
	AllowTargets      config.Targets   `env:"ALLOW_TARGETS" doc:"host:port pairs that the guard of outgoing calls allows although they are not public; for development"`
	DenyPrefixes      config.Prefixes  `env:"DENY_PREFIXES" doc:"networks (CIDR, comma-separated) that the guard refuses in addition to non-public addresses: public networks of your own, a local NAT64 prefix"`
	MaxAttempts       int              `env:"MAX_ATTEMPTS" envDefault:"10" doc:"attempts to reach a recipient, 1 to 20"`
	RetrySchedule     config.Durations `env:"RETRY_SCHEDULE" envDefault:"5s,30s,2m,10m,30m,1h,2h" doc:"delay after each failed attempt; the last one repeats; up to a fifth is added at random, and a receiver's Retry-After is honoured"`
	Lifetime          time.Duration    `env:"LIFETIME" envDefault:"24h" doc:"how long a notification is tried; no attempt begins after it"`
	RequestTimeout    time.Duration    `env:"REQUEST_TIMEOUT" envDefault:"15s" doc:"time for one attempt, at most 30s"`
	Lease             time.Duration    `env:"LEASE" envDefault:"20s" doc:"how long a recipient stays leased to a replica; at least 5s more than the request timeout"`
	MaxInFlight       int              `env:"MAX_IN_FLIGHT" envDefault:"32" doc:"attempts in flight per replica and channel; email has SMTP_CONNECTIONS, web_push four times as many; one organization may use half of them"`
	BreakerFailures   int              `env:"BREAKER_FAILURES" envDefault:"5" doc:"failures in a row that open the circuit of a host or of one webhook's path, Slack URL, channel or device there, per organization where customers name it"`
	BreakerPause      time.Duration    `env:"BREAKER_PAUSE" envDefault:"5s" doc:"how long an open circuit pauses attempts the first time; doubled each further time"`
	BreakerMaxPause   time.Duration    `env:"BREAKER_MAX_PAUSE" envDefault:"5m" doc:"longest pause of an open circuit"`
	IdempotencyWindow time.Duration    `env:"IDEMPOTENCY_WINDOW" envDefault:"24h" doc:"how long an idempotency key is valid"`
	Retention         time.Duration    `env:"RETENTION" envDefault:"720h" doc:"how long the log of an ended send is kept; 0 keeps everything"`
}

// SlackSettings holds the settings of the slack channel.
type SlackSettings struct {
	WebhooksDir string        `env:"WEBHOOKS_DIR" doc:"directory with one file per organization, named by its percent-encoded id, with its incoming webhook URL; read for each message"`
	Origins     []string      `env:"ORIGINS" doc:"origins allowed for webhook URLs in addition to Slack's own, such as http://127.0.0.1:8192; for development"`
	TokensDir   string        `env:"TOKENS_DIR" doc:"directory with one file per organization, named by its percent-encoded id, with the bot token of its app for Slack, by which target.slack_channel is posted to; read for each message"`
	APIURL      string        `env:"API_URL" envDefault:"https://slack.com/api" doc:"base URL of Slack's Web API; https://slack-gov.com/api for GovSlack"`
	Interval    time.Duration `env:"INTERVAL" envDefault:"1s" doc:"least time between two messages to one URL, or by an app to one channel, over all replicas"`
}

// SMTPSettings holds the settings of the mail server.
type SMTPSettings struct {
	Address      string        `env:"ADDRESS" doc:"host:port of the mail server; empty disables the email channel"`
	Security     smtp.Security `env:"SECURITY" envDefault:"starttls" doc:"starttls, tls (from the first byte), or none (only on the same machine)"`
	Username     string        `env:"USERNAME" doc:"user to log in as; empty for no login"`
	PasswordFile secret.File   `env:"PASSWORD_FILE" doc:"file with the password; read for each new connection"`
	Connections  int           `env:"CONNECTIONS" envDefault:"4" doc:"connections per replica, kept between mails"`
	Hello        string        `env:"HELLO" envDefault:"localhost" doc:"host name sent in EHLO"`
}

// EmailSettings holds the settings of the email channel.
type EmailSettings struct {
	From           string `env:"FROM" doc:"sender, such as Shop <no-reply@shop.example>; required with SMTP_ADDRESS"`
	UnsubscribeURL string `env:"UNSUBSCRIBE_URL" doc:"https URL for unsubscribing by one click (RFC 8058); {organization_id}, {notification_id} and {email} in it are replaced"`
}

// WebhookSettings holds the settings of the webhook channel.
type WebhookSettings struct {
	EgressAddress   string      `env:"EGRESS_ADDRESS" doc:"host:port of the gRPC face of webhook egress, which then delivers webhooks; empty posts them directly"`
	EgressTokenFile secret.File `env:"EGRESS_TOKEN_FILE" doc:"file with the service token for webhook egress; required with its address"`
	EgressTLS       bool        `env:"EGRESS_TLS" envDefault:"false" doc:"use TLS for webhook egress"`

	EgressTLSFiles rpc.ClientTLS `envPrefix:"EGRESS_TLS_"`

	SecretsDir   string `env:"SECRETS_DIR" doc:"directory with one file per organization, named by its percent-encoded id, with the secret that signs its directly posted webhooks"`
	RequireHTTPS bool   `env:"REQUIRE_HTTPS" envDefault:"true" doc:"refuse targets with plain http"`
}

// Bounds of settings.
const (
	maxRequestTimeout = 30 * time.Second
	mostAttempts      = 20
)

// rule is a check of the settings.
type rule struct {
	broken bool
	text   string
}

// validateDelivery names each invalid setting that is common to channels.
func (c Config) validateDelivery() error {
	d := c.Delivery
	return broken([]rule{
		{d.MaxAttempts < 1 || d.MaxAttempts > mostAttempts, "MAX_ATTEMPTS: want 1 to 20"},
		{len(d.RetrySchedule) == 0, "RETRY_SCHEDULE: want one delay or more"},
		{d.Lifetime < time.Minute, "LIFETIME: want a minute at least"},
		{d.RequestTimeout <= 0 || d.RequestTimeout > maxRequestTimeout, "REQUEST_TIMEOUT: want more than 0 and at most 30s"},
		{d.Lease < d.RequestTimeout+dispatch.LeaseMargin, "LEASE: want " + prefix + "_REQUEST_TIMEOUT and 5s at least"},
		{d.MaxInFlight < 1 || d.MaxInFlight > 1024, "MAX_IN_FLIGHT: want 1 to 1024"},
		{d.BreakerFailures < 1, "BREAKER_FAILURES: want 1 at least"},
		{d.BreakerPause <= 0 || d.BreakerMaxPause < d.BreakerPause, "BREAKER_PAUSE, " + prefix + "_BREAKER_MAX_PAUSE: want more than 0, the second no less than the first"},
		{d.IdempotencyWindow < time.Minute, "IDEMPOTENCY_WINDOW: want a minute at least"},
		{d.Retention != 0 && d.Retention < d.IdempotencyWindow, "RETENTION: want " + prefix + "_IDEMPOTENCY_WINDOW at least, or 0"},
		{c.Slack.Interval <= 0, "SLACK_INTERVAL: want more than 0"},
	})
}

// validateChannels names each invalid setting of a single channel.
func (c Config) validateChannels() error {
	mail := c.SMTP.Address != ""
	return broken([]rule{
		{badOrigin(c.Slack.Origins), "SLACK_ORIGINS: want origins such as https://slack.example"},
		{!isBaseURL(c.Slack.APIURL), "SLACK_API_URL: want an http or https URL without user, query and fragment, such as https://slack.com/api"},
		{mail && c.Email.From == "", "EMAIL_FROM: required with " + prefix + "_SMTP_ADDRESS"},
		{mail && c.Delivery.EncryptionKeyFile == "", "ENCRYPTION_KEY_FILE: required with " + prefix + "_SMTP_ADDRESS"},
		{c.SMTP.Security != smtp.StartTLS && c.SMTP.Security != smtp.Implicit && c.SMTP.Security != smtp.None, "SMTP_SECURITY: want starttls, tls or none"},
		{(c.SMTP.Username == "") != (c.SMTP.PasswordFile == ""), "SMTP_USERNAME, " + prefix + "_SMTP_PASSWORD_FILE: want both or neither"},
		{mail && !isMailServer(c.SMTP), "SMTP_ADDRESS: want host:port, and without encryption that of this machine"},
		{mail && c.Email.From != "" && !isSender(c.Email.From), "EMAIL_FROM: want an address, with a name or without, such as Shop <no-reply@shop.example>"},
		{strings.ContainsFunc(c.SMTP.Hello, unicode.IsControl), "SMTP_HELLO: want a host name"},
		{c.EventsAge < 0, "EVENTS_RETENTION: must not be negative"},
		{c.WebPush.HistoryAge < 0, "WEB_PUSH_HISTORY_RETENTION: must not be negative"},
		{c.SMTP.Connections < 1 || c.SMTP.Connections > 64, "SMTP_CONNECTIONS: want 1 to 64"},
		{c.Email.UnsubscribeURL != "" && !strings.HasPrefix(c.Email.UnsubscribeURL, "https://"), "EMAIL_UNSUBSCRIBE_URL: want an https URL"},
		{strings.ContainsAny(c.Email.UnsubscribeURL, "<> \r\n"), "EMAIL_UNSUBSCRIBE_URL: want a URL without spaces and angle brackets"},
		{c.Webhook.EgressAddress != "" && c.Webhook.EgressTokenFile == "", "WEBHOOK_EGRESS_TOKEN_FILE: required with " + prefix + "_WEBHOOK_EGRESS_ADDRESS"},
		{c.Webhook.EgressTLSFiles != (rpc.ClientTLS{}) && !c.Webhook.EgressTLS, "WEBHOOK_EGRESS_TLS: must be true where its files are set"},
		{c.WebPushEnabled && c.Delivery.EncryptionKeyFile == "", "ENCRYPTION_KEY_FILE: required with " + prefix + "_WEB_PUSH_ENABLED"},
	})
}

func broken(rules []rule) error {
	var errs []error
	for _, r := range rules {
		if r.broken {
			errs = append(errs, fmt.Errorf("%s_%s", prefix, r.text))
		}
	}
	return errors.Join(errs...)
}

func isMailServer(s SMTPSettings) bool {
	_, err := smtp.New(smtp.Options{Address: s.Address, Security: s.Security})
	return err == nil
}

func isSender(from string) bool {
	_, err := channel.NewEmail(channel.EmailOptions{From: from})
	return err == nil
}

func isBaseURL(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func badOrigin(origins []string) bool {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || u.Scheme != "https" && u.Scheme != "http" {
			return true
		}
	}
	return false
}
