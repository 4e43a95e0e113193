package app

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/service"
	"switchyard.dev/services/edge/internal/slack"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/secret"
	platform "switchyard.dev/services/platform/service"
)

// approvers is what the people need who decide on approvals; decisions and slack are nil if they are off.
type approvers struct {
	groups    *approver.Groups
	decisions *control.Decisions
	slack     *control.Slack
}

// startApprovers returns the groups of approvers, and starts what notifies them if the services that it calls, and the URL at
// which they decide, are set.
func startApprovers(ctx context.Context, s *platform.Service, cfg Config, stores stores, keys *apikey.Manager) (approvers, error) {
	store := postgres.NewApprovers(stores.pool)
	on := approvers{groups: approver.NewGroups(store)}
	if !cfg.informs() {
		s.Log.InfoContext(ctx, "approvers are not notified, and there is no page on which they decide: EDGE_PUBLIC_URL, EDGE_CONTROL_TOKEN_FILE, "+
			"EDGE_GATEWAY_URL, EDGE_WEBHOOK_EGRESS_URL or EDGE_NOTIFY_URL is not set")
		return on, nil
	}
	pepper, err := cfg.KeyPepperFile.Read()
	if err != nil {
		return on, fmt.Errorf("%s_KEY_PEPPER_FILE: %w", prefix, err)
	}
	nonces, err := decision.NewNonces(pepper)
	if err != nil {
		return on, err
	}
	transport, err := upstreamTransport(s, cfg)
	if err != nil {
		return on, err
	}
	client := service.New(transport, &cfg.WebhookURL, &cfg.NotifyURL, cfg.ControlToken)
	gateway := service.NewApprovals(client, &cfg.GatewayURL)
	members := approver.NewMembers(on.groups, gateway)
	on.decisions = control.NewDecisions(gateway, members, approver.NewPersons(members, gateway, gateway), keys, nonces)
	if err := startInformer(s, cfg, store, gateway, client, pepper); err != nil {
		return on, err
	}
	on.slack, err = startSlack(s, cfg, approver.NewClicks(on.groups, store, gateway, gateway))
	return on, err
}

// newMembers returns the check of who is in the groups that decide. The token authorizes its calls of the gateway.
func newMembers(cfg Config, pool *pgxpool.Pool, transport *connpool.Pool, token secret.File) *approver.Members {
	gateway := service.NewApprovals(service.New(transport, &cfg.WebhookURL, &cfg.NotifyURL, token), &cfg.GatewayURL)
	return approver.NewMembers(approver.NewGroups(postgres.NewApprovers(pool)), gateway)
}

// startInformer starts what follows approvals.
func startInformer(s *platform.Service, cfg Config, store *postgres.Approvers, gateway *service.Approvals, feed *service.Client, pepper secret.Value) error {
	box, err := usertoken.NewBox(pepper)
	if err != nil {
		return err
	}
	informer, err := approver.NewInformer(approver.Options{
		Feed: feed, Gateway: gateway, Notifier: gateway, Store: store, Box: box, Public: &cfg.PublicURL, Log: s.Log, Meter: s.Meter,
	})
	if err != nil {
		return err
	}
	s.Runner.Go("approvals", informer.Run)
	s.Runner.Go("upkeep of approvals", informer.Upkeep)
	return nil
}

// startSlack returns what takes the buttons of messages in Slack; nil without the settings of an app.
func startSlack(s *platform.Service, cfg Config, clicks *approver.Clicks) (*control.Slack, error) {
	if cfg.SlackSecrets == "" {
		return nil, nil // control.Options requires it.
	}
	verifier, err := slack.NewVerifier(cfg.SlackSecrets)
	if err != nil {
		return nil, fmt.Errorf("%s_SLACK_SIGNING_SECRETS_FILE: %w", prefix, err)
	}
	guard, err := netguard.New(netguard.Options{})
	if err != nil {
		return nil, err
	}
	transport := guard.Transport(netguard.TransportOptions{})
	responder := slack.NewResponder(transport, s.Log)
	s.Runner.Go("answers to clicks in Slack", responder.Run)
	s.Runner.OnClose("connections to Slack", func(context.Context) error {
		transport.CloseIdleConnections()
		return nil
	})
	return &control.Slack{Verifier: verifier, App: cfg.SlackApp, Clicks: clicks, Responder: responder}, nil
}

// informs reports whether approvers are notified, and decide on a page.
func (c *Config) informs() bool {
	return c.PublicURL != (url.URL{}) && c.ControlToken != "" && c.GatewayURL.Host != "" && c.WebhookURL.Host != "" && c.NotifyURL.Host != ""
}
