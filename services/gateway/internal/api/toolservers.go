package api

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// ToolServers registers tool servers; see package toolserver.
type ToolServers interface {
	Register(ctx context.Context, r *toolserver.Registration, reason string) (toolserver.Server, error)
	Update(ctx context.Context, key toolserver.Key, u *toolserver.Update, reason string) (toolserver.Server, error)
	Remove(ctx context.Context, key toolserver.Key, reason string) error
	// Get returns the server that an organization calls by an ID.
	Get(ctx context.Context, key toolserver.Key) (toolserver.Server, error)
	List(ctx context.Context, organization, after string, limit int) ([]toolserver.Server, error)
}

// ToolDefinitions reviews what tool servers say of their tools; see package definition.
type ToolDefinitions interface {
	List(ctx context.Context, key toolserver.Key, status definition.Status, after string, limit int) ([]definition.Reviewed, error)
	Review(ctx context.Context, key toolserver.Key, tool, digest string, v *definition.Review) (definition.Reviewed, error)
	ReviewAll(ctx context.Context, key toolserver.Key, listing string, v *definition.Review) error
	States(ctx context.Context, keys []toolserver.Key) (map[toolserver.Key]definition.State, error)
}

// ToolListings lists tool servers; see package listing.
type ToolListings interface {
	Refresh(ctx context.Context, key toolserver.Key) error
}

// ToolRegistry holds what this replica knows of tool servers; see package definition.
type ToolRegistry interface {
	// Exactly returns the server with a key; nil for none.
	Exactly(key toolserver.Key) *definition.Entry
}

// ToolCircuits knows which servers calls are held back from; see health.Set.
type ToolCircuits interface {
	State(c health.Circuit) health.State
}

// Tools are the parts of the contract of tool servers.
type Tools struct {
	Servers     ToolServers
	Definitions ToolDefinitions
	// Listings is nil in a gateway that lists no servers.
	Listings ToolListings
	Registry ToolRegistry
	Circuits ToolCircuits
}

// toolServer serves the contract of tool servers.
type toolServer struct {
	gatewayv1.UnimplementedToolServerServiceServer
	Tools
}

// ofTools is what the requests about tool servers have in common.
type ofTools interface {
	GetOrganizationId() string
	GetAllOrganizations() bool
}

// toolOrganization returns the organization of a request: the empty one, of servers of all, for operators alone.
func toolOrganization(ctx context.Context, m ofTools) (string, error) {
	if m.GetAllOrganizations() {
		return "", caller.From(ctx).EveryOrganization(m.GetOrganizationId())
	}
	return organizationOf(ctx, m.GetOrganizationId())
}

// toolKey returns the key of the server that a request names.
func toolKey(ctx context.Context, m interface {
	ofTools
	GetServerId() string
},
) (toolserver.Key, error) {
	organization, err := toolOrganization(ctx, m)
	return toolserver.Key{Organization: organization, ID: m.GetServerId()}, err
}

// RegisterToolServer registers a server.
func (s *toolServer) RegisterToolServer(ctx context.Context, m *gatewayv1.RegisterToolServerRequest) (*gatewayv1.ToolServer, error) {
	key, err := toolKey(ctx, m)
	if err == nil {
		err = storable(m)
	}
	if err == nil {
		err = mayCommand(ctx, m.GetCommand())
	}
	if err != nil {
		return nil, err
	}
	cost, err := toPrice(m.GetPricePerCallCents())
	if err != nil {
		return nil, err
	}
	server, err := s.Servers.Register(ctx, &toolserver.Registration{
		Key: key, Prefix: m.GetPrefix(), URL: m.GetUrl(), Command: m.GetCommand(), Credential: toToolOffer(m.GetCredential()), Price: cost,
		Timeout: time.Duration(m.GetTimeoutSeconds()) * time.Second, Concurrency: int(m.GetMaxConcurrency()), PerMinute: int(m.GetMaxPerMinute()),
		By: orActor(ctx, m.GetRegisteredBy()), Features: toolserver.FeaturesOf(m.GetFeatures()),
	}, m.GetReason())
	if err != nil {
		return nil, err
	}
	rpc.SetStatus(ctx, http.StatusCreated)
	return s.one(ctx, m, &server)
}

