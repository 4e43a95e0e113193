package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"switchyard.dev/services/notify/internal/breaker"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/egress"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/rate"
	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/notify/internal/smtp"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/service"
)

// idlePerHost is how many idle connections are kept per receiver.
const idlePerHost = 8

// outbound is what requests to other systems go through.
type outbound struct {
	guard, webhookGuard *netguard.Guard
	roots               *x509.CertPool // nil for the system's roots
}

// newOutbound creates the guards and reads the certificates.
func newOutbound(cfg Config) (out outbound, err error) {
	d := cfg.Delivery
	if out.guard, err = netguard.New(netguard.Options{AllowTargets: d.AllowTargets, DenyPrefixes: d.DenyPrefixes}); err != nil {
		return out, err
	}
	out.webhookGuard, err = netguard.New(netguard.Options{
		AllowTargets: d.AllowTargets, DenyPrefixes: d.DenyPrefixes, RequireHTTPS: cfg.Webhook.RequireHTTPS,
	})
	if err != nil {
		return out, err
	}
	out.roots, err = rootsOf(d.CAFile)
	return out, err
}

// rootsOf returns the system's certificates together with those of a PEM file; nil for the system's alone.
func rootsOf(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // No file is not an error.
	}
	text, err := bounded.ReadFile(file, bounded.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // A system without certificates uses only those of the file.
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("certificates: %s holds none", file)
	}
	return roots, nil
}

// newBox reads the key that seals addresses and secrets; nil for no key.
func newBox(cfg Config) (*seal.Box, error) {
	file := cfg.Delivery.EncryptionKeyFile
	if file == "" {
		return nil, nil //nolint:nilnil // No key is not an error.
	}
	key, err := file.Read()
	if err != nil {
		return nil, fmt.Errorf("%s_ENCRYPTION_KEY_FILE: %w", prefix, err)
	}
	return seal.New(key, "notify")
}

// channels are the configured channels.
type channels struct {
	senders []channel.Sender
	engines map[channel.Name]*dispatch.Engine // of the channels that call out
	push    *pushParts                        // nil while web push is off
}

// startChannels creates the configured channels, and an engine for each that calls out. Those need the sealing key.
func startChannels(
	ctx context.Context, s *service.Service, cfg Config, stores stores, out outbound, box *seal.Box, egress *egress.Client,
) (*channels, error) {
	c := &channels{senders: []channel.Sender{channel.InAppSender{}}, engines: make(map[channel.Name]*dispatch.Engine)}
	if box == nil {
		s.Log.WarnContext(ctx, "no encryption key: every channel but in_app is refused", "setting", prefix+"_ENCRYPTION_KEY_FILE")
		return c, nil
	}
	if cfg.WebPushEnabled {
		var err error
		if c.push, err = newWebPush(cfg, stores.pool, out.guard, box, out.roots, s.Log); err != nil {
			return nil, err
		}
	}
	outlets, err := newOutlets(s, cfg, stores.redis, out, c.push, egress)
	if err != nil {
		return nil, err
	}
	queue, breaker := postgres.NewQueue(stores.pool), newBreaker(s, cfg, stores.redis)
	for _, o := range outlets {
		o.options.Store, o.options.Opener, o.options.Breaker = queue, box, breaker
		engine, err := newEngine(s, cfg, o)
		if err != nil {
			return nil, err
		}
		c.senders, c.engines[o.Channel()] = append(c.senders, o), engine
		s.Runner.Go("dispatch "+string(o.Channel()), engine.Run)
	}
	if c.push != nil {
		c.push.run(s.Runner, func() { c.wake(channel.WebPush) }, s.Log)
	}
	return c, backlogMeter(s.Meter, queue)
}

// wake notifies a channel's engine that there is work.
func (c *channels) wake(name channel.Name) {
	if engine, ok := c.engines[name]; ok {
		engine.Wake()
	}
}

