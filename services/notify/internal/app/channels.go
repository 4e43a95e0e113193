package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"switchyard.dev/services/notify/internal/breaker"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/egress"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/rate"
	"switchyard.dev/services/notify/internal/redis"
	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/notify/internal/smtp"
	"switchyard.dev/services/notify/internal/upkeep"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/seal"
)

// idlePerHost is how many idle connections are kept to a receiver.
const idlePerHost = 8

// openGuards reads the sealing key and the certificates, and makes the guards.
func (p *parts) openGuards(context.Context) (err error) {
	d := p.cfg.Delivery
	if p.guard, err = netguard.New(netguard.Options{AllowTargets: d.AllowTargets, DenyPrefixes: d.DenyPrefixes}); err != nil {
		return err
	}
	p.webhookGuard, err = netguard.New(netguard.Options{
		AllowTargets: d.AllowTargets, DenyPrefixes: d.DenyPrefixes, RequireHTTPS: p.cfg.Webhook.RequireHTTPS,
	})
	if err != nil {
		return err
	}
	if p.roots, err = rootsOf(d.CAFile); err != nil {
		return err
	}
	if d.EncryptionKeyFile == "" {
		return nil
	}
	key, err := d.EncryptionKeyFile.Read()
	if err != nil {
		return fmt.Errorf("encryption key: %w", err)
	}
	p.box, err = seal.New(key, "notify")
	return err
}

// rootsOf are the machine's certificates and those of a PEM file; nil for the
// machine's alone.
func rootsOf(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // No file is no fault.
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // A machine without certificates has only ours.
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("certificates: %s holds none", file)
	}
	return roots, nil
}

// startChannels makes the channels that are configured and an engine for each
// that calls out. Without a sealing key there is none of those.
func (p *parts) startChannels(ctx context.Context) error {
	p.senders = []channel.Sender{channel.InAppSender{}}
	p.startUpkeep()
	if p.box == nil {
		p.telemetry.Log.WarnContext(ctx, "no encryption key: every channel but in_app is refused", "setting", prefix+"_ENCRYPTION_KEY_FILE")
		return nil
	}
	p.queue = postgres.NewQueue(p.pool)
	p.newBreaker()
	for _, start := range []func() error{p.startSlack, p.startEmail, p.startWebhook, p.startWebPush} {
		if err := start(); err != nil {
			return err
		}
	}
	return p.backlogMeter()
}

// startUpkeep has what is kept for a time deleted after it.
func (p *parts) startUpkeep() {
	store := postgres.NewUpkeep(p.pool)
	p.runner.Go("upkeep", upkeep.New(p.telemetry.Log,
		upkeep.Kept{What: "idempotency keys", Age: p.cfg.Delivery.IdempotencyWindow, Delete: store.DeleteKeys},
		upkeep.Kept{What: "logs", Age: p.cfg.Delivery.Retention, Delete: store.DeleteLogs},
		upkeep.Kept{What: "inbox events", Age: p.cfg.EventsAge, Delete: store.DeleteEvents},
		upkeep.Kept{What: "push history", Age: p.cfg.WebPush.HistoryAge, Delete: store.DeletePushHistory},
	).Run)
}

// delivering is a channel that calls out.
type delivering interface {
	channel.Sender
	channel.Transport
}

func (p *parts) startSlack() error {
	poster := p.newPoster(p.guard)
	slack := channel.NewSlack(channel.SlackOptions{
		URLs: channel.Directory(p.cfg.Slack.WebhooksDir), Origins: p.cfg.Slack.Origins, Poster: poster,
	})
	states := p.states("rate", rate.Merge, rate.Life)
	return p.startEngine(slack, slack, dispatch.Options{
		InFlight: p.cfg.Delivery.MaxInFlight, OwnBreakers: true, Limiter: rate.New(states, p.cfg.Slack.Interval, time.Now),
	})
}

func (p *parts) startEmail() error {
	own := p.cfg.SMTP
	if own.Address == "" {
		return nil
	}
	pool, err := smtp.New(smtp.Options{
		Address: own.Address, Security: own.Security, Roots: p.roots, Hello: own.Hello,
		Username: own.Username, Password: own.PasswordFile.Read, Connections: own.Connections,
	})
	if err != nil {
		return err
	}
	p.runner.OnClose("mail connections", func(context.Context) error { pool.Close(); return nil })
	email, err := channel.NewEmail(channel.EmailOptions{
		Mailer: pool, Server: own.Address, From: p.cfg.Email.From, UnsubscribeURL: p.cfg.Email.UnsubscribeURL,
		Secrets: func() []string {
			password, err := own.PasswordFile.Read()
			if err != nil {
				return nil
			}
			return []string{password.Reveal()}
		},
	})
	if err != nil {
		return err
	}
	return p.startEngine(email, email, dispatch.Options{InFlight: own.Connections})
}

