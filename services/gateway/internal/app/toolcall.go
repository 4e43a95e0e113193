package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/answer"
	"switchyard.dev/services/gateway/internal/mcp/credential"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/listing"
	"switchyard.dev/services/gateway/internal/mcp/notice"
	"switchyard.dev/services/gateway/internal/mcp/oauth"
	"switchyard.dev/services/gateway/internal/mcp/offering"
	"switchyard.dev/services/gateway/internal/mcp/sampling"
	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/subscription"
	"switchyard.dev/services/gateway/internal/mcp/ticket"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/service"
	"switchyard.dev/services/platform/telemetry"
)

// toolEgress is the gateway's way to tool servers.
type toolEgress struct {
	tools

	client  *upstream.Client
	oauth   *oauth.Client
	caller  *toolcall.Caller
	offers  *offers
	notices *notice.Hub
	// sessions is nil without keys to seal them, or without a store of what was ended.
	sessions *session.Manager
	// answers and subscriptions are nil without sessions.
	answers       *answer.Router
	subscriptions *subscription.Manager
	// expressions are those of standing approvals.
	expressions *approval.Expressions
}

// openToolEgress opens the client of tool servers, what is registered and reviewed, and the caller, which checks each call.
// Settings are loaded after it.
func openToolEgress(s *service.Service, cfg Config, stores stores, g governance, p pipeline, out *network.Network) (t toolEgress, err error) {
	changes := make(toolChanges, maxToolChanges)
	t.offers = &offers{}
	if t.client, t.oauth, err = newToolClient(s, cfg, g, p.fleets, out, changes, t.offers.changed); err != nil {
		return t, err
	}
	t.offers.Cache = offering.New(t.client)
	t.tools, err = openTools(s, cfg, stores, g, out, toolParts{
		lister: toolLister{t.client}, oauth: t.oauth, canonical: canonical.Value, command: func(name string) bool { _, ok := p.fleets.command(name); return ok },
	})
	if err != nil {
		return t, err
	}
	s.Runner.Go("changes of tool servers", func(ctx context.Context) error { return changes.follow(ctx, t.refresher, s.Log) })
	if p.traces.keys != nil && stores.redis != nil {
		t.sessions = &session.Manager{Sealer: p.traces.keys, Store: redis.NewSessions(stores.redis)}
		t.answers = answer.NewRouter(redis.NewReplicas(stores.redis))
		s.Runner.Go("answers of tools' callers", t.answers.Run)
		t.subscriptions = subscription.New(redis.NewSubscriptions(stores.redis))
		s.Runner.Go("subscriptions to resources", t.subscriptions.Run)
	}
	tickets, claims := roundsOf(stores, p)
	levels := trust.NewLevels(postgres.NewTrust(stores.control), stores.watcher.Ready)
	t.circuits = startToolCircuits(s, stores, p.fleets)
	approvals, err := openApprovals(s, cfg, stores, g, p)
	if err != nil {
		return t, err
	}
	t.expressions = approvals.Conditions
	t.caller, err = toolcall.New(toolcall.Options{
		Registry: t.registry, Texts: t.texts, Offerings: t.offers, Trust: levels, Policy: p.fleets.toolPolicy, Admission: g.admission,
		Listings: freshListings{
			Refresher: t.refresher, states: postgres.NewToolDefinitions(stores.control), servers: postgres.NewToolServers(stores.control), watcher: stores.watcher,
		},
		Approvals: approvals, Hold: cfg.MCPApprovalHold, ApprovalPages: toolcall.ApprovalPages(cfg.MCPApprovalURL),
		Tickets: tickets, Claims: claims, Limits: p.quotas, Circuits: t.circuits, Upstream: t.client,
		Sampler: sampling.New(p.engine), Ledger: p.ledger, Recorder: p.traces.recorder, Memory: p.memory, After: rpc.After,
		Log: s.Log, Meter: s.Meter,
	})
	if err != nil {
		return t, err
	}
	t.notices = notice.NewHub(t.caller, g.admission)
	t.offers.notices = t.notices
	stores.watcher.Watch(control.Tools, thenNotify(t.registry.Load, t.notices)) // In place of the load alone.
	stores.watcher.Watch(control.Trust, thenNotify(levels.Load, t.notices))
	s.Runner.OnDrain("notices of tool servers", t.notices.Drain)
	return t, nil
}

