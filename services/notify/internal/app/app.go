// Package app wires the notify service. It is the only package that imports all others; cmd/notify calls it.
package app

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/gen"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/notify/internal/api"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/egress"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/internal/upkeep"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/houseevent/outbox"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/service"
)

const serviceName = "notify"

// maxBody and unaryTimeout bound a call. The body has room for a webhook payload of 512 KiB beside the message.
const (
	maxBody      = 1 << 20
	unaryTimeout = 10 * time.Second
)

// Serve runs the service until ctx ends, then drains it.
func Serve(ctx context.Context, cfg Config) error {
	o := service.Options{Name: serviceName, LogLevel: cfg.LogLevel, LogDropped: cfg.LogSample.Rest(), StoreSpans: cfg.StoreSpans, DrainDelay: cfg.DrainDelay, DrainGrace: cfg.DrainGrace}
	return service.Run(ctx, o, func(ctx context.Context, s *service.Service) error { return wire(ctx, s, cfg) })
}

// wire builds the service. Each step returns what the steps after it need.
func wire(ctx context.Context, s *service.Service, cfg Config) error {
	stores, err := openStores(ctx, s, cfg)
	if err != nil {
		return fmt.Errorf("stores: %w", err)
	}
	startUpkeep(s, cfg, stores)
	out, err := newOutbound(cfg)
	if err != nil {
		return fmt.Errorf("guards: %w", err)
	}
	box, err := newBox(cfg)
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	var client *egress.Client // nil without webhook egress
	if cfg.Webhook.EgressAddress != "" {
		if client, err = dialEgress(s, cfg.Webhook); err != nil {
			return err
		}
	}
	channels, err := startChannels(ctx, s, cfg, stores, out, box, client)
	if err != nil {
		return fmt.Errorf("channels: %w", err)
	}
	if err := startEvents(s, cfg, outbox.New(stores.pool), client, channels.push); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	domain := startDomain(s, cfg, stores, box, channels)
	if err := startServers(ctx, s, cfg, stores, domain); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	s.Runner.OnDrain("dispatch", channels.drain) // After the faces, so that nothing is accepted meanwhile.
	s.Log.InfoContext(ctx, "serving", "http", cfg.HTTPListen, "grpc", cfg.GRPCListen)
	return nil
}

// stores are the connections to Postgres and Redis.
type stores struct {
	pool  *pgxpool.Pool
	redis *redisdb.Client // nil without Redis
}

// openStores opens the database, refuses a schema that is older than this build, and connects to Redis.
func openStores(ctx context.Context, s *service.Service, cfg Config) (stores, error) {
	pool, err := s.Pool(ctx, cfg.database(), migrations.FS)
	if err != nil {
		return stores{}, err
	}
	s.Runner.Check("postgres", pool.Ping)
	client, err := s.Redis(ctx, cfg.redis())
	return stores{pool, client}, err
}

func (c Config) database() service.Database {
	return service.Database{Setting: prefix + "_DATABASE_URL_FILE", URLFile: c.DatabaseURLFile, Name: serviceName}
}

func (c Config) redis() service.Redis {
	return service.Redis{Settings: prefix + "_REDIS_", URLFile: c.RedisURLFile, CAFile: c.RedisCAFile, Prefix: serviceName}
}

func (c Config) access() service.Access {
	return service.Access{TokensFile: c.ServiceTokensFile, AuthDisabled: c.AuthDisabled, TLS: c.TLS}
}

// startUpkeep starts the deletion of data past its retention.
func startUpkeep(s *service.Service, cfg Config, stores stores) {
	store := postgres.NewUpkeep(stores.pool)
	s.Runner.Go("upkeep", upkeep.New(s.Log,
		upkeep.Kind{What: "idempotency keys", Age: cfg.Delivery.IdempotencyWindow, Delete: store.DeleteKeys},
		upkeep.Kind{What: "logs", Age: cfg.Delivery.Retention, Delete: store.DeleteLogs},
		upkeep.Kind{What: "inbox events", Age: cfg.EventsAge, Delete: store.DeleteEvents},
		upkeep.Kind{What: "push history", Age: cfg.WebPush.HistoryAge, Delete: store.DeletePushHistory},
	).Run)
}

// startDomain creates the implementations behind the API, and registers their background tasks.
func startDomain(s *service.Service, cfg Config, stores stores, box *seal.Box, channels *channels) api.Services {
	feed, notifier := startFeed(s, cfg, postgres.NewInboxes(stores.pool), stores.redis)
	outbox := postgres.NewOutbox(stores.pool)
	sender := send.Options{
		Registry: channel.NewRegistry(cfg.WebPushEnabled, channels.senders...),
		Outbox:   announced{outbox, outbox, notifier.notify}, Updates: announced{outbox, outbox, notifier.notify}, Lifetime: cfg.Delivery.Lifetime, Wake: channels.wake,
	}
	if box != nil {
		sender.Sealer, sender.Opener = box, box
	}
	domain := api.Services{
		Sender: send.NewService(sender), Logs: outbox, Inboxes: postgres.NewInboxes(stores.pool).Announce(notifier.notify), Feed: feed,
	}
	if channels.push != nil {
		domain.Push = channels.push.registry
	}
	return domain
}

// startCounts starts the recorder of calls whose record doesn't store their count, and the pager of all counts. Both
// run until the faces have drained.
func startCounts(s *service.Service, stores stores) (*countfeed.Recorder, *countfeed.Pager) {
	counts := countfeed.New(stores.pool, nil)
	recorder, pager := countfeed.NewRecorder(counts), countfeed.NewPager(counts, s.Log)
	s.Runner.Go("recorder of call counts", recorder.Run)
	s.Runner.Go("pager of call counts", pager.Run)
	return recorder, pager
}

// startServers registers and starts both faces, and the demo page if it is enabled.
func startServers(ctx context.Context, s *service.Service, cfg Config, stores stores, domain api.Services) error {
	recorder, pager := startCounts(s, stores)
	server, err := s.NewServer(cfg.access(), rpc.Options{
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, ErrorBody: apierr.NewPlain,
		MaxBody: maxBody, UnaryTimeout: unaryTimeout, Counts: recorder,
	})
	if err != nil {
		return err
	}
	domain.CallCounts = pager
	if err := api.Register(ctx, server, domain); err != nil {
		return err
	}
	err = s.Mount(server, service.Open{Contract: service.Contract{
		Files: gen.OpenAPI, Name: "notify", Title: "Switchyard notify", Description: "What first-party services and operators may call.",
	}})
	if err != nil {
		return err
	}
	if err := server.Serve(ctx, s.Runner, cfg.HTTPListen, cfg.GRPCListen); err != nil {
		return err
	}
	return serveDemo(ctx, s, cfg.Demo, server.Handler())
}