func (p *parts) startWebhook() error {
	webhook, viaEgress, err := p.newWebhook()
	if err != nil {
		return err
	}
	return p.startEngine(webhook, webhook, dispatch.Options{
		InFlight: p.cfg.Delivery.MaxInFlight, Share: max(1, p.cfg.Delivery.MaxInFlight/2), Idempotent: viaEgress, OwnBreakers: !viaEgress,
	})
}

// newWebhook goes through webhook egress when there is one, where a repeat is no
// second delivery.
func (p *parts) newWebhook() (webhook delivering, viaEgress bool, err error) {
	own := p.cfg.Webhook
	if own.EgressAddress == "" {
		return channel.NewDirectWebhook(channel.DirectOptions{
			Checker: p.webhookGuard, Poster: p.newPoster(p.webhookGuard), Secrets: channel.Directory(own.SecretsDir), Now: time.Now,
		}), false, nil
	}
	transport := insecure.NewCredentials()
	if own.EgressTLS {
		if transport, err = own.EgressTLSFiles.Credentials(); err != nil {
			return nil, false, fmt.Errorf("%s_WEBHOOK_EGRESS_TLS_: %w", prefix, err)
		}
	}
	client, err := egress.Dial(own.EgressAddress, transport, own.EgressTokenFile)
	if err != nil {
		return nil, false, err
	}
	p.runner.OnClose("webhook egress", func(context.Context) error { return client.Close() })
	return channel.NewEgressWebhook(p.webhookGuard, client, own.EgressAddress, time.Now), true, nil
}

// startWebPush makes web push when it is on.
func (p *parts) startWebPush() error {
	if !p.cfg.WebPushEnabled {
		return nil
	}
	var err error
	if p.push, err = newWebPush(p.cfg, p.pool, p.guard, p.box, p.roots); err != nil {
		return err
	}
	const times = 4 // as many as other channels: a broadcast has many devices
	err = p.startEngine(p.push.sender, p.push.transport, dispatch.Options{
		InFlight: times * p.cfg.Delivery.MaxInFlight, OwnBreakers: true,
	})
	if err != nil {
		return err
	}
	p.push.run(p.runner, func() { p.wake(channel.WebPush) }, p.telemetry.Log)
	return nil
}

// startEngine registers a channel and hands its engine to the runner; o brings
// what is the channel's own.
func (p *parts) startEngine(sender channel.Sender, transport channel.Transport, o dispatch.Options) error {
	d := p.cfg.Delivery
	o.Channel, o.Transport, o.Store, o.Opener, o.Breaker = sender.Channel(), transport, p.queue, p.box, p.breaker
	o.Policy = channel.Policy{Schedule: d.RetrySchedule, MaxAttempts: d.MaxAttempts}
	o.Timeout, o.Lease = d.RequestTimeout, d.Lease
	o.Log, o.Meter, o.Now, o.Random = p.telemetry.Log, p.telemetry.MeterProvider.Meter(service), time.Now, rand.Float64
	engine, err := dispatch.New(o)
	if err != nil {
		return err
	}
	p.senders = append(p.senders, sender)
	p.engines[o.Channel] = engine
	p.runner.Go("dispatch "+string(o.Channel), engine.Run)
	return nil
}

// wake tells a channel's engine that there is work.
func (p *parts) wake(name channel.Name) {
	if engine, ok := p.engines[name]; ok {
		engine.Wake()
	}
}

// drainEngines stops all engines at once, after the faces, so that nothing is
// accepted while they finish.
func (p *parts) drainEngines(ctx context.Context) error {
	ended := make(chan error, len(p.engines))
	for _, engine := range p.engines {
		go func() { ended <- engine.Drain(ctx) }()
	}
	var errs []error
	for range p.engines {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

func (p *parts) newPoster(guard *netguard.Guard) *channel.Poster {
	poster := channel.NewPoster(guard, p.cfg.Delivery.RequestTimeout, p.roots, idlePerHost)
	p.runner.OnClose("idle connections", func(context.Context) error { poster.Close(); return nil })
	return poster
}

func (p *parts) newBreaker() {
	d := p.cfg.Delivery
	policy := breaker.Policy{Failures: d.BreakerFailures, Pause: d.BreakerPause, MaxPause: d.BreakerMaxPause}
	p.breaker = breaker.New(p.states("breaker", breaker.Merge, breaker.Life), policy, time.Now, rand.Float64)
}

// states are shared through Redis, when there is one.
func (p *parts) states(kind string, merge func(a, b string) string, life time.Duration) *shared.States {
	o := shared.Options{Merge: merge, Life: life, Log: p.telemetry.Log, Now: time.Now}
	if p.redis != nil {
		o.KV = redis.NewKV(p.redis, kind)
	}
	return shared.New(o)
}