// roundsOf returns what calls of several rounds are sealed with, and what keeps which rounds were made. Both are nil without
// keys or without a store: servers can ask callers for nothing then.
func roundsOf(stores stores, p pipeline) (*ticket.Tickets, toolcall.Claims) {
	if p.traces.keys == nil || stores.redis == nil {
		return nil, nil
	}
	return &ticket.Tickets{Sealer: p.traces.keys}, redis.NewClaims(stores.redis)
}

// offers are what servers offer beside tools. Callers that listen are notified when a server says that it has changed.
type offers struct {
	*offering.Cache

	notices *notice.Hub
}

func (o *offers) changed(server toolserver.Key) {
	o.Changed(server)
	o.notices.Changed()
}

// thenNotify returns a load of definitions after which callers that listen are notified.
func thenNotify(load control.Load, notices *notice.Hub) control.Load {
	return func(ctx context.Context, since int64) (int64, error) {
		level, err := load(ctx, since)
		if err == nil && level != since {
			notices.Changed()
		}
		return level, err
	}
}

// newToolClient returns the client of tool servers, and that of their authorization servers.
func newToolClient(
	s *service.Service, cfg Config, g governance, fleets *fleets, out *network.Network, changes toolChanges, offersChanged func(toolserver.Key),
) (*upstream.Client, *oauth.Client, error) {
	reader := g.credentials.reader
	credentials := credential.NewCache(reader.References, reader.Seals)
	client, err := upstream.New(upstream.Options{
		AllowTargets: cfg.AllowTargets, DenyPrefixes: cfg.DenyPrefixes, Proxy: out.Proxy(), DialPrefixes: cfg.DialNetworks,
		Credentials: credentials, Commands: fleets.command, Changed: changes.note, OffersChanged: offersChanged,
		Version: telemetry.Version(), Tracer: s.Tracer, Log: s.Log,
	})
	if err != nil {
		return nil, nil, err
	}
	clients := oauth.New(client.Transport(), client.CheckURL)
	credentials.UseTokens(clients, fleets.identities)
	s.Runner.Go("tool servers", client.Run)
	s.Runner.OnClose("tool servers", func(context.Context) error {
		client.Close()
		return nil
	})
	return client, clients, nil
}

// face returns what the face of the Model Context Protocol is served with.
func (t toolEgress) face(s *service.Service, cfg Config) api.ToolFace {
	face := api.ToolFace{Caller: t.caller, Notices: t.notices, Origins: cfg.MCPOrigins, Hosts: cfg.MCPHosts, Tracer: s.Tracer, Meter: s.Meter}
	if t.sessions != nil {
		face.Sessions, face.Answers, face.Subscriptions = t.sessions, t.answers, t.subscriptions
	}
	return face
}

// toolPolicy returns the part of the policy in force that is about tools.
func (f *fleets) toolPolicy() toolcall.Policy {
	now := f.present.Load()
	return toolcall.Policy{Rules: now.policy.ToolRules(), Version: now.version.Hash}
}

// mostDepth returns how many runs the policy in force allows above another.
func (f *fleets) mostDepth() int { return f.policy().MostDepth() }

// command returns a local tool server that the policy in force defines.
func (f *fleets) command(name string) (upstream.Command, bool) {
	for _, c := range f.policy().Commands() {
		if c.Name == name {
			return upstream.Command{Argv: c.Argv, Env: c.Env, Dir: c.Dir}, true
		}
	}
	return upstream.Command{}, false
}

// toolLister lists tools with the client.
type toolLister struct{ client *upstream.Client }

