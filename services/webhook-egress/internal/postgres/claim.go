package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var _ dispatch.Store = (*Store)(nil)

// turnDelay is how soon a flow that gave rows is looked at again. It bounds how
// often one flow is visited; others go first meanwhile.
const turnDelay = 2 * time.Millisecond

// Claim implements dispatch.Store.
func (s *Store) Claim(ctx context.Context, c dispatch.Claim) (dispatch.Claimed, error) {
	var claimed dispatch.Claimed
	err := s.inTx(ctx, "claim", func(q *dbsql.Queries) (err error) {
		picked, err := q.PickFlows(ctx, dbsql.PickFlowsParams{
			FullFlows: c.FullFlows, FullOrganizations: c.FullOrganizations, Flows: int32(c.Flows),
		})
		if err != nil {
			return fmt.Errorf("pick flows: %w", err)
		}
		claimed.Flows = len(picked)
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

// takeFrom leases rows of the picked flows and gives each flow its next turn.
func takeFrom(ctx context.Context, q *dbsql.Queries, c dispatch.Claim, picked []dbsql.PickFlowsRow, claimed *dispatch.Claimed) error {
	take := dbsql.TakeRowsParams{Lease: c.Lease, ReplicaID: c.Replica}
	rooms := make(map[int64]int, len(picked))
	for _, f := range picked {
		n := c.Grant(delivery.Flow{ID: f.FlowID, Organization: f.OrganizationID}, f.Probe, len(picked))
		rooms[f.FlowID] = n
		if n > 0 {
			take.FlowIds, take.Rooms = append(take.FlowIds, f.FlowID), append(take.Rooms, int32(n))
		}
	}
	rows, err := q.TakeRows(ctx, take)
	if err != nil {
		return fmt.Errorf("take rows: %w", err)
	}
	if claimed.Jobs, err = readJobs(ctx, q, rows); err != nil {
		return err
	}
	taken := make(map[int64]int, len(picked))
	for _, r := range rows {
		taken[r.FlowID]++
	}
	var turn dbsql.TurnFlowsParams
	for _, f := range picked {
		n, granted := taken[f.FlowID], rooms[f.FlowID]
		switch {
		case granted == 0:
			continue // It keeps its place and is among the first of the next claim.
		case n < granted:
			claimed.Drained = append(claimed.Drained, f.FlowID)
			continue
		case f.Probe:
			turn.Delays = append(turn.Delays, c.Lease)
		default:
			turn.Delays = append(turn.Delays, turnDelay)
		}
		turn.FlowIds = append(turn.FlowIds, f.FlowID)
	}
	if err := q.TurnFlows(ctx, turn); err != nil {
		return fmt.Errorf("turn flows: %w", err)
	}
	return sleep(ctx, q, claimed.Drained)
}

// sleep leaves flows alone until the first of their rows is due. One to which
// rows are being added is left as it is and looked at again.
func sleep(ctx context.Context, q *dbsql.Queries, drained []int64) error {
	if len(drained) == 0 {
		return nil
	}
	locked, err := q.LockIdleFlows(ctx, drained)
	if err != nil {
		return fmt.Errorf("lock idle flows: %w", err)
	}
	if err := q.SleepFlows(ctx, locked); err != nil {
		return fmt.Errorf("sleep flows: %w", err)
	}
	return nil
}

func readJobs(ctx context.Context, q *dbsql.Queries, rows []dbsql.TakeRowsRow) ([]delivery.Job, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var p dbsql.ReadJobsParams
	leases := make(map[delivery.ID]dbsql.TakeRowsRow, len(rows))
	for _, r := range rows {
		leases[r.DeliveryID.Bytes] = r
		p.Ids, p.CreatedAts = append(p.Ids, r.DeliveryID), append(p.CreatedAts, r.CreatedAt)
	}
	found, err := q.ReadJobs(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	jobs := make([]delivery.Job, 0, len(found))
	for _, d := range found {
		lease := leases[d.ID.Bytes]
		job := delivery.Job{
			ID: d.ID.Bytes, FlowID: lease.FlowID, LeaseSeq: lease.LeaseSeq, Organization: d.OrganizationID, URL: d.Url,
			EventType: d.EventType, SigningMode: d.SigningMode, Body: d.Body, Sealed: d.SealedHeaders,
			Traceparent: orZero(d.Traceparent), Generation: int(d.Generation), Attempts: int(d.Attempts),
			MaxAttempts: int(d.MaxAttempts), Deadline: orZero(d.DeadlineAt),
		}
		if len(d.Headers) > 0 {
			if err := json.Unmarshal(d.Headers, &job.Headers); err != nil {
				return nil, fmt.Errorf("headers of delivery %s: %w", job.ID, err)
			}
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}
