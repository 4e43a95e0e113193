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
	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/notify/internal/smtp"
	"switchyard.dev/services/notify/internal/upkeep"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/seal"
)

// idlePerHost is how many idle connections are kept per receiver.
const idlePerHost = 8

// openGuards reads the sealing key and the certificates, and creates the guards.
func (b *builder) openGuards(context.Context) (err error) {
	d := b.cfg.Delivery
	if b.guard, err = netguard.New(netguard.Options{AllowTargets: d.AllowTargets, DenyPrefixes: d.DenyPrefixes}); err != nil {
		return err
	}
	b.webhookGuard, err = netguard.New(netguard.Options{
		AllowTargets: d.AllowTargets, DenyPrefixes: d.DenyPrefixes, RequireHTTPS: b.cfg.Webhook.RequireHTTPS,
	})
	if err != nil {
		return err
	}
	if b.roots, err = rootsOf(d.CAFile); err != nil {
		return err
	}
	if d.EncryptionKeyFile == "" {
		return nil
	}
	key, err := d.EncryptionKeyFile.Read()
	if err != nil {
		return fmt.Errorf("encryption key: %w", err)
	}
	b.box, err = seal.New(key, "notify")
	return err
}

// rootsOf returns the system's certificates together with those of a PEM file; nil for the system's alone.
func rootsOf(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // No file is not an error.
	}
	text, err := os.ReadFile(file)
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

// startChannels creates the configured channels, and an engine for each that calls out. Those need the sealing key.
func (b *builder) startChannels(ctx context.Context) error {
	b.senders = []channel.Sender{channel.InAppSender{}}
	b.startUpkeep()
	if b.box == nil {
		b.telemetry.Log.WarnContext(ctx, "no encryption key: every channel but in_app is refused", "setting", prefix+"_ENCRYPTION_KEY_FILE")
		return nil
	}
	b.queue = postgres.NewQueue(b.pool)
	b.newBreaker()
	for _, start := range []func() error{b.startSlack, b.startEmail, b.startWebhook, b.startWebPush} {
		if err := start(); err != nil {
			return err
		}
	}
	return b.backlogMeter()
}

// startUpkeep starts the deletion of data past its retention.
func (b *builder) startUpkeep() {
	store := postgres.NewUpkeep(b.pool)
	b.runner.Go("upkeep", upkeep.New(b.telemetry.Log,
		upkeep.Kept{What: "idempotency keys", Age: b.cfg.Delivery.IdempotencyWindow, Delete: store.DeleteKeys},
		upkeep.Kept{What: "logs", Age: b.cfg.Delivery.Retention, Delete: store.DeleteLogs},
		upkeep.Kept{What: "inbox events", Age: b.cfg.EventsAge, Delete: store.DeleteEvents},
		upkeep.Kept{What: "push history", Age: b.cfg.WebPush.HistoryAge, Delete: store.DeletePushHistory},
	).Run)
}

// delivering is a channel that calls out.
type delivering interface {
	channel.Sender
	channel.Transport
}

func (b *builder) startSlack() error {
	poster := b.newPoster(b.guard)
	slack := channel.NewSlack(channel.SlackOptions{
		URLs: channel.Directory(b.cfg.Slack.WebhooksDir), Origins: b.cfg.Slack.Origins, Poster: poster,
	})
	states := b.states("rate", rate.Merge, rate.Life)
	return b.startEngine(slack, slack, dispatch.Options{
		InFlight: b.cfg.Delivery.MaxInFlight, OwnBreakers: true, Limiter: rate.New(states, b.cfg.Slack.Interval, time.Now),
	})
}

