package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var _ endpoint.Store = (*Endpoints)(nil)

// Endpoints persists the registry of subscriptions.
type Endpoints struct{ *Store }

// reasonDeleted is why the flow of a deleted endpoint is parked, until its queue is cancelled and the flow removed.
const reasonDeleted = "endpoint_deleted"

// Add implements endpoint.Store.
func (s Endpoints) Add(ctx context.Context, e endpoint.Endpoint, limit int) error {
	target, err := targetOf(e.Organization, e.URL)
	if err != nil {
		return err
	}
	headers, info, err := encodeAccess(&e)
	if err != nil {
		return err
	}
	return s.inTx(ctx, "add endpoint", func(q *dbsql.Queries) error {
		if err := q.LockOrganization(ctx, e.Organization); err != nil {
			return fmt.Errorf("lock organization: %w", err)
		}
		full, err := q.HasEndpoints(ctx, dbsql.HasEndpointsParams{OrganizationID: e.Organization, Number: int32(limit)})
		if err != nil {
			return fmt.Errorf("count endpoints: %w", err)
		}
		if full {
			return apierr.New(apierr.KindConflict, apierr.ReasonConflict,
				fmt.Sprintf("the organization has %d endpoints, and may have no more", limit))
		}
		flow, err := q.AddEndpointFlow(ctx, dbsql.AddEndpointFlowParams{
			OrganizationID: e.Organization, Scheme: target.Scheme, Host: target.Host, Port: int32(target.Port),
			EndpointID: uuidOf(e.ID), RatePerSecond: e.RatePerSecond,
		})
		if err != nil {
			return fmt.Errorf("add flow: %w", err)
		}
		return q.AddEndpoint(ctx, dbsql.AddEndpointParams{
			ID: uuidOf(e.ID), OrganizationID: e.Organization, OwnerID: e.Owner, Url: e.URL, FlowID: flow, EventTypes: e.EventTypes,
			SigningMode: e.SigningMode, SealedSecret: e.Secret, RateLimitPerSecond: e.RatePerSecond, Description: e.Description,
			CreatedAt: e.Created, CustomHeaders: headers, Auth: info, SealedAuth: e.SealedAuth, Signatures: e.Signatures,
			Filter: e.Filter,
		})
	})
}

// notFound converts a missing row to an apierr of kind not found.
func notFound(thing string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return apierr.NotFound(thing)
	}
	return err
}

// Get implements endpoint.Store.
func (s Endpoints) Get(ctx context.Context, scope endpoint.Scope, id delivery.ID) (endpoint.Endpoint, error) {
	row, err := s.sql.GetEndpoint(ctx, dbsql.GetEndpointParams{
		ID: uuidOf(id), OrganizationID: scope.Organization, OwnerID: scope.Owner,
	})
	if err != nil {
		return endpoint.Endpoint{}, explain("read endpoint", notFound("endpoint", err))
	}
	return readEndpoint(&row)
}

// List implements endpoint.Store.
func (s Endpoints) List(ctx context.Context, f endpoint.Filter, before delivery.ID, limit int) ([]endpoint.Endpoint, error) {
	p := dbsql.ListEndpointsParams{
		OrganizationID: f.Organization, OwnerID: f.Owner, Before: uuidOf(before), Active: f.Active, Patterns: []string{},
		Page: int32(limit),
	}
	if f.EventType != "" {
		p.Patterns = endpoint.Patterns(f.EventType)
	}
	rows, err := s.list(ctx, p, f.Every)
	if err != nil {
		return nil, explain("list endpoints", err)
	}
	page := make([]endpoint.Endpoint, len(rows))
	for i := range rows {
		if page[i], err = readEndpoint(&rows[i]); err != nil {
			return nil, err
		}
	}
	return page, nil
}

