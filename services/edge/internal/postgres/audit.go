package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
)

// audit adds an entry in the transaction of its change.
func audit(ctx context.Context, q *dbsql.Queries, entry apikey.Entry) error {
	details, err := json.Marshal(entry.Details)
	if err != nil {
		return fmt.Errorf("encode audit details: %w", err)
	}
	return q.InsertAudit(ctx, dbsql.InsertAuditParams{
		OccurredAt: entry.At, Actor: entry.Actor.Name, Action: entry.Action, OrganizationID: entry.Organization,
		KeyID: entry.Key, RequestID: entry.Actor.Request, Details: details,
	})
}

// Audit implements apikey.Store.
func (k *Keys) Audit(ctx context.Context, q apikey.AuditQuery) ([]apikey.Entry, error) {
	rows, err := dbsql.New(k.pool).ListAudit(ctx, dbsql.ListAuditParams{
		OrganizationID: q.Organization, KeyID: q.Key, Before: q.Before, Page: int32(q.Limit),
	})
	if err != nil {
		return nil, err
	}
	entries := make([]apikey.Entry, len(rows))
	for i, row := range rows {
		entries[i] = apikey.Entry{
			ID: row.ID, At: row.OccurredAt.UTC(), Actor: apikey.Actor{Name: row.Actor, Request: row.RequestID},
			Action: row.Action, Organization: row.OrganizationID, Key: row.KeyID,
		}
		if err := json.Unmarshal(row.Details, &entries[i].Details); err != nil {
			return nil, fmt.Errorf("decode audit details: %w", err)
		}
	}
	return entries, nil
}
