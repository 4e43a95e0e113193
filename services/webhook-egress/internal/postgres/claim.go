package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var _ dispatch.Store = (*Store)(nil)

// turnDelay is how soon a flow that yielded rows is examined again. It bounds how often one flow is visited;
// meanwhile others come first.
const turnDelay = 2 * time.Millisecond

// A claim begins at its flow's floor, and does not write a flow that it leaves ready: while some transaction stays open,
// each claim would otherwise read all dead versions. A flow's floor stays behind the clock by floorMargin. The floor of
// a flow that always has rows left is raised once per floorPace.
const (
	floorMargin = time.Second
	floorPace   = time.Second
)

// Claim implements dispatch.Store.
func (s *Store) Claim(ctx context.Context, c dispatch.Claim) (dispatch.Claimed, error) {
	var claimed dispatch.Claimed
	err := s.transact(ctx, "claim", nil, func(q *dbsql.Queries) (err error) {
		picked, err := q.PickFlows(ctx, dbsql.PickFlowsParams{
			FullFlows: c.FullFlows, FullOrganizations: c.FullOrganizations, Flows: int32(c.Flows),
			FloorPace: floorPace,
		})
		if err != nil {
			return fmt.Errorf("pick flows: %w", err)
		}
		claimed.Flows = len(picked)
		if len(picked) < c.Flows {
			rand.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] }) //nolint:gosec // spreads load, guards nothing; see turn
		}
		if len(picked) > 0 {
			if err := takeFrom(ctx, q, c, picked, &claimed); err != nil {
				return err
			}
		}
		seconds, err := q.NextReady(ctx)
		if err != nil {
			return fmt.Errorf("next ready: %w", err)
		}
		claimed.Next = time.Duration(seconds * float64(time.Second))
		return nil
	})
	if err != nil {
		return dispatch.Claimed{}, err
	}
	return claimed, nil
}

// takeFrom leases rows of the picked flows and schedules each flow's next visit.
func takeFrom(ctx context.Context, q *dbsql.Queries, c dispatch.Claim, picked []dbsql.PickFlowsRow, claimed *dispatch.Claimed) error {
	grants := c.Grant(ctx, pickedOf(picked))
	probes, err := chooseProbes(ctx, q, picked, grants)
	if err != nil {
		return err
	}
	take := dbsql.TakeRowsParams{Lease: c.Lease, ReplicaID: c.Replica, Bytes: int64(c.Bytes)}
	flows := make(map[int64]dbsql.PickFlowsRow, len(picked))
	for i, f := range picked {
		flows[f.FlowID] = f
		if n := grants[i].Rows; n > 0 {
			first, chosen := probes[f.FlowID]
			if !chosen {
				first.DueAt = f.Floor
			}
			take.FlowIds, take.Rooms = append(take.FlowIds, f.FlowID), append(take.Rooms, int32(n))
			take.Floors, take.Firsts = append(take.Floors, first.DueAt), append(take.Firsts, first.DeliveryID)
		}
	}
	taken := make(map[int64]int, len(picked))
	if len(take.FlowIds) > 0 {
		rows, err := q.TakeRows(ctx, take)
		if err != nil {
			return fmt.Errorf("take rows: %w", err)
		}
		if err := readJobs(ctx, q, rows, flows, claimed); err != nil {
			return err
		}
		for _, r := range rows {
			taken[r.FlowID]++
		}
	}
	return turn(ctx, q, c.Lease, c.Flows, picked, grants, taken, claimed)
}

// probedPaths is how many paths of a flow are examined at most to find one with a due delivery.
const probedPaths = 256

// chooseProbes returns the delivery to begin with for each flow that probes its host with the path whose turn it is. Flows
// of endpoints have only one path.
func chooseProbes(
	ctx context.Context, q *dbsql.Queries, picked []dbsql.PickFlowsRow, grants []dispatch.Grant,
) (map[int64]dbsql.ChooseProbesRow, error) {
	p := dbsql.ChooseProbesParams{Most: probedPaths}
	for i, f := range picked {
		if grants[i].AdmittedByHost && (f.OfPath || !f.EndpointID.Valid) {
			p.FlowIds = append(p.FlowIds, f.FlowID)
		}
	}
	if len(p.FlowIds) == 0 {
		return map[int64]dbsql.ChooseProbesRow{}, nil
	}
	rows, err := q.ChooseProbes(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("choose probes: %w", err)
	}
	probes := make(map[int64]dbsql.ChooseProbesRow, len(rows))
	for _, row := range rows {
		probes[row.FlowID] = row
	}
	return probes, nil
}

