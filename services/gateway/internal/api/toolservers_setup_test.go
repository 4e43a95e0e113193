package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/listing"
	"switchyard.dev/services/gateway/internal/mcp/oauth"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/testkit"
)

// tooled is what a bench needs for tool servers.
type tooled struct {
	tools api.Tools
	// registry follows the changes, and offered answers in the place of all servers.
	registry *definition.Registry
	offered  *offered
	circuits *health.Set
}

// offered are the tools that servers list, by their URLs.
type offered struct {
	mu     sync.Mutex
	tools  map[string][]definition.Listed
	errors map[string]error
}

// offer makes the server with a URL list tools: "name=definition".
func (o *offered) offer(url string, tools ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tools[url], o.errors[url] = nil, nil
	for _, tool := range tools {
		name, text, _ := strings.Cut(tool, "=")
		o.tools[url] = append(o.tools[url], definition.Listed{Name: name, Text: json.RawMessage(text)})
	}
}

func (o *offered) fail(url string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errors[url] = err
}

// List implements listing.Lister.
func (o *offered) List(_ context.Context, s *toolserver.Server) (definition.Listing, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return definition.Listing{ProtocolVersion: "2026-07-28", Tools: o.tools[s.URL]}, o.errors[s.URL]
}

// publicHosts is a guard that looks no names up.
type publicHosts struct{ *netguard.Guard }

func (publicHosts) CheckHost(context.Context, *url.URL) error { return nil }

func (b *bench) openTools(tb testing.TB, watcher *control.Watcher, log *slog.Logger) {
	tb.Helper()
	guard, err := netguard.New(netguard.Options{AllowTargets: []string{"localhost:9009"}})
	if err != nil {
		tb.Fatal(err)
	}
	servers := postgres.NewToolServers(b.control)
	b.registry = definition.NewRegistry(servers)
	b.offered = &offered{tools: make(map[string][]definition.Listed), errors: make(map[string]error)}
	watcher.Watch(control.Tools, b.registry.Load)
	b.circuits = health.NewSet(health.DefaultPolicy(), nil, log)
	b.tools = api.Tools{
		Servers: &toolserver.Manager{
			Store: servers, Credentials: b.reader, Targets: publicHosts{guard}, OAuth: namedIssuers{oauth.New(nil, nil)}, Command: func(name string) bool { return name == "git" },
		},
		Definitions: &definition.Reviewer{Store: postgres.NewToolDefinitions(b.control)},
		Registry:    b.registry,
		Circuits:    b.circuits,
		Listings: listing.New(listing.Options{
			Store: postgres.NewToolListings(b.control), Lister: b.offered, Canonical: canonicalForm, Log: log,
		}),
	}
}

func canonicalForm(text []byte) ([]byte, error) {
	value := jsontext.Value(text).Clone()
	err := value.Canonicalize()
	return value, err
}

const serversPath = "/v1/mcp/servers"

// see reads a path for acme.
func (b *bench) see(tb testing.TB, path string, headers ...string) answer {
	tb.Helper()
	return b.say(tb, http.MethodGet, path, "", headers...)
}

// toolRows returns what is stored of tool servers, and the audit.
func (b *bench) toolRows(tb testing.TB) (rows string) {
	tb.Helper()
	for _, table := range []string{"tool_server", "tool_definition", "tool_listing", "audit_entry"} {
		rows += testkit.Value[string](tb, b.pool, `SELECT coalesce(string_agg(t::text, ' '), '') FROM `+table+` t`)
	}
	return rows
}

// registers registers a server of acme by ada.
func (b *bench) registers(tb testing.TB, id, more string) map[string]any {
	tb.Helper()
	return b.post(tb, serversPath, fmt.Sprintf(`{"server_id":%q,"url":"https://%s.example/mcp","registered_by":"ada"%s}`, id, id, more)).fields(tb, 201)
}

// refreshes lists a server of acme, which offers tools.
func (b *bench) refreshes(tb testing.TB, id string, tools ...string) map[string]any {
	tb.Helper()
	b.offered.offer("https://"+id+".example/mcp", tools...)
	return b.post(tb, serversPath+"/"+id+"/refresh", `{}`).fields(tb, 200)
}

// definitions returns a server's definitions.
func (b *bench) definitions(tb testing.TB, id string) map[string]map[string]any {
	tb.Helper()
	all := make(map[string]map[string]any)
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		page := b.see(tb, serversPath+"/"+id+"/tools?cursor="+cursor).fields(tb, 200)
		for _, tool := range page["tools"].([]any) {
			of := tool.(map[string]any)
			all[of["tool"].(string)] = of
		}
		cursor = page["next_cursor"].(string)
	}
	return all
}

// reviews decides by bob on the present definition of a tool.
func (b *bench) reviews(tb testing.TB, id, tool, decision string) answer {
	tb.Helper()
	digest := b.definitions(tb, id)[tool]["digest"]
	return b.post(tb, serversPath+"/"+id+"/tools/"+url.PathEscape(tool)+"/review",
		fmt.Sprintf(`{"digest":%q,"decision":%q,"reviewed_by":"bob"}`, digest, decision))
}