func (b *builder) startEmail() error {
	own := b.cfg.SMTP
	if own.Address == "" {
		return nil
	}
	pool, err := smtp.New(smtp.Options{
		Address: own.Address, Security: own.Security, Roots: b.roots, Hello: own.Hello,
		Username: own.Username, Password: own.PasswordFile.Read, Connections: own.Connections,
	})
	if err != nil {
		return err
	}
	b.runner.OnClose("mail connections", func(context.Context) error { pool.Close(); return nil })
	email, err := channel.NewEmail(channel.EmailOptions{
		Mailer: pool, Server: own.Address, From: b.cfg.Email.From, UnsubscribeURL: b.cfg.Email.UnsubscribeURL,
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
	return b.startEngine(email, email, dispatch.Options{InFlight: own.Connections})
}

func (b *builder) startWebhook() error {
	webhook, viaEgress, err := b.newWebhook()
	if err != nil {
		return err
	}
	return b.startEngine(webhook, webhook, dispatch.Options{
		InFlight: b.cfg.Delivery.MaxInFlight, Share: max(1, b.cfg.Delivery.MaxInFlight/2), Idempotent: viaEgress, OwnBreakers: !viaEgress,
	})
}

// newWebhook returns the webhook channel. With webhook egress it uses that, where a repeated call is no second
// delivery.
func (b *builder) newWebhook() (webhook delivering, viaEgress bool, err error) {
	own := b.cfg.Webhook
	if own.EgressAddress == "" {
		return channel.NewDirectWebhook(channel.DirectOptions{
			Checker: b.webhookGuard, Poster: b.newPoster(b.webhookGuard), Secrets: channel.Directory(own.SecretsDir), Now: time.Now,
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
	b.runner.OnClose("webhook egress", func(context.Context) error { return client.Close() })
	return channel.NewEgressWebhook(b.webhookGuard, client, own.EgressAddress, time.Now), true, nil
}

// startWebPush starts web push, if it is enabled.
func (b *builder) startWebPush() error {
	if !b.cfg.WebPushEnabled {
		return nil
	}
	var err error
	if b.push, err = newWebPush(b.cfg, b.pool, b.guard, b.box, b.roots); err != nil {
		return err
	}
	const times = 4 // that of other channels: a broadcast has many devices
	err = b.startEngine(b.push.sender, b.push.transport, dispatch.Options{
		InFlight: times * b.cfg.Delivery.MaxInFlight, OwnBreakers: true,
	})
	if err != nil {
		return err
	}
	b.push.run(b.runner, func() { b.wake(channel.WebPush) }, b.telemetry.Log)
	return nil
}

// startEngine registers a channel and starts its engine; o holds the options that differ by channel.
func (b *builder) startEngine(sender channel.Sender, transport channel.Transport, o dispatch.Options) error {
	d := b.cfg.Delivery
	o.Channel, o.Transport, o.Store, o.Opener, o.Breaker = sender.Channel(), transport, b.queue, b.box, b.breaker
	o.Policy = channel.Policy{Schedule: d.RetrySchedule, MaxAttempts: d.MaxAttempts}
	o.Timeout, o.Lease = d.RequestTimeout, d.Lease
	o.Log, o.Meter, o.Now, o.Random = b.telemetry.Log, b.telemetry.MeterProvider.Meter(service), time.Now, rand.Float64
	engine, err := dispatch.New(o)
	if err != nil {
		return err
	}
	b.senders = append(b.senders, sender)
	b.engines[o.Channel] = engine
	b.runner.Go("dispatch "+string(o.Channel), engine.Run)
	return nil
}

// wake notifies a channel's engine that there is work.
func (b *builder) wake(name channel.Name) {
	if engine, ok := b.engines[name]; ok {
		engine.Wake()
	}
}

// drainEngines stops all engines concurrently. It runs after the faces have stopped, so that nothing is accepted
// meanwhile.
func (b *builder) drainEngines(ctx context.Context) error {
	ended := make(chan error, len(b.engines))
	for _, engine := range b.engines {
		go func() { ended <- engine.Drain(ctx) }()
	}
	var errs []error
	for range b.engines {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

func (b *builder) newPoster(guard *netguard.Guard) *channel.Poster {
	poster := channel.NewPoster(guard, b.cfg.Delivery.RequestTimeout, b.roots, idlePerHost)
	b.runner.OnClose("idle connections", func(context.Context) error { poster.Close(); return nil })
	return poster
}

func (b *builder) newBreaker() {
	d := b.cfg.Delivery
	policy := breaker.Policy{Failures: d.BreakerFailures, Pause: d.BreakerPause, MaxPause: d.BreakerMaxPause}
	b.breaker = breaker.New(b.states("breaker", breaker.Merge, breaker.Life), policy, time.Now, rand.Float64)
}

// states returns a store that replicas share through Redis; without Redis it is local.
func (b *builder) states(kind string, merge func(one, other string) string, life time.Duration) *shared.States {
	return shared.New(shared.Options{
		Store: redisdb.NewKV(b.redis, kind), Merge: merge, Life: life, Log: b.telemetry.Log, Now: time.Now,
	})
}