func pickedOf(rows []dbsql.PickFlowsRow) []dispatch.Picked {
	picked := make([]dispatch.Picked, len(rows))
	for i, f := range rows {
		broken := f.ParkedReason == string(delivery.FaultBreakerOpen)
		picked[i] = dispatch.Picked{
			Flow: delivery.Flow{ID: f.FlowID, Organization: f.OrganizationID, Metered: f.Open || f.RatePerSecond > 0},
			Target: breaker.Target{
				Organization: f.OrganizationID, Host: f.Host, Port: int(f.Port), Flow: f.FlowID, Circuit: int(f.Circuit),
			},
			Held: f.Open && !broken, Ready: f.ReadyAt, Rate: f.RatePerSecond,
		}
		stored := breaker.State{Phase: breaker.Open, Opened: int(f.Opened), Until: f.ParkedUntil}
		switch {
		case !f.Open || !broken:
		case f.ParkedByHost:
			picked[i].Host = stored
		default:
			picked[i].Own = stored
		}
	}
	return picked
}

// turn decides when each picked flow is examined again. If a claim saw all ready flows, there is no queue of flows:
// their order is random, and a flow with rows left stays ready unchanged. Each update would leave a dead version of
// its row, which every search for flows reads as long as an old transaction is open.
func turn(
	ctx context.Context, q *dbsql.Queries, lease time.Duration, most int,
	picked []dbsql.PickFlowsRow, grants []dispatch.Grant, taken map[int64]int, claimed *dispatch.Claimed,
) error {
	var next dbsql.TurnFlowsParams
	var park dbsql.ParkFlowsParams
	floors := make(map[int64]time.Time) // of the flows to put to sleep, or of which only the floor is raised
	for i, f := range picked {
		grant, delay, tried := grants[i], turnDelay, false
		switch n := taken[f.FlowID]; {
		case grant.Rows == 0 && grant.Wait == 0:
			continue // It keeps its place and is among the first in the next claim.
		case grant.Rows == 0 && grant.Park != delivery.FaultNone:
			park.FlowIds, park.Reasons = append(park.FlowIds, f.FlowID), append(park.Reasons, string(grant.Park))
			park.Delays, park.ByHost = append(park.Delays, grant.Wait), append(park.ByHost, grant.ByHost)
			park.Circuits = append(park.Circuits, f.Circuit)
			continue
		case n < grant.Rows:
			claimed.Drained, floors[f.FlowID] = append(claimed.Drained, f.FlowID), f.Floor
			continue
		case f.Open && f.ParkedReason != string(delivery.FaultBreakerOpen):
			delay, tried = lease, true
		default:
			delay = max(delay, grant.Wait)
		}
		if f.FloorOld {
			floors[f.FlowID] = f.Floor
		}
		if len(picked) < most && delay == turnDelay && !f.Open {
			continue
		}
		next.FlowIds, next.Delays, next.Tried = append(next.FlowIds, f.FlowID), append(next.Delays, delay), append(next.Tried, tried)
	}
	if len(next.FlowIds) > 0 {
		if err := q.TurnFlows(ctx, next); err != nil {
			return fmt.Errorf("turn flows: %w", err)
		}
	}
	if len(park.FlowIds) > 0 {
		if err := q.ParkFlows(ctx, park); err != nil {
			return fmt.Errorf("park flows: %w", err)
		}
	}
	return sleep(ctx, q, floors)
}