// mayCommand refuses local commands to all but operators.
func mayCommand(ctx context.Context, command string) error {
	if command == "" || caller.From(ctx).Role == caller.RoleOperator {
		return nil
	}
	return apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "command: needs the role "+string(caller.RoleOperator))
}

// orActor returns the principal that a request names, else the one that the call is made for.
func orActor(ctx context.Context, principal string) string {
	if principal != "" {
		return principal
	}
	return actor(ctx)
}

// ListToolServers returns a page of the servers that an organization may call.
func (s *toolServer) ListToolServers(ctx context.Context, m *gatewayv1.ListToolServersRequest) (*gatewayv1.ListToolServersResponse, error) {
	organization, err := toolOrganization(ctx, m)
	if err != nil {
		return nil, err
	}
	page := newKeyset("tool servers", organization)
	after, err := page.read(m.GetCursor(), 1)
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	found, err := s.Servers.List(ctx, organization, after[0], limit+1)
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListToolServersResponse{}
	if len(found) > limit {
		found = found[:limit]
		out.NextCursor = page.cursor(found[limit-1].ID)
	}
	out.Servers, err = s.all(ctx, organization, found)
	return out, err
}

// GetToolServer returns a server.
func (s *toolServer) GetToolServer(ctx context.Context, m *gatewayv1.GetToolServerRequest) (*gatewayv1.ToolServer, error) {
	key, err := toolKey(ctx, m)
	if err != nil {
		return nil, err
	}
	server, err := s.Servers.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.one(ctx, m, &server)
}

// UpdateToolServer changes a server.
func (s *toolServer) UpdateToolServer(ctx context.Context, m *gatewayv1.UpdateToolServerRequest) (*gatewayv1.ToolServer, error) {
	key, err := toolKey(ctx, m)
	if err == nil {
		err = storable(m)
	}
	if err == nil {
		err = mayCommand(ctx, m.GetCommand())
	}
	if err != nil {
		return nil, err
	}
	update := &toolserver.Update{
		Version: int(m.GetExpectedVersion()), Prefix: m.Prefix, URL: m.Url, Command: m.Command,
		Credential: toToolOffer(m.GetCredential()), NoCredential: m.GetRemoveCredential(),
		Concurrency: toInt(m.MaxConcurrency), PerMinute: toInt(m.MaxPerMinute), By: orActor(ctx, m.GetUpdatedBy()),
		Features: toolserver.FeaturesOf(m.GetFeatures()),
	}
	if m.PricePerCallCents != nil {
		cost, err := toPrice(m.GetPricePerCallCents())
		if err != nil {
			return nil, err
		}
		update.Price = &cost
	}
	if m.TimeoutSeconds != nil {
		update.Timeout = new(time.Duration(m.GetTimeoutSeconds()) * time.Second)
	}
	server, err := s.Servers.Update(ctx, key, update, m.GetReason())
	if err != nil {
		return nil, err
	}
	return s.one(ctx, m, &server)
}