func (s Endpoints) list(ctx context.Context, p dbsql.ListEndpointsParams, every bool) ([]dbsql.Endpoint, error) {
	if !every {
		return s.sql.ListEndpoints(ctx, p)
	}
	return s.sql.ListEveryEndpoint(ctx, dbsql.ListEveryEndpointParams{
		Before: p.Before, OwnerID: p.OwnerID, Active: p.Active, Patterns: p.Patterns, Page: p.Page,
	})
}

// Update implements endpoint.Store.
func (s Endpoints) Update(
	ctx context.Context, scope endpoint.Scope, id delivery.ID, change func(endpoint.Endpoint) (endpoint.Endpoint, error),
) (endpoint.Endpoint, error) {
	var now endpoint.Endpoint
	err := s.inTx(ctx, "update endpoint", func(q *dbsql.Queries) error {
		row, err := lockEndpoint(ctx, q, scope, id)
		if err != nil {
			return err
		}
		before, err := readEndpoint(&row)
		if err != nil {
			return err
		}
		if now, err = change(before); err != nil {
			return err
		}
		if err := writeEndpoint(ctx, q, now); err != nil {
			return err
		}
		return turnFlow(ctx, q, before, now)
	})
	return now, err
}

func lockEndpoint(ctx context.Context, q *dbsql.Queries, scope endpoint.Scope, id delivery.ID) (dbsql.Endpoint, error) {
	if err := q.LockOrganization(ctx, scope.Organization); err != nil {
		return dbsql.Endpoint{}, fmt.Errorf("lock organization: %w", err)
	}
	row, err := q.LockEndpoint(ctx, dbsql.LockEndpointParams{
		ID: uuidOf(id), OrganizationID: scope.Organization, OwnerID: scope.Owner,
	})
	return row, notFound("endpoint", err)
}

func writeEndpoint(ctx context.Context, q *dbsql.Queries, now endpoint.Endpoint) error {
	headers, info, err := encodeAccess(&now)
	if err != nil {
		return err
	}
	earlier := writeEarlier(now.Earlier)
	return q.UpdateEndpoint(ctx, dbsql.UpdateEndpointParams{
		ID: uuidOf(now.ID), Url: now.URL, EventTypes: now.EventTypes, Active: now.Active, SealedSecret: now.Secret,
		SealedPreviousSecret: earlier.previous, PreviousSecretExpiresAt: orEpoch(earlier.until),
		SealedOlderSecrets: earlier.older, OlderSecretsExpireAt: earlier.olderUntil,
		RateLimitPerSecond: now.RatePerSecond, Description: now.Description, UpdatedAt: now.Updated,
		CustomHeaders: headers, Auth: info, SealedAuth: now.SealedAuth, Signatures: now.Signatures,
		Filter: now.Filter, Moves: int32(now.Moves),
	})
}

// turnFlow applies an endpoint's changes to its flow. Failures at another URL, or before the endpoint was resumed, no
// longer count: neither for the circuit nor for the endpoint.
func turnFlow(ctx context.Context, q *dbsql.Queries, before, now endpoint.Endpoint) error {
	from, err := targetOf(before.Organization, before.URL)
	if err != nil {
		return err
	}
	to, err := targetOf(now.Organization, now.URL)
	if err != nil {
		return err
	}
	if from != to || before.RatePerSecond != now.RatePerSecond {
		err := q.SetFlow(ctx, dbsql.SetFlowParams{
			FlowID: now.FlowID, Scheme: to.Scheme, Host: to.Host, Port: int32(to.Port), RatePerSecond: now.RatePerSecond,
		})
		if err != nil {
			return fmt.Errorf("set flow: %w", err)
		}
	}
	switch {
	case before.Active && !now.Active:
		return q.PauseFlow(ctx, dbsql.PauseFlowParams{FlowID: now.FlowID, Reason: string(delivery.FaultEndpointPaused)})
	case now.Active && (!before.Active || from != to):
		if err := q.ClearFailures(ctx, uuidOf(now.ID)); err != nil {
			return fmt.Errorf("clear failures: %w", err)
		}
		return q.ResumeFlow(ctx, now.FlowID)
	}
	return nil
}