// drain stops all engines concurrently.
func (c *channels) drain(ctx context.Context) error {
	ended := make(chan error, len(c.engines))
	for _, engine := range c.engines {
		go func() { ended <- engine.Drain(ctx) }()
	}
	var errs []error
	for range c.engines {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// outlet is a channel that calls out, with the options of its engine that differ by channel.
type outlet struct {
	channel.Sender

	transport channel.Transport
	options   dispatch.Options
}

// newOutlets creates the configured channels that call out. push is nil while web push is off, egress without webhook
// egress.
func newOutlets(s *service.Service, cfg Config, client *redisdb.Client, out outbound, push *pushParts, egress *egress.Client) ([]outlet, error) {
	outlets := []outlet{newSlack(s, cfg, client, out)}
	if cfg.SMTP.Address != "" {
		email, err := newEmail(s, cfg, out)
		if err != nil {
			return nil, err
		}
		outlets = append(outlets, email)
	}
	outlets = append(outlets, newWebhook(s, cfg, out, egress))
	if push != nil {
		const times = 4 // that of other channels: a broadcast has many devices
		options := dispatch.Options{InFlight: times * cfg.Delivery.MaxInFlight, OwnBreakers: true}
		outlets = append(outlets, outlet{push.sender, push.transport, options})
	}
	return outlets, nil
}

func newSlack(s *service.Service, cfg Config, client *redisdb.Client, out outbound) outlet {
	slack := channel.NewSlack(channel.SlackOptions{
		URLs: channel.Directory(cfg.Slack.WebhooksDir), Origins: cfg.Slack.Origins,
		Tokens: channel.Directory(cfg.Slack.TokensDir), API: strings.TrimSuffix(cfg.Slack.APIURL, "/"), Poster: newPoster(s, cfg, out.guard, out.roots),
	})
	limiter := rate.New(newStates(s, client, "rate", rate.Merge, rate.Life), cfg.Slack.Interval, time.Now)
	return outlet{slack, slack, dispatch.Options{InFlight: cfg.Delivery.MaxInFlight, OwnBreakers: true, Limiter: limiter}}
}

func newEmail(s *service.Service, cfg Config, out outbound) (outlet, error) {
	own := cfg.SMTP
	pool, err := smtp.New(smtp.Options{
		Address: own.Address, Security: own.Security, Roots: out.roots, Hello: own.Hello,
		Username: own.Username, Password: own.PasswordFile.Read, Connections: own.Connections,
	})
	if err != nil {
		return outlet{}, err
	}
	s.Runner.OnClose("mail connections", func(context.Context) error { pool.Close(); return nil })
	email, err := channel.NewEmail(channel.EmailOptions{
		Mailer: pool, Server: own.Address, From: cfg.Email.From, UnsubscribeURL: cfg.Email.UnsubscribeURL,
		Secrets: func() []string {
			password, err := own.PasswordFile.Read()
			if err != nil {
				return nil
			}
			return []string{password.Reveal()}
		},
	})
	return outlet{email, email, dispatch.Options{InFlight: own.Connections}}, err
}

// newWebhook returns the webhook channel. With webhook egress it uses that, where a repeated call is no second
// delivery.
func newWebhook(s *service.Service, cfg Config, out outbound, client *egress.Client) outlet {
	own := cfg.Webhook
	options := dispatch.Options{InFlight: cfg.Delivery.MaxInFlight}
	if client == nil {
		options.OwnBreakers = true
		webhook := channel.NewDirectWebhook(channel.DirectOptions{
			Checker: out.webhookGuard, Poster: newPoster(s, cfg, out.webhookGuard, out.roots), Secrets: channel.Directory(own.SecretsDir), Now: time.Now,
		})
		return outlet{webhook, webhook, options}
	}
	options.Idempotent = true
	webhook := channel.NewEgressWebhook(out.webhookGuard, client, own.EgressAddress, time.Now)
	return outlet{webhook, webhook, options}
}

// newEngine creates the engine of a channel. One organization has half of its attempts, so that slow receivers of one
// don't delay the messages of others.
func newEngine(s *service.Service, cfg Config, to outlet) (*dispatch.Engine, error) {
	d, o := cfg.Delivery, to.options
	o.Channel, o.Transport = to.Channel(), to.transport
	o.Policy = channel.Policy{Schedule: d.RetrySchedule, MaxAttempts: d.MaxAttempts}
	o.Share, o.Timeout, o.Lease = max(1, o.InFlight/2), d.RequestTimeout, d.Lease
	o.Log, o.Meter, o.Now, o.Random = s.Log, s.Meter, time.Now, rand.Float64
	return dispatch.New(o)
}

func newPoster(s *service.Service, cfg Config, guard *netguard.Guard, roots *x509.CertPool) *channel.Poster {
	poster := channel.NewPoster(guard, cfg.Delivery.RequestTimeout, roots, idlePerHost)
	s.Runner.OnClose("idle connections", func(context.Context) error { poster.Close(); return nil })
	return poster
}

func newBreaker(s *service.Service, cfg Config, client *redisdb.Client) *breaker.Breaker {
	d := cfg.Delivery
	policy := breaker.Policy{Failures: d.BreakerFailures, Pause: d.BreakerPause, MaxPause: d.BreakerMaxPause}
	return breaker.New(newStates(s, client, "breaker", breaker.Merge, breaker.Life), policy, time.Now, rand.Float64)
}

// newStates returns states of a kind that replicas share through Redis; without Redis they are local.
func newStates(
	s *service.Service, client *redisdb.Client, kind string, merge func(one, other string) string, life time.Duration,
) *shared.States {
	return shared.New(shared.Options{Store: redisdb.NewKV(client, kind), Merge: merge, Life: life, Log: s.Log, Now: time.Now})
}
