package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// ToolDefinitions implements definition.Store and definition.TextStore.
type ToolDefinitions struct{ control *Control }

// NewToolDefinitions returns the tool definitions of a database.
func NewToolDefinitions(control *Control) *ToolDefinitions { return &ToolDefinitions{control} }

// List implements definition.Store.
func (s *ToolDefinitions) List(
	ctx context.Context, key toolserver.Key, status definition.Status, after string, limit int,
) ([]definition.Reviewed, error) {
	rows, err := dbsql.New(s.control.pool).ListToolDefinitions(ctx, dbsql.ListToolDefinitionsParams{
		OrganizationID: key.Organization, ServerID: key.ID, Status: string(status), After: after, Count: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list tool definitions: %w", err)
	}
	found := make([]definition.Reviewed, len(rows))
	for i := range rows {
		row := &rows[i]
		found[i] = toReviewed(key, &dbsql.PresentToolDefinitionRow{
			Tool: row.Tool, Digest: row.Digest, Definition: row.Definition, Status: row.Status, Present: row.Present,
			FirstSeenAt: row.FirstSeenAt, SeenAt: row.SeenAt, ReviewedBy: row.ReviewedBy, ReviewReason: row.ReviewReason, ReviewedAt: row.ReviewedAt,
		})
		if len(row.ApprovedDigest) > 0 {
			found[i].Before = &definition.Definition{
				Server: key, Name: row.Tool, Digest: definition.Digest(row.ApprovedDigest), Text: json.RawMessage(row.ApprovedDefinition),
			}
		}
	}
	return found, nil
}

// Review implements definition.Store.
func (s *ToolDefinitions) Review(
	ctx context.Context, key toolserver.Key, tool string, digest definition.Digest, v *definition.Review, now time.Time, entry *audit.Entry,
) (definition.Reviewed, error) {
	var reviewed definition.Reviewed
	err := s.change(ctx, key, v, entry, func(ctx context.Context, q *dbsql.Queries) error {
		row, err := q.PresentToolDefinition(ctx, dbsql.PresentToolDefinitionParams{OrganizationID: key.Organization, ServerID: key.ID, Tool: tool})
		if err != nil {
			return orMissing(err, definition.ErrNoTool)
		}
		if reviewed, err = toReviewed(key, &row).Decide(v, digest, now); err != nil {
			return err
		}
		entry.Details = details(map[string]any{"tool": definition.Visible(tool, definition.MaxName), "digest": digest.String(), "reviewed_by": v.By})
		return review(ctx, q, key, []string{tool}, reviewed.Status, v, now)
	})
	return reviewed, err
}

// ReviewAll implements definition.Store.
func (s *ToolDefinitions) ReviewAll(
	ctx context.Context, key toolserver.Key, listing definition.Digest, v *definition.Review, now time.Time, entry *audit.Entry,
) error {
	return s.change(ctx, key, v, entry, func(ctx context.Context, q *dbsql.Queries) error {
		states, err := toolStates(ctx, q, []toolserver.Key{key})
		if err != nil {
			return err
		}
		if states[key].Digest != listing {
			return definition.ErrOtherListing
		}
		tools, err := q.PendingTools(ctx, dbsql.PendingToolsParams{OrganizationID: key.Organization, ServerID: key.ID})
		if err != nil {
			return err
		}
		if len(tools) == 0 {
			return definition.ErrNotPending
		}
		entry.Details = details(map[string]any{"tools": len(tools), "listing_digest": listing.String(), "reviewed_by": v.By})
		return review(ctx, q, key, tools, v.Verdict.Status(), v, now)
	})
}

// change makes a review of a server's definitions, under the topic's lock.
func (s *ToolDefinitions) change(
	ctx context.Context, key toolserver.Key, v *definition.Review, entry *audit.Entry, decide func(context.Context, *dbsql.Queries) error,
) error {
	err := s.control.Change(ctx, control.Tools, entry, func(ctx context.Context, q *dbsql.Queries, revision int64) error {
		row, err := toolServerRow(ctx, q, key)
		if err == nil && row.Status != serverActive {
			err = toolserver.ErrNotFound
		}
		if err != nil {
			return err
		}
		server := toToolServer(&row)
		if err := v.Independent(&server); err != nil {
			return err
		}
		if err := decide(ctx, q); err != nil {
			return err
		}
		return q.TouchToolServer(ctx, dbsql.TouchToolServerParams{Revision: revision, OrganizationID: key.Organization, ServerID: key.ID})
	})
	if err != nil {
		return fmt.Errorf("review tool definitions: %w", err)
	}
	return nil
}

// review decides on the pending definitions of tools.
func review(
	ctx context.Context, q *dbsql.Queries, key toolserver.Key, tools []string, status definition.Status, v *definition.Review, now time.Time,
) error {
	if status == definition.Approved {
		if err := q.DropApprovedTools(ctx, dbsql.DropApprovedToolsParams{OrganizationID: key.Organization, ServerID: key.ID, Tools: tools}); err != nil {
			return err
		}
	}
	reviewed, err := q.ReviewTools(ctx, dbsql.ReviewToolsParams{
		OrganizationID: key.Organization, ServerID: key.ID, Tools: tools, Status: string(status),
		ReviewedBy: v.By, ReviewReason: v.Reason, ReviewedAt: now,
	})
	if err == nil && len(reviewed) != len(tools) {
		err = definition.ErrNotPending
	}
	return err
}

// States implements definition.Store.
func (s *ToolDefinitions) States(ctx context.Context, keys []toolserver.Key) (map[toolserver.Key]definition.State, error) {
	return toolStates(ctx, dbsql.New(s.control.pool), keys)
}

func toolStates(ctx context.Context, q *dbsql.Queries, keys []toolserver.Key) (map[toolserver.Key]definition.State, error) {
	organizations, servers := split(keys)
	rows, err := q.ToolListings(ctx, dbsql.ToolListingsParams{OrganizationIds: organizations, ServerIds: servers})
	if err != nil {
		return nil, fmt.Errorf("list tool listings: %w", err)
	}
	states := make(map[toolserver.Key]definition.State, len(rows))
	for _, row := range rows {
		states[toolserver.Key{Organization: row.OrganizationID, ID: row.ServerID}] = definition.State{
			Digest: toDigest(row.Digest), ProtocolVersion: row.ProtocolVersion, ListedAt: row.ListedAt.Time, Failures: int(row.Failures),
			ErrorClass: row.ErrorClass, ErrorText: row.ErrorText, ErrorAt: row.ErrorAt.Time,
		}
	}
	return states, nil
}

// toDigest returns the zero digest for NULL.
func toDigest(text []byte) (d definition.Digest) {
	copy(d[:], text)
	return d
}

// Texts implements definition.TextStore.
func (s *ToolDefinitions) Texts(ctx context.Context, key toolserver.Key) (map[definition.Digest]definition.Text, error) {
	rows, err := dbsql.New(s.control.pool).ToolTexts(ctx, dbsql.ToolTextsParams{OrganizationID: key.Organization, ServerID: key.ID})
	if err != nil {
		return nil, fmt.Errorf("list tool texts: %w", err)
	}
	texts := make(map[definition.Digest]definition.Text, len(rows))
	for _, row := range rows {
		texts[definition.Digest(row.Digest)] = definition.Text{Definition: json.RawMessage(row.Definition), ReviewedBy: row.ReviewedBy}
	}
	return texts, nil
}

func toReviewed(key toolserver.Key, r *dbsql.PresentToolDefinitionRow) definition.Reviewed {
	return definition.Reviewed{
		Definition: definition.Definition{Server: key, Name: r.Tool, Digest: definition.Digest(r.Digest), Text: json.RawMessage(r.Definition)},
		Status:     definition.Status(r.Status), ReviewedBy: r.ReviewedBy, Reason: r.ReviewReason,
		FirstSeenAt: r.FirstSeenAt, SeenAt: r.SeenAt, ReviewedAt: r.ReviewedAt.Time, Present: r.Present,
	}
}
