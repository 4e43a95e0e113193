package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// Statuses of rows of servers.
const (
	serverActive  = "active"
	serverRemoved = "removed"
)

// ToolServers implements toolserver.Store and definition.Feed.
type ToolServers struct{ control *Control }

// NewToolServers returns the tool servers of a database.
func NewToolServers(control *Control) *ToolServers { return &ToolServers{control} }

// Get implements toolserver.Store.
func (s *ToolServers) Get(ctx context.Context, key toolserver.Key) (toolserver.Server, error) {
	row, err := toolServerRow(ctx, dbsql.New(s.control.pool), key)
	if err == nil && row.Status != serverActive {
		err = toolserver.ErrNotFound
	}
	if err != nil {
		return toolserver.Server{}, fmt.Errorf("get tool server: %w", err)
	}
	return toToolServer(&row), nil
}

// toolServerRow returns the row of a server in any status, or toolserver.ErrNotFound.
func toolServerRow(ctx context.Context, q *dbsql.Queries, key toolserver.Key) (dbsql.ToolServer, error) {
	row, err := q.GetToolServer(ctx, dbsql.GetToolServerParams{OrganizationID: key.Organization, ServerID: key.ID})
	return row, orMissing(err, toolserver.ErrNotFound)
}

// List implements toolserver.Store.
func (s *ToolServers) List(ctx context.Context, organization, after string, limit int) ([]toolserver.Server, error) {
	rows, err := dbsql.New(s.control.pool).ListToolServers(ctx, dbsql.ListToolServersParams{
		OrganizationID: organization, After: after, Count: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list tool servers: %w", err)
	}
	servers := make([]toolserver.Server, len(rows))
	for i := range rows {
		servers[i] = toToolServer(&rows[i])
	}
	return servers, nil
}

// Change implements toolserver.Store.
func (s *ToolServers) Change(
	ctx context.Context, key toolserver.Key, entry *audit.Entry, decide func(*toolserver.Server) (toolserver.Server, error),
) (toolserver.Server, error) {
	var next toolserver.Server
	err := s.control.Change(ctx, control.Tools, entry, func(ctx context.Context, q *dbsql.Queries, revision int64) error {
		row, err := toolServerRow(ctx, q, key)
		if err != nil && !errors.Is(err, toolserver.ErrNotFound) {
			return err
		}
		var present *toolserver.Server
		if row.Status == serverActive {
			present = new(toToolServer(&row))
		}
		if next, err = decide(present); err != nil {
			return err
		}
		if present == nil {
			next.Version = int(row.Version) + 1 // A version that a caller saw before the removal is none of the new one.
		}
		if err := checkPlace(ctx, q, present, &next); err != nil {
			return err
		}
		if err := q.PutToolServer(ctx, fromToolServer(&next, revision)); err != nil {
			return err
		}
		if present != nil && !next.Moved(present) {
			return nil
		}
		return beginDefinitions(ctx, q, key)
	})
	if err != nil {
		return toolserver.Server{}, fmt.Errorf("change tool server: %w", err)
	}
	return next, nil
}

// checkPlace checks a server that is new or has a new prefix against the others. The topic's lock serializes it.
func checkPlace(ctx context.Context, q *dbsql.Queries, present, next *toolserver.Server) error {
	if present != nil && present.Prefix == next.Prefix {
		return nil
	}
	place, err := q.ToolServerPlace(ctx, dbsql.ToolServerPlaceParams{
		OrganizationID: next.Organization, Prefix: next.Prefix, ServerID: next.ID,
	})
	if err != nil {
		return err
	}
	return toolserver.CheckPlace(present == nil, int(place.Servers), place.Holder)
}

// beginDefinitions drops what was listed of a server and reviewed, and makes its listing due.
func beginDefinitions(ctx context.Context, q *dbsql.Queries, key toolserver.Key) error {
	if err := q.DropToolDefinitions(ctx, dbsql.DropToolDefinitionsParams{OrganizationID: key.Organization, ServerID: key.ID}); err != nil {
		return err
	}
	return q.BeginToolListing(ctx, dbsql.BeginToolListingParams{OrganizationID: key.Organization, ServerID: key.ID})
}

// Remove implements toolserver.Store. The row stays for a while, so that replicas see that the server is gone.
func (s *ToolServers) Remove(ctx context.Context, key toolserver.Key, now time.Time, entry *audit.Entry) error {
	err := s.control.Change(ctx, control.Tools, entry, func(ctx context.Context, q *dbsql.Queries, revision int64) error {
		row, err := toolServerRow(ctx, q, key)
		if err == nil && row.Status != serverActive {
			err = toolserver.ErrNotFound
		}
		if err != nil {
			return err
		}
		if err := q.DropToolDefinitions(ctx, dbsql.DropToolDefinitionsParams{OrganizationID: key.Organization, ServerID: key.ID}); err != nil {
			return err
		}
		if err := q.DropToolListing(ctx, dbsql.DropToolListingParams{OrganizationID: key.Organization, ServerID: key.ID}); err != nil {
			return err
		}
		removed := toToolServer(&row)
		removed.URL, removed.Command, removed.Credential, removed.UpdatedAt = "", "", toolserver.Credential{}, now
		put := fromToolServer(&removed, revision)
		put.Status = serverRemoved
		if err := q.PutToolServer(ctx, put); err != nil {
			return err
		}
		return q.DropRemovedToolServers(ctx, now.Add(-definition.RemovedFor))
	})
	if err != nil {
		return fmt.Errorf("remove tool server: %w", err)
	}
	return nil
}

// Revision implements definition.Feed.
func (s *ToolServers) Revision(ctx context.Context) (int64, error) {
	version, err := dbsql.New(s.control.pool).ToolRevision(ctx)
	if err != nil {
		return 0, fmt.Errorf("read tool revision: %w", err)
	}
	return version, nil
}

// ChangedSince implements definition.Feed.
func (s *ToolServers) ChangedSince(ctx context.Context, after definition.Change, limit int) ([]definition.Change, error) {
	q := dbsql.New(s.control.pool)
	rows, err := q.ToolServersChangedSince(ctx, dbsql.ToolServersChangedSinceParams{
		Revision: after.Revision, OrganizationID: after.Key.Organization, ServerID: after.Key.ID, Count: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list changed tool servers: %w", err)
	}
	var keys []toolserver.Key
	for i := range rows {
		keys = append(keys, toolserver.Key{Organization: rows[i].OrganizationID, ID: rows[i].ServerID})
	}
	known, err := knownTools(ctx, q, keys)
	if err != nil {
		return nil, err
	}
	changes := make([]definition.Change, len(rows))
	for i := range rows {
		changes[i] = definition.Change{Key: keys[i], Revision: rows[i].Revision}
		if rows[i].Status == serverActive {
			changes[i].Entry = definition.NewEntry(toToolServer(&rows[i]), rows[i].Revision, known[keys[i]])
		}
	}
	return changes, nil
}

// split returns keys as the arrays that queries take.
func split(keys []toolserver.Key) (organizations, servers []string) {
	for _, key := range keys {
		organizations, servers = append(organizations, key.Organization), append(servers, key.ID)
	}
	return organizations, servers
}

// knownTools returns what is stored of servers' tools.
func knownTools(ctx context.Context, q *dbsql.Queries, keys []toolserver.Key) (map[toolserver.Key][]definition.Known, error) {
	organizations, servers := split(keys)
	rows, err := q.ToolStatuses(ctx, dbsql.ToolStatusesParams{OrganizationIds: organizations, ServerIds: servers})
	if err != nil {
		return nil, fmt.Errorf("list tool statuses: %w", err)
	}
	known := make(map[toolserver.Key][]definition.Known)
	for _, row := range rows {
		key := toolserver.Key{Organization: row.OrganizationID, ID: row.ServerID}
		known[key] = append(known[key], definition.Known{
			Name: row.Tool, Digest: definition.Digest(row.Digest), Status: definition.Status(row.Status), Present: row.Present,
			ReviewedAt: row.ReviewedAt.Time,
		})
	}
	return known, nil
}

// Custodies of rows of servers whose secret is that of a client of OAuth.
const (
	custodyOAuthReference = "oauth_ref"
	custodyOAuthSealed    = "oauth_sealed"
)

func toToolCredential(r *dbsql.ToolServer) toolserver.Credential {
	c := toolserver.Credential{
		Custody: toolserver.Custody(r.Custody), Header: r.Header, Scheme: r.Scheme, Reference: r.SecretRef,
		KeyID: r.SealingKeyID, Ciphertext: r.Ciphertext, Fingerprint: r.Fingerprint,
	}
	switch r.Custody {
	case custodyOAuthReference:
		c.Custody = toolserver.CustodyReference
	case custodyOAuthSealed:
		c.Custody = toolserver.CustodySealed
	default:
		return c // A release without clients of OAuth leaves the column as it was.
	}
	c.OAuth = &toolserver.OAuth{}
	if json.Unmarshal(r.Oauth, c.OAuth) != nil {
		c.Custody = toolserver.Custody(r.Custody) // None that is known: the credential is refused where it is read.
	}
	return c
}

// fromToolCredential returns the custody and the client of a row.
func fromToolCredential(c *toolserver.Credential) (custody string, client []byte) {
	if c.OAuth == nil {
		return string(c.Custody), nil
	}
	custody = custodyOAuthSealed
	if c.Custody == toolserver.CustodyReference {
		custody = custodyOAuthReference
	}
	client, err := json.Marshal(c.OAuth)
	if err != nil {
		return custody, nil // Nothing in it can fail, and the row's CHECK refuses it.
	}
	return custody, client
}

func toToolServer(r *dbsql.ToolServer) toolserver.Server {
	return toolserver.Server{
		Organization: r.OrganizationID, ID: r.ServerID, Prefix: r.Prefix, URL: r.Url, Command: r.Command,
		Credential: toToolCredential(r),
		Price:      price.Pico(r.PricePicoUsd), Timeout: time.Duration(r.TimeoutSeconds) * time.Second,
		Concurrency: int(r.MaxConcurrency), PerMinute: int(r.MaxPerMinute), Version: int(r.Version),
		CreatedBy: r.CreatedBy, MovedBy: r.MovedBy, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Features: toolserver.FeaturesOf(r.Features),
	}
}

func fromToolServer(s *toolserver.Server, revision int64) dbsql.PutToolServerParams {
	custody, client := fromToolCredential(&s.Credential)
	return dbsql.PutToolServerParams{
		OrganizationID: s.Organization, ServerID: s.ID, Status: serverActive, Prefix: s.Prefix, Url: s.URL, Command: s.Command,
		Custody: custody, Oauth: client, Header: s.Credential.Header, Scheme: s.Credential.Scheme,
		SecretRef: s.Credential.Reference, SealingKeyID: s.Credential.KeyID, Ciphertext: s.Credential.Ciphertext,
		Fingerprint: s.Credential.Fingerprint, PricePicoUsd: int64(s.Price), TimeoutSeconds: int32(s.Timeout / time.Second),
		MaxConcurrency: int32(s.Concurrency), MaxPerMinute: int32(s.PerMinute), Version: int32(s.Version),
		CreatedBy: s.CreatedBy, MovedBy: s.MovedBy, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Features: toolserver.FeatureNames(s.Features),
		Revision: revision,
	}
}