// sleep makes flows wait until the first of their rows is due, and raises their floors. A flow to which rows are
// being added is skipped and examined again.
func sleep(ctx context.Context, q *dbsql.Queries, floors map[int64]time.Time) error {
	if len(floors) == 0 {
		return nil
	}
	locked, err := q.LockIdleFlows(ctx, slices.Collect(maps.Keys(floors)))
	if err != nil {
		return fmt.Errorf("lock idle flows: %w", err)
	}
	p := dbsql.SleepFlowsParams{FlowIds: locked, Margin: floorMargin}
	for _, flow := range locked {
		p.Floors = append(p.Floors, floors[flow])
	}
	if err := q.SleepFlows(ctx, p); err != nil {
		return fmt.Errorf("sleep flows: %w", err)
	}
	return nil
}

// readJobs returns the jobs of leased rows. A row whose delivery no longer exists, since its day was dropped by hand,
// would be leased again and again: it is removed.
func readJobs(
	ctx context.Context, q *dbsql.Queries, rows []dbsql.TakeRowsRow, flows map[int64]dbsql.PickFlowsRow, claimed *dispatch.Claimed,
) error {
	if len(rows) == 0 {
		return nil
	}
	var p dbsql.ReadJobsParams
	leases := make(map[delivery.ID]dbsql.TakeRowsRow, len(rows))
	for _, r := range rows {
		leases[r.DeliveryID.Bytes] = r
		p.Ids, p.CreatedAts = append(p.Ids, r.DeliveryID), append(p.CreatedAts, r.CreatedAt)
	}
	found, err := q.ReadJobs(ctx, p)
	if err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	claimed.Jobs = make([]delivery.Job, 0, len(found))
	for i := range found {
		lease := leases[found[i].ID.Bytes]
		delete(leases, found[i].ID.Bytes)
		job := jobOf(&found[i])
		flow := flows[lease.FlowID]
		job.FlowID, job.LeaseSeq, job.Host, job.Port = lease.FlowID, lease.LeaseSeq, flow.Host, int(flow.Port)
		job.Circuit, job.Takeovers = int(flow.Circuit), int(lease.Takeovers)
		job.OrderingKey, job.Position = orZero(lease.OrderingKey), orZero(lease.Position)
		job.Parked = flow.Open
		job.ManyPaths = job.Endpoint == nil && flow.OfPath && isShared(flow.EndpointID, job.Organization, job.URL)
		claimed.Jobs = append(claimed.Jobs, job)
	}
	var gone []pgtype.UUID
	for id := range leases {
		claimed.Gone = append(claimed.Gone, id)
		gone = append(gone, uuidOf(id))
	}
	if len(gone) > 0 {
		if err := q.RemoveRows(ctx, gone); err != nil {
			return fmt.Errorf("remove rows without a delivery: %w", err)
		}
	}
	return nil
}

// jobOf returns the job of a row. Headers that cannot be decoded hold back their own delivery only: an error would
// abort every claim that includes it.
func jobOf(d *dbsql.ReadJobsRow) delivery.Job {
	job := delivery.Job{
		ID: d.ID.Bytes, Organization: d.OrganizationID, URL: d.Url, EventType: d.EventType, SigningMode: d.SigningMode,
		Body: d.Body, Sealed: d.SealedHeaders, Traceparent: orZero(d.Traceparent), Generation: int(d.Generation),
		Attempts: int(d.Attempts), MaxAttempts: int(d.MaxAttempts), Deadline: orZero(d.DeadlineAt), Test: d.Test,
	}
	if d.EventID.Valid {
		job.Event = d.EventID.Bytes
	}
	if d.EndpointID.Valid {
		job.Endpoint = &delivery.JobEndpoint{
			ID: d.EndpointID.Bytes, Secret: d.SealedSecret, Auth: d.SealedAuth, Signatures: d.Signatures,
			Earlier: readEarlier(d.SealedPreviousSecret, d.PreviousSecretExpiresAt, d.SealedOlderSecrets, d.OlderSecretsExpireAt),
		}
		if len(d.CustomHeaders) > 0 {
			job.HeadersUnreadable = json.Unmarshal(d.CustomHeaders, &job.Endpoint.Headers) != nil
		}
	}
	if len(d.Headers) > 0 {
		job.HeadersUnreadable = json.Unmarshal(d.Headers, &job.Headers) != nil || job.HeadersUnreadable
	}
	return job
}
