package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/listing"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// ToolListings implements listing.Store.
type ToolListings struct{ control *Control }

// NewToolListings returns the listings of a database.
func NewToolListings(control *Control) *ToolListings { return &ToolListings{control} }

// Claim implements listing.Store.
func (s *ToolListings) Claim(ctx context.Context, hold time.Duration, full []string) (listing.Claim, bool, error) {
	row, err := dbsql.New(s.control.pool).ClaimToolListing(ctx, dbsql.ClaimToolListingParams{
		HoldSeconds: hold.Seconds(), FullOrganizations: append([]string{}, full...), // NULL excludes all.
	})
	return s.claimed(ctx, &row, err)
}

// ClaimOf implements listing.Store.
func (s *ToolListings) ClaimOf(ctx context.Context, key toolserver.Key, hold time.Duration) (listing.Claim, bool, error) {
	row, err := dbsql.New(s.control.pool).ClaimToolListingOf(ctx, dbsql.ClaimToolListingOfParams{
		OrganizationID: key.Organization, ServerID: key.ID, HoldSeconds: hold.Seconds(),
	})
	of := dbsql.ClaimToolListingRow(row)
	return s.claimed(ctx, &of, err)
}

// claimed returns a claim with its server as it is behind the claim: a change of it takes the lease.
func (s *ToolListings) claimed(ctx context.Context, row *dbsql.ClaimToolListingRow, err error) (listing.Claim, bool, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return listing.Claim{}, false, nil
	}
	var server dbsql.ToolServer
	if err == nil {
		server, err = toolServerRow(ctx, dbsql.New(s.control.pool), toolserver.Key{Organization: row.OrganizationID, ID: row.ServerID})
	}
	switch {
	case err == nil && server.Status == serverActive:
	case err == nil, errors.Is(err, toolserver.ErrNotFound): // It was removed meanwhile, with its listing.
		return listing.Claim{}, false, nil
	default:
		return listing.Claim{}, false, fmt.Errorf("claim tool listing: %w", err)
	}
	return listing.Claim{Server: toToolServer(&server), Digest: toDigest(row.Digest), Failures: int(row.Failures), Lease: row.Lease}, true, nil
}

// Settle implements listing.Store. A listing that equals the one before moves no topic, and no replica loads anything.
func (s *ToolListings) Settle(
	ctx context.Context, c *listing.Claim, version string, listed []definition.Definition, entry *audit.Entry,
) (changes definition.Changes, err error) {
	digest := definition.Sum(listed)
	settle := func(ctx context.Context, q *dbsql.Queries) error {
		return orLost(q.SettleToolListing(ctx, dbsql.SettleToolListingParams{
			Digest: digest[:], ProtocolVersion: version, OrganizationID: c.Server.Organization, ServerID: c.Server.ID, Lease: c.Lease,
		}))
	}
	if digest == c.Digest {
		return changes, settle(ctx, dbsql.New(s.control.pool))
	}
	key := c.Server.Key()
	err = s.control.Change(ctx, control.Tools, entry, func(ctx context.Context, q *dbsql.Queries, revision int64) error {
		if err := settle(ctx, q); err != nil {
			return err
		}
		known, err := knownTools(ctx, q, []toolserver.Key{key})
		if err != nil {
			return err
		}
		changes = definition.Decide(listed, known[key])
		entry.Details = listingDetails(&changes, len(listed))
		if err := applyListing(ctx, q, key, &changes); err != nil {
			return err
		}
		return q.TouchToolServer(ctx, dbsql.TouchToolServerParams{Revision: revision, OrganizationID: key.Organization, ServerID: key.ID})
	})
	return changes, err
}

func orLost(settled int64, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("settle tool listing: %w", err)
	case settled == 0:
		return listing.ErrLost
	}
	return nil
}

// maxNamed is how many names of each kind of change the audit has.
const maxNamed = 20

