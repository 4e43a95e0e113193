package app

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch/queuetest"
	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/service"
)

// On each channel, an organization whose attempts hang holds half of them: another's message goes out meanwhile.
func TestOrganizationHasItsShareOfEachChannel(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	s := &service.Service{Log: quiet, Meter: metricnoop.NewMeterProvider().Meter(""), Runner: lifecycle.New(quiet, lifecycle.Options{})}
	cfg := everyChannel(t)
	all := outletsOf(t, s, cfg)
	names := slices.Sorted(maps.Keys(all))
	if want := []channel.Name{channel.Email, channel.Slack, channel.WebPush, channel.Webhook}; !slices.Equal(names, want) {
		t.Fatalf("channels %v, want %v", names, want)
	}
	for name, to := range all {
		t.Run(string(name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := &queuetest.Memory{}
				to.transport = hanging("hostile")
				to.options.Store, to.options.Opener, to.options.Breaker = queue, unsealed{}, newBreaker(s, cfg, nil)
				for range 2 * to.options.InFlight {
					queue.AddOf("hostile", name, "", time.Hour)
				}
				good := queue.AddOf("acme", name, "", time.Hour)
				engine, err := newEngine(s, cfg, to)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = engine.Run(ctx) })
				time.Sleep(cfg.Delivery.RequestTimeout / 2)
				if !queue.State(good).Delivered {
					t.Error("another organization's message waits for those that hang")
				}
				stop()
				running.Wait()
			})
		})
	}
}

// everyChannel returns settings with which every channel is configured.
func everyChannel(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	_, private, err := webpush.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vapid": private.Reveal(), "unread": "none"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unread := filepath.Join(dir, "unread")
	cfg, err := Load([]string{
		"NOTIFY_DATABASE_URL_FILE=" + unread, "NOTIFY_ENCRYPTION_KEY_FILE=" + unread, "NOTIFY_SERVICE_TOKENS_FILE=" + unread,
		"NOTIFY_SMTP_ADDRESS=127.0.0.1:1", "NOTIFY_EMAIL_FROM=app@example.com", "NOTIFY_WEB_PUSH_ENABLED=true",
		"NOTIFY_WEB_PUSH_VAPID_KEYS_FILE=" + filepath.Join(dir, "vapid"), "NOTIFY_WEB_PUSH_VAPID_SUBJECT=mailto:ops@example.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// outletsOf returns the outlets that the service makes of its settings, by channel.
func outletsOf(t *testing.T, s *service.Service, cfg Config) map[channel.Name]outlet {
	t.Helper()
	out, err := newOutbound(cfg)
	if err != nil {
		t.Fatal(err)
	}
	push, err := newWebPush(cfg, nil, out.guard, nil, nil, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	outlets, err := newOutlets(s, cfg, nil, out, push, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[channel.Name]outlet)
	for _, o := range outlets {
		all[o.Channel()] = o
	}
	return all
}

// hanging is the organization whose messages a transport doesn't get an answer to. It delivers the others.
type hanging string

func (h hanging) Deliver(ctx context.Context, t channel.Task) channel.Outcome {
	if t.Organization != string(h) {
		return channel.Delivered(0)
	}
	<-ctx.Done()
	return channel.Lost(channel.ClassTimeout)
}

type unsealed struct{}

func (unsealed) Open(sealed []byte, _ string) ([]byte, error) { return sealed, nil }
