package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/eventtype"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var _ eventtype.Store = EventTypes{}

// EventTypes persists the registry of event types.
type EventTypes struct{ *Store }

// Put implements eventtype.Store.
func (s EventTypes) Put(ctx context.Context, organization string, t eventtype.Type, limit int) (created time.Time, added bool, err error) {
	err = s.inTx(ctx, "put event type", func(q *dbsql.Queries) error {
		if err := q.LockEventTypes(ctx, organization); err != nil {
			return fmt.Errorf("lock event types: %w", err)
		}
		full, err := q.HasEventTypes(ctx, dbsql.HasEventTypesParams{OrganizationID: organization, Type: t.Name, Number: int32(limit)})
		if err != nil {
			return fmt.Errorf("count event types: %w", err)
		}
		if full {
			return apierr.New(apierr.KindConflict, apierr.ReasonConflict,
				fmt.Sprintf("the organization has %d event types, and may have no more", limit))
		}
		hash := t.Hash()
		row, err := q.PutEventType(ctx, dbsql.PutEventTypeParams{
			OrganizationID: organization, Type: t.Name, Description: t.Description, Schema: append([]byte{}, t.Schema...), SchemaHash: hash[:],
			Validation: string(t.Validation), Examples: append([][]byte{}, t.Examples...), Deprecated: t.Deprecated, UpdatedAt: t.Updated,
		})
		created, added = row.CreatedAt, row.Added
		return err
	})
	return created, added, err
}

// Get implements eventtype.Store.
func (s EventTypes) Get(ctx context.Context, organization, name string) (eventtype.Type, error) {
	row, err := s.sql.GetEventType(ctx, dbsql.GetEventTypeParams{OrganizationID: organization, Type: name})
	if err != nil {
		return eventtype.Type{}, explain("read event type", notFound("event type", err))
	}
	return eventtype.Type{
		Name: row.Type, Description: row.Description, Schema: row.Schema, Validation: eventtype.Validation(row.Validation),
		Examples: row.Examples, Deprecated: row.Deprecated, Created: row.CreatedAt, Updated: row.UpdatedAt,
	}, nil
}

// Rule implements eventtype.Store.
func (s EventTypes) Rule(ctx context.Context, organization, name string) (rule eventtype.Rule, found bool, err error) {
	row, err := s.sql.GetEventTypeRule(ctx, dbsql.GetEventTypeRuleParams{OrganizationID: organization, Type: name})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return eventtype.Rule{}, false, nil
	case err != nil:
		return eventtype.Rule{}, false, explain("read rule of event type", err)
	}
	return eventtype.Rule{Validation: eventtype.Validation(row.Validation), Hash: [32]byte(row.SchemaHash)}, true, nil
}

// List implements eventtype.Store.
func (s EventTypes) List(ctx context.Context, organization, after string, limit int) ([]eventtype.Summary, error) {
	rows, err := s.sql.ListEventTypes(ctx, dbsql.ListEventTypesParams{OrganizationID: organization, After: after, Page: int32(limit)})
	if err != nil {
		return nil, explain("list event types", err)
	}
	page := make([]eventtype.Summary, len(rows))
	for i, r := range rows {
		page[i] = eventtype.Summary{
			Name: r.Type, Description: r.Description, HasSchema: r.HasSchema, Validation: eventtype.Validation(r.Validation),
			Deprecated: r.Deprecated, Created: r.CreatedAt, Updated: r.UpdatedAt,
		}
	}
	return page, nil
}

// Delete implements eventtype.Store.
func (s EventTypes) Delete(ctx context.Context, organization, name string) error {
	rows, err := s.sql.DeleteEventType(ctx, dbsql.DeleteEventTypeParams{OrganizationID: organization, Type: name})
	if err == nil && rows == 0 {
		return apierr.NotFound("event type")
	}
	return explain("delete event type", err)
}