func listingDetails(c *definition.Changes, tools int) []byte {
	first := func(names []string) []string {
		shown := make([]string, 0, maxNamed)
		for _, name := range names[:min(len(names), maxNamed)] {
			shown = append(shown, definition.Visible(name, definition.MaxName))
		}
		return shown
	}
	return details(map[string]any{
		"tools": tools, "added": len(c.Added), "changed": len(c.Changed), "vanished": len(c.Vanished),
		"added_tools": first(c.Added), "changed_tools": first(c.Changed), "vanished_tools": first(c.Vanished),
	})
}

// applyListing stores what a listing changes. What goes is written first: of each tool one definition is present.
func applyListing(ctx context.Context, q *dbsql.Queries, key toolserver.Key, c *definition.Changes) error {
	tools, digests := splitKnown(c.Dropped)
	if err := q.DropTools(ctx, dbsql.DropToolsParams{OrganizationID: key.Organization, ServerID: key.ID, Tools: tools, Digests: digests}); err != nil {
		return fmt.Errorf("drop tools: %w", err)
	}
	now := time.Now()
	tools, digests = splitKnown(c.Gone)
	if err := q.MarkToolsGone(ctx, dbsql.MarkToolsGoneParams{
		OrganizationID: key.Organization, ServerID: key.ID, Tools: tools, Digests: digests, GoneAt: now,
	}); err != nil {
		return fmt.Errorf("mark tools gone: %w", err)
	}
	tools, digests = splitKnown(c.Back)
	if err := q.MarkToolsPresent(ctx, dbsql.MarkToolsPresentParams{
		OrganizationID: key.Organization, ServerID: key.ID, Tools: tools, Digests: digests,
	}); err != nil {
		return fmt.Errorf("mark tools present: %w", err)
	}
	fresh := dbsql.InsertToolsParams{OrganizationID: key.Organization, ServerID: key.ID, FirstSeenAt: now}
	for i := range c.New {
		d := &c.New[i]
		fresh.Tools, fresh.Digests, fresh.Definitions = append(fresh.Tools, d.Name), append(fresh.Digests, d.Digest[:]), append(fresh.Definitions, string(d.Text))
	}
	if err := q.InsertTools(ctx, fresh); err != nil {
		return fmt.Errorf("insert tools: %w", err)
	}
	return nil
}

// splitKnown returns definitions as the arrays that queries take.
func splitKnown(known []definition.Known) (tools []string, digests [][]byte) {
	for i := range known {
		tools, digests = append(tools, known[i].Name), append(digests, known[i].Digest[:])
	}
	return tools, digests
}

// Fail implements listing.Store.
func (s *ToolListings) Fail(ctx context.Context, c *listing.Claim, f listing.Error, after time.Duration) error {
	return orLost(dbsql.New(s.control.pool).FailToolListing(ctx, dbsql.FailToolListingParams{
		ErrorClass: string(f.Class), ErrorText: f.Text, AfterSeconds: after.Seconds(),
		OrganizationID: c.Server.Organization, ServerID: c.Server.ID, Lease: c.Lease,
	}))
}

// Use implements listing.Store.
func (s *ToolListings) Use(ctx context.Context, uses []listing.Use) error {
	var p dbsql.UseToolListingsParams
	for _, use := range uses {
		p.OrganizationIds, p.ServerIds = append(p.OrganizationIds, use.Key.Organization), append(p.ServerIds, use.Key.ID)
		p.AfterSeconds = append(p.AfterSeconds, use.After.Seconds())
	}
	if err := dbsql.New(s.control.pool).UseToolListings(ctx, p); err != nil {
		return fmt.Errorf("use tool listings: %w", err)
	}
	return nil
}

// Hurry implements listing.Store.
func (s *ToolListings) Hurry(ctx context.Context, key toolserver.Key, after time.Duration) error {
	err := dbsql.New(s.control.pool).HurryToolListing(ctx, dbsql.HurryToolListingParams{
		AfterSeconds: after.Seconds(), OrganizationID: key.Organization, ServerID: key.ID,
	})
	if err != nil {
		return fmt.Errorf("hurry tool listing: %w", err)
	}
	return nil
}
