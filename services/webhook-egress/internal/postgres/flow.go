package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

const (
	// maxPaths is how many paths of an organization get a flow each; further paths share flows. So a caller with a stream
	// of new paths doesn't fill the store. Concurrent batches may exceed it by their own paths.
	maxPaths = 1000
	// sharedFlows is how many flows the further paths of a host share.
	sharedFlows = 64
)

// lockFlows finds or creates the flows of targets. It prevents them from being put to sleep before the rows that are
// added to them are visible.
func lockFlows(ctx context.Context, q *dbsql.Queries, wanted map[delivery.Target]bool) (map[delivery.Target]delivery.Flow, error) {
	found, ordered, paths := make(map[delivery.Target]delivery.Flow, len(wanted)), make(map[delivery.Target]bool), make(pathFlows)
	for t := range wanted {
		if t.Path == (delivery.PathID{}) {
			ordered[t] = true
		} else {
			paths.want(t, string(t.Path[:]))
		}
	}
	if err := lockPaths(ctx, q, paths, found); err != nil {
		return nil, err
	}
	return found, lockOrdered(ctx, q, ordered, found)
}

// lockOrdered adds to found the flows that deliveries with an ordering key share.
func lockOrdered(
	ctx context.Context, q *dbsql.Queries, wanted map[delivery.Target]bool, found map[delivery.Target]delivery.Flow,
) error {
	for added := false; len(wanted) > 0; added = true {
		var p dbsql.LockFlowsParams
		for t := range wanted {
			p.Organizations, p.Schemes = append(p.Organizations, t.Organization), append(p.Schemes, t.Scheme)
			p.Hosts, p.Ports = append(p.Hosts, t.Host), append(p.Ports, int32(t.Port))
		}
		rows, err := q.LockFlows(ctx, p)
		if err != nil {
			return fmt.Errorf("lock flows: %w", err)
		}
		for _, r := range rows {
			t := delivery.Target{Organization: r.OrganizationID, Scheme: r.Scheme, Host: r.Host, Port: int(r.Port)}
			found[t] = delivery.Flow{ID: r.FlowID, Organization: r.OrganizationID, Metered: r.Metered}
			delete(wanted, t)
		}
		switch {
		case len(wanted) == 0:
		case added:
			return errMissing
		default:
			if err := addFlows(ctx, q, slices.Collect(maps.Keys(wanted))); err != nil {
				return err
			}
		}
	}
	return nil
}

var errMissing = errors.New("lock flows: some are missing after they were added")

func addFlows(ctx context.Context, q *dbsql.Queries, targets []delivery.Target) error {
	var p dbsql.AddFlowsParams
	for _, t := range targets {
		p.Organizations, p.Schemes = append(p.Organizations, t.Organization), append(p.Schemes, t.Scheme)
		p.Hosts, p.Ports = append(p.Hosts, t.Host), append(p.Ports, int32(t.Port))
	}
	if err := q.AddFlows(ctx, p); err != nil {
		return fmt.Errorf("add flows: %w", err)
	}
	return nil
}

// pathFlows maps the id of a path's flow (flow.endpoint_id; see migration 00021) to the targets that use the flow.
type pathFlows map[pgtype.UUID][]delivery.Target

// want adds t to the flow that name identifies.
func (p pathFlows) want(t delivery.Target, name string) {
	id := pathFlowID(t, name)
	p[id] = append(p[id], t)
}

// pathFlowID returns the id of the flow that name identifies within t's organization, scheme, host and port.
func pathFlowID(t delivery.Target, name string) pgtype.UUID {
	digest := sha256.Sum256([]byte(strings.Join([]string{t.Organization, t.Scheme, t.Host, strconv.Itoa(t.Port), name}, "\x00")))
	id := pgtype.UUID{Bytes: [16]byte(digest[:16]), Valid: true}
	id.Bytes[6] = id.Bytes[6]&0x0f | 0x80 // Version 8 (RFC 9562, 5.8); ids of endpoints have another version.
	id.Bytes[8] = id.Bytes[8]&0x3f | 0x80
	return id
}

// sharedName returns the name of the flow that t has if its organization has too many paths.
func sharedName(t delivery.Target) string { return strconv.Itoa(int(t.Path[0]) % sharedFlows) }

// isShared reports whether the flow of a path is the one that a delivery to the URL shares with other paths.
func isShared(flow pgtype.UUID, organization, raw string) bool {
	u, err := url.Parse(raw)
	if err != nil { // It was checked when the delivery was accepted.
		return false
	}
	t := delivery.TargetOf(organization, u)
	return flow == pathFlowID(t, sharedName(t))
}

// lockPaths adds the flows of paths to found. Paths beyond maxPaths get shared flows.
func lockPaths(ctx context.Context, q *dbsql.Queries, paths pathFlows, found map[delivery.Target]delivery.Flow) error {
	if err := paths.lock(ctx, q, found, maxPaths); err != nil {
		return err
	}
	shared := make(pathFlows)
	for _, targets := range paths {
		for _, t := range targets {
			shared.want(t, sharedName(t))
		}
	}
	flows := make(map[delivery.Target]delivery.Flow)
	if err := shared.lock(ctx, q, flows, math.MaxInt32); err != nil {
		return err
	}
	if len(shared) > 0 {
		return errMissing
	}
	for t, flow := range flows {
		flow.ManyPaths = true
		found[t] = flow
	}
	return nil
}

// lock moves the flows to found. It first creates missing flows of organizations that have fewer than most flows of
// paths; flows that are still missing stay in p.
func (p pathFlows) lock(ctx context.Context, q *dbsql.Queries, found map[delivery.Target]delivery.Flow, most int32) error {
	if err := p.find(ctx, q, found); err != nil || len(p) == 0 {
		return err
	}
	add := dbsql.AddPathFlowsParams{Most: most}
	for id, targets := range p {
		t := targets[0]
		add.PathIds, add.Organizations = append(add.PathIds, id), append(add.Organizations, t.Organization)
		add.Schemes, add.Hosts, add.Ports = append(add.Schemes, t.Scheme), append(add.Hosts, t.Host), append(add.Ports, int32(t.Port))
	}
	if err := q.AddPathFlows(ctx, add); err != nil {
		return fmt.Errorf("add flows of paths: %w", err)
	}
	return p.find(ctx, q, found)
}

// find moves the flows that exist from p to found.
func (p pathFlows) find(ctx context.Context, q *dbsql.Queries, found map[delivery.Target]delivery.Flow) error {
	if len(p) == 0 {
		return nil
	}
	rows, err := q.LockPathFlows(ctx, slices.Collect(maps.Keys(p)))
	if err != nil {
		return fmt.Errorf("lock flows of paths: %w", err)
	}
	for _, r := range rows {
		for _, t := range p[r.EndpointID] {
			found[t] = delivery.Flow{ID: r.FlowID, Organization: r.OrganizationID, Metered: r.Metered}
		}
		delete(p, r.EndpointID)
	}
	return nil
}