// List implements listing.Lister.
func (l toolLister) List(ctx context.Context, server *toolserver.Server) (definition.Listing, error) {
	if !server.Offers(toolserver.FeatureTools) {
		return definition.Listing{}, nil
	}
	found, err := l.client.List(ctx, server)
	if err != nil {
		if ctx.Err() != nil {
			return definition.Listing{}, ctx.Err()
		}
		return definition.Listing{}, listingFailure(err)
	}
	listed := definition.Listing{ProtocolVersion: found.Version, Tools: make([]definition.Listed, 0, len(found.Tools))}
	for i := range found.Tools {
		listed.Tools = append(listed.Tools, definition.Listed{Name: found.Tools[i].Name, Text: found.Tools[i].Text})
	}
	return listed, nil
}

// listingFailure returns an error of the client as the failure of a listing.
func listingFailure(err error) *listing.Error {
	failed, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		return &listing.Error{Class: listing.ClassProtocol, Text: err.Error()}
	}
	class := listing.ClassProtocol
	switch failed.Cause {
	case upstream.CauseUnauthorized:
		class = listing.ClassUnauthorized
	case upstream.CauseTarget, upstream.CauseAuthentication, upstream.CauseCommand:
		class = listing.ClassRefused
	case upstream.CauseUnreachable, upstream.CauseCanceled, upstream.CauseMemory, upstream.CauseBusy:
		class = listing.ClassUnreachable
	case upstream.CauseTimeout:
		class = listing.ClassTimeout
	case upstream.CauseRefused:
		if class = listing.ClassUnreachable; failed.Status == 401 || failed.Status == 403 {
			class = listing.ClassUnauthorized
		}
	case upstream.CauseTooLarge:
		class = listing.ClassTooLarge
	case upstream.CauseProtocol:
	}
	return &listing.Error{Class: class, Text: failed.Text}
}

// maxToolChanges bounds the notices of servers whose tools have changed that wait. A server whose notice is lost is
// listed when its time has come.
const maxToolChanges = 1024

// toolChanges are the servers that said that their tools have changed.
type toolChanges chan toolserver.Key

// note takes a notice; it never waits.
func (c toolChanges) note(key toolserver.Key) {
	select {
	case c <- key:
	default:
	}
}

// follow makes the servers be listed soon, until ctx ends.
func (c toolChanges) follow(ctx context.Context, refresher *listing.Refresher, log *slog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case key := <-c:
			if err := refresher.Changed(ctx, key); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "a tool server's notice of a change was lost", slog.String("server", key.ID), slog.String("error", err.Error()))
			}
		}
	}
}

// freshListings lists servers again whose listings are too old for a call.
type freshListings struct {
	*listing.Refresher

	states  *postgres.ToolDefinitions
	servers *postgres.ToolServers
	watcher *control.Watcher
}

// listEvery is how often the listing that another replica makes is looked for, listWait how long.
const (
	listEvery = 200 * time.Millisecond
	listWait  = 10 * time.Second
)

// Refresh implements toolcall.Listings.
func (l freshListings) Refresh(ctx context.Context, key toolserver.Key, age time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	ticker := time.NewTicker(listEvery)
	defer ticker.Stop()
	begun := time.Now()
	for asked := false; ; asked = true {
		states, err := l.states.States(ctx, []toolserver.Key{key})
		if err != nil {
			return fmt.Errorf("state of the listing: %w", err)
		}
		if state := states[key]; begun.Sub(state.ListedAt) <= age {
			return l.load(ctx)
		}
		if asked {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-ticker.C:
			}
		}
		if err := l.Refresher.Refresh(ctx, key); err != nil && apierr.From(err).Kind != apierr.KindConflict {
			return fmt.Errorf("list the server: %w", err)
		}
	}
}

// load puts the listing in force on this replica, whichever made it.
func (l freshListings) load(ctx context.Context) error {
	version, err := l.servers.Revision(ctx)
	if err != nil {
		return fmt.Errorf("version of the tool servers: %w", err)
	}
	l.watcher.LoadVersion(ctx, control.Tools, version)
	return nil
}