func toInt(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// RemoveToolServer removes a server.
func (s *toolServer) RemoveToolServer(ctx context.Context, m *gatewayv1.RemoveToolServerRequest) (*emptypb.Empty, error) {
	key, err := toolKey(ctx, m)
	if err == nil {
		err = storable(m)
	}
	if err == nil {
		err = s.Servers.Remove(ctx, key, m.GetReason())
	}
	if err != nil {
		return nil, err
	}
	rpc.SetStatus(ctx, http.StatusNoContent)
	return &emptypb.Empty{}, nil
}

// RefreshToolServer lists a server's tools.
func (s *toolServer) RefreshToolServer(ctx context.Context, m *gatewayv1.RefreshToolServerRequest) (*gatewayv1.ToolServer, error) {
	server, err := s.own(ctx, m)
	if err != nil {
		return nil, err
	}
	if s.Listings == nil {
		return nil, apierr.Unavailable("this gateway lists no tool servers", nil)
	}
	if err := s.Listings.Refresh(ctx, server.Key()); err != nil {
		return nil, err
	}
	return s.one(ctx, m, &server)
}

// own returns the server that a request names, if it is of the organization itself.
func (s *toolServer) own(ctx context.Context, m interface {
	ofTools
	GetServerId() string
},
) (toolserver.Server, error) {
	key, err := toolKey(ctx, m)
	if err != nil {
		return toolserver.Server{}, err
	}
	server, err := s.Servers.Get(ctx, key)
	if err == nil && server.Key() != key {
		err = toolserver.ErrNotFound // Of all organizations: not theirs to change.
	}
	return server, err
}

// one returns a server with its state, as the organization of a request sees it.
func (s *toolServer) one(ctx context.Context, m ofTools, server *toolserver.Server) (*gatewayv1.ToolServer, error) {
	organization, err := toolOrganization(ctx, m)
	if err != nil {
		return nil, err
	}
	all, err := s.all(ctx, organization, []toolserver.Server{*server})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// all returns servers with their states, as an organization sees them.
func (s *toolServer) all(ctx context.Context, organization string, servers []toolserver.Server) ([]*gatewayv1.ToolServer, error) {
	keys := make([]toolserver.Key, len(servers))
	for i := range servers {
		keys[i] = servers[i].Key()
	}
	states, err := s.Definitions.States(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]*gatewayv1.ToolServer, len(servers))
	for i := range servers {
		out[i] = fromToolServer(&servers[i], states[keys[i]], s.Registry.Exactly(keys[i]))
		if organization != "" {
			showCircuit(out[i], s.Circuits.State(toolcall.CircuitOf(organization, keys[i])))
		}
	}
	return out, nil
}

func showCircuit(out *gatewayv1.ToolServer, state health.State) {
	out.Circuit = state.Phase.String()
	if state.Phase != health.Closed {
		out.CircuitCause = toNullable(state.Cause)
	}
}

// shownTools is how many names of tools that aren't exposed are shown.
const shownTools = 20

func fromToolServer(s *toolserver.Server, state definition.State, entry *definition.Entry) *gatewayv1.ToolServer {
	out := &gatewayv1.ToolServer{
		OrganizationId: s.Organization, AllOrganizations: s.Organization == "", ServerId: s.ID, Prefix: s.Prefix, Url: s.URL, Command: s.Command,
		PricePerCallCents: s.Price.Cents(), TimeoutSeconds: int32(s.Timeout / time.Second), MaxConcurrency: int32(s.Concurrency),
		MaxPerMinute: int32(s.PerMinute), ReviewState: "unlisted", ListedAt: optionalTime(state.ListedAt),
		ProtocolVersion: toNullable(state.ProtocolVersion), LastErrorClass: toNullable(state.ErrorClass), LastError: toNullable(state.ErrorText),
		LastErrorAt: optionalTime(state.ErrorAt), Version: int32(s.Version), RegisteredBy: s.CreatedBy, MovedBy: toNullable(s.MovedBy),
		CreatedAt: timestamppb.New(s.CreatedAt), UpdatedAt: timestamppb.New(s.UpdatedAt), Features: toolserver.FeatureNames(s.Features),
	}
	out.Credential = fromToolCredential(&s.Credential)
	if state.ListedAt.IsZero() || entry == nil {
		return out
	}
	if entry.Listing() != state.Digest && len(entry.Tools()) == 0 {
		return out // The registry hasn't read the first listing yet.
	}
	out.ListingDigest, out.Tools, out.ToolsPending = entry.Listing().String(), int32(len(entry.Tools())), int32(entry.Pending())
	switch {
	case entry.Changed():
		out.ReviewState = "changed"
	case entry.Pending() > 0:
		out.ReviewState = "pending"
	default:
		out.ReviewState = "reviewed"
	}
	unexposed := entry.Unexposed()
	for _, name := range unexposed[:min(len(unexposed), shownTools)] {
		out.UnexposedTools = append(out.UnexposedTools, definition.Visible(name, definition.MaxName))
	}
	return out
}
