package app

import (
	"fmt"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/listing"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/service"
)

// tools are the tool servers that are registered, with what was reviewed of them.
type tools struct {
	servers   *toolserver.Manager
	reviewer  *definition.Reviewer
	registry  *definition.Registry
	texts     *definition.Texts
	refresher *listing.Refresher // nil without a client of tool servers
	circuits  *health.Set
}

// toolParts are what openTools takes from other parts of the gateway.
type toolParts struct {
	// lister asks servers for their tools; with nil, none is listed and no tool can be called.
	lister    listing.Lister
	canonical definition.Canonical
	// oauth asks servers for their authorization servers.
	oauth toolserver.OAuthClient
	// command reports whether the policy in force defines a local command.
	command func(name string) bool
}

// openTools opens the registry of tool servers, and starts to list their tools. Settings are loaded after it.
func openTools(s *service.Service, cfg Config, stores stores, g governance, out *network.Network, parts toolParts) (tools, error) {
	targets, err := netguard.New(netguard.Options{
		AllowTargets: cfg.AllowTargets, DenyPrefixes: cfg.DenyPrefixes, Proxy: out.Proxy(), DialPrefixes: cfg.DialNetworks,
	})
	if err != nil {
		return tools{}, fmt.Errorf("targets: %w", err)
	}
	servers, definitions := postgres.NewToolServers(stores.control), postgres.NewToolDefinitions(stores.control)
	t := tools{
		servers: &toolserver.Manager{
			Store: servers, Credentials: g.credentials.reader, Targets: targets, OAuth: parts.oauth, Command: parts.command,
		},
		reviewer: &definition.Reviewer{Store: definitions},
		registry: definition.NewRegistry(servers),
		texts:    definition.NewTexts(definitions),
	}
	stores.watcher.Watch(control.Tools, t.registry.Load)
	if parts.lister != nil {
		t.refresher = listing.New(listing.Options{
			Store: postgres.NewToolListings(stores.control), Lister: parts.lister, Canonical: parts.canonical, Log: s.Log,
		})
		t.servers.Changed = t.refresher.Wake
		s.Runner.Go("tool listings", t.refresher.Run)
	}
	return t, nil
}

// api returns what the contract of tool servers is served with.
func (t tools) api() api.Tools {
	of := api.Tools{Servers: t.servers, Definitions: t.reviewer, Registry: t.registry, Circuits: t.circuits}
	if t.refresher != nil {
		of.Listings = t.refresher
	}
	return of
}