// Delete implements endpoint.Store.
func (s Endpoints) Delete(ctx context.Context, scope endpoint.Scope, id delivery.ID) error {
	return s.inTx(ctx, "delete endpoint", func(q *dbsql.Queries) error {
		row, err := lockEndpoint(ctx, q, scope, id)
		if err != nil {
			return err
		}
		if err := q.DeleteEndpoint(ctx, row.ID); err != nil {
			return err
		}
		return q.PauseFlow(ctx, dbsql.PauseFlowParams{FlowID: row.FlowID, Reason: reasonDeleted})
	})
}

// CancelDeleted implements endpoint.Store.
func (s Endpoints) CancelDeleted(ctx context.Context, limit int) (bool, error) {
	var more bool
	err := s.inTx(ctx, "cancel for deleted", func(q *dbsql.Queries) error {
		flows, err := q.ListDeletedFlows(ctx, 1)
		if err != nil || len(flows) == 0 {
			return err
		}
		more = true
		if flows, err = q.LockFlow(ctx, flows[0]); err != nil || len(flows) == 0 {
			return err
		}
		rows, err := q.TakeQueuedOf(ctx, dbsql.TakeQueuedOfParams{FlowID: flows[0], Page: int32(limit)})
		if err != nil {
			return fmt.Errorf("take queued: %w", err)
		}
		if len(rows) > 0 {
			taken := make([]dbsql.TakeQueuedRow, len(rows))
			for i, r := range rows {
				taken[i] = dbsql.TakeQueuedRow(r)
			}
			if err := cancel(ctx, q, taken); err != nil {
				return err
			}
		}
		if len(rows) < limit {
			return q.RemoveFlow(ctx, flows[0])
		}
		return nil
	})
	return more, err
}

// encodeAccess returns the JSON of an endpoint's headers, and of what reads show of its authentication; each is nil for
// none.
func encodeAccess(e *endpoint.Endpoint) (headers, info []byte, err error) {
	if len(e.Headers) > 0 {
		if headers, err = json.Marshal(e.Headers); err != nil {
			return nil, nil, fmt.Errorf("encode headers: %w", err)
		}
	}
	if e.Auth != nil {
		if info, err = json.Marshal(e.Auth); err != nil {
			return nil, nil, fmt.Errorf("encode auth: %w", err)
		}
	}
	return headers, info, nil
}

func readEndpoint(row *dbsql.Endpoint) (endpoint.Endpoint, error) {
	e := endpoint.Endpoint{
		ID: row.ID.Bytes, Organization: row.OrganizationID, Owner: orZero(row.OwnerID), URL: row.Url, FlowID: row.FlowID,
		EventTypes: row.EventTypes, Active: row.Active, SigningMode: row.SigningMode, Secret: row.SealedSecret,
		Earlier:       readEarlier(row.SealedPreviousSecret, row.PreviousSecretExpiresAt, row.SealedOlderSecrets, row.OlderSecretsExpireAt),
		RatePerSecond: row.RateLimitPerSecond, Description: row.Description, DisabledReason: orZero(row.DisabledReason),
		DisabledAt: orZero(row.DisabledAt), FailingSince: orZero(row.FailingSince), Created: row.CreatedAt, Updated: row.UpdatedAt,
		SealedAuth: row.SealedAuth, Signatures: row.Signatures, Filter: row.Filter, Moves: int(row.Moves),
	}
	if row.CustomHeaders != nil {
		if err := json.Unmarshal(row.CustomHeaders, &e.Headers); err != nil {
			return endpoint.Endpoint{}, fmt.Errorf("decode headers: %w", err)
		}
	}
	if row.Auth != nil {
		if err := json.Unmarshal(row.Auth, &e.Auth); err != nil {
			return endpoint.Endpoint{}, fmt.Errorf("decode auth: %w", err)
		}
	}
	return e, nil
}
