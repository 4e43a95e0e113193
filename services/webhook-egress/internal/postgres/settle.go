package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

// Settle implements dispatch.Store. Settling the same results again changes nothing: the fences have moved on, and
// the attempts exist already.
func (s *Store) Settle(ctx context.Context, results []dispatch.Result) ([]bool, error) {
	held := make([]bool, len(results))
	err := s.transact(ctx, "settle", nil, func(q *dbsql.Queries) error {
		w := newSettlement(results)
		if len(w.awake) > 0 {
			if err := q.KeepFlowsAwake(ctx, w.awake); err != nil {
				return fmt.Errorf("lock flows: %w", err)
			}
		}
		if len(w.order) > 0 {
			if err := lockOrder(ctx, q, w.order); err != nil {
				return err
			}
		}
		ours, err := w.hold(ctx, q)
		if err != nil {
			return err
		}
		for i := range results {
			held[i] = ours[results[i].Job.ID]
			w.add(&results[i], held[i])
		}
		if err := w.releaseNext(ctx, q); err != nil {
			return err
		}
		return w.write(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// settlement collects the changes of results, one array per column.
type settlement struct {
	ending   dbsql.EndLeasesParams
	leases   dbsql.LockLeasesParams // of results that do not end the delivery
	awake    []int64                // flows to which rows return
	order    map[orderKey]bool      // ordering keys of results that end the delivery
	ordered  dbsql.ReleaseOrderParams
	attempts dbsql.AddAttemptsParams
	updates  dbsql.UpdateDeliveriesParams
	returned dbsql.ReturnRowsParams
	advance  dbsql.AdvanceFlowsParams
	parked   map[int64]parking
	open     []int64
	health   map[int64]*health
	moves    map[breaker.Target]breaker.State
	// endpoints of the deliveries; dead and failed hold those that ended without success
	endpoints map[endpointURL]*endpointHealth
	dead      dbsql.AddDeadLettersParams
	failed    dbsql.ReportFailedParams
	now       time.Time
}

// parking is why and for how long a flow waits, while it has the circuit of that number.
type parking struct {
	step    delivery.Step
	circuit int
}

func newSettlement(results []dispatch.Result) *settlement {
	w := &settlement{
		parked: make(map[int64]parking), health: make(map[int64]*health), now: time.Now(),
		moves: make(map[breaker.Target]breaker.State), endpoints: make(map[endpointURL]*endpointHealth),
		order: make(map[orderKey]bool),
	}
	for i := range results {
		job := &results[i].Job
		if results[i].Step.Status.Ended() {
			w.ending.Ids = append(w.ending.Ids, uuidOf(job.ID))
			w.ending.LeaseSeqs = append(w.ending.LeaseSeqs, job.LeaseSeq)
			if job.OrderingKey != "" {
				w.order[orderKey{job.FlowID, job.OrderingKey}] = true
			}
			continue
		}
		w.leases.Ids = append(w.leases.Ids, uuidOf(job.ID))
		w.leases.LeaseSeqs = append(w.leases.LeaseSeqs, job.LeaseSeq)
		if !slices.Contains(w.awake, job.FlowID) {
			w.awake = append(w.awake, job.FlowID)
		}
	}
	return w
}

// hold finds the leases that are still held and protects them from others: rows of ended deliveries are removed, the
// others locked.
func (w *settlement) hold(ctx context.Context, q *dbsql.Queries) (map[delivery.ID]bool, error) {
	ours := make(map[delivery.ID]bool, len(w.ending.Ids)+len(w.leases.Ids))
	if len(w.ending.Ids) > 0 {
		ended, err := q.EndLeases(ctx, w.ending)
		if err != nil {
			return nil, fmt.Errorf("end leases: %w", err)
		}
		for _, id := range ended {
			ours[id.Bytes] = true
		}
	}
	if len(w.leases.Ids) > 0 {
		locked, err := q.LockLeases(ctx, w.leases)
		if err != nil {
			return nil, fmt.Errorf("lock leases: %w", err)
		}
		for _, id := range locked {
			ours[id.Bytes] = true
		}
	}
	return ours, nil
}

// add collects the changes of a result; if its lease is lost, only the attempt is kept.
func (w *settlement) add(r *dispatch.Result, held bool) {
	if r.Attempt != nil {
		w.addAttempt(r, held)
	}
	for _, move := range []breaker.Move{r.Host, r.Own} {
		if move.Changed {
			w.moves[move.Target] = move.State
		}
	}
	if !held {
		return
	}
	job, step := &r.Job, r.Step
	switch {
	case step.Status.Ended():
		w.end(job, step)
	case step.Held && !step.Alone:
		w.returned.Ids = append(w.returned.Ids, uuidOf(job.ID))
		w.returned.Delays, w.returned.Retries = append(w.returned.Delays, 0), append(w.returned.Retries, false)
		w.parked[job.FlowID] = parking{step, job.Circuit}
		w.advance.FlowIds, w.advance.Delays = append(w.advance.FlowIds, job.FlowID), append(w.advance.Delays, 0) // the floor
	default:
		w.returned.Ids = append(w.returned.Ids, uuidOf(job.ID))
		w.returned.Delays = append(w.returned.Delays, step.Delay)
		w.returned.Retries = append(w.returned.Retries, !step.Held)
		w.advance.FlowIds, w.advance.Delays = append(w.advance.FlowIds, job.FlowID), append(w.advance.Delays, step.Delay)
	}
	if step.Held && !step.Alone {
		return // The flow records the reason; the delivery is unchanged.
	}
	w.update(r)
	if r.Attempt != nil && step.Fault != delivery.FaultInternal {
		w.count(job.FlowID, step)
		w.countEndpoint(job, step)
		if job.Parked && step.Fault.OfTarget() && r.Passes() && !slices.Contains(w.open, job.FlowID) {
			w.open = append(w.open, job.FlowID)
		}
	}
}

// end collects a delivery that ended, and what follows if it did without success.
func (w *settlement) end(job *delivery.Job, step delivery.Step) {
	if job.OrderingKey != "" {
		w.ordered.FlowIds, w.ordered.Keys = append(w.ordered.FlowIds, job.FlowID), append(w.ordered.Keys, job.OrderingKey)
		w.ordered.Positions = append(w.ordered.Positions, job.Position)
	}
	if step.Status != delivery.StatusFailed && step.Status != delivery.StatusExpired {
		return
	}
	w.dead.Organizations, w.dead.Ids = append(w.dead.Organizations, job.Organization), append(w.dead.Ids, uuidOf(job.ID))
	w.dead.CreatedAts = append(w.dead.CreatedAts, job.ID.Time())
	// The service's own events cause no further ones: they would never end.
	if step.Status == delivery.StatusExpired || job.Test || strings.HasPrefix(job.EventType, delivery.OwnEvents) {
		return
	}
	var endpoint delivery.ID
	if job.Endpoint != nil {
		endpoint = job.Endpoint.ID
	}
	w.failed.Organizations, w.failed.Ids = append(w.failed.Organizations, job.Organization), append(w.failed.Ids, uuidOf(job.ID))
	w.failed.Endpoints = append(w.failed.Endpoints, uuidOf(endpoint))
}

func (w *settlement) update(r *dispatch.Result) {
	u, created, code := &w.updates, r.Job.ID.Time(), 0
	if r.Attempt != nil {
		code = r.Attempt.ResponseCode
	}
	u.Ids, u.CreatedAts = append(u.Ids, uuidOf(r.Job.ID)), append(u.CreatedAts, created)
	u.Urls = append(u.Urls, r.Job.URL)
	u.Statuses, u.Attempts = append(u.Statuses, string(r.Step.Status)), append(u.Attempts, int32(r.Step.Attempts))
	u.ResponseCodes, u.Errors = append(u.ResponseCodes, int32(code)), append(u.Errors, string(r.Step.Fault))
	u.LeaseSeqs = append(u.LeaseSeqs, r.Job.LeaseSeq)
	u.Ended, u.Tried = append(u.Ended, r.Step.Status.Ended()), append(u.Tried, r.Attempt != nil)
}

func (w *settlement) addAttempt(r *dispatch.Result, held bool) {
	a, p := r.Attempt, &w.attempts
	outcome := a.Outcome
	if !held {
		outcome = delivery.OutcomeLate
	}
	p.DeliveryIds, p.CreatedAts = append(p.DeliveryIds, uuidOf(r.Job.ID)), append(p.CreatedAts, r.Job.ID.Time())
	p.LeaseSeqs, p.Generations = append(p.LeaseSeqs, r.Job.LeaseSeq), append(p.Generations, int32(a.Generation))
	p.Numbers, p.Outcomes = append(p.Numbers, int32(a.Number)), append(p.Outcomes, string(outcome))
	p.Urls, p.RemoteIps = append(p.Urls, a.URL), append(p.RemoteIps, a.RemoteIP)
	p.ResponseCodes = append(p.ResponseCodes, int32(a.ResponseCode))
	p.ResponseBodies, p.Truncated = append(p.ResponseBodies, a.ResponseBody), append(p.Truncated, a.Truncated)
	p.Errors, p.RetryAfters = append(p.Errors, string(a.Error)), append(p.RetryAfters, a.RetryAfter)
	p.StartedAts, p.Delays = append(p.StartedAts, a.Started), append(p.Delays, r.Step.Delay)
	p.Dns, p.Connect = append(p.Dns, ms(a.Timing.DNS)), append(p.Connect, ms(a.Timing.Connect))
	p.Tls, p.FirstByte = append(p.Tls, ms(a.Timing.TLS)), append(p.FirstByte, ms(a.Timing.FirstByte))
	p.Total = append(p.Total, ms(a.Timing.Total))
}

func ms(d time.Duration) float32 { return float32(d.Microseconds()) / 1000 }

// write executes the collected statements; those without rows are skipped.
func (w *settlement) write(ctx context.Context, q *dbsql.Queries) error {
	slices.Sort(w.open)
	park, counts := w.parkParams(), w.healthParams()
	w.open = slices.DeleteFunc(w.open, func(flow int64) bool { _, parked := w.parked[flow]; return parked })
	for _, step := range []struct {
		name string
		rows int
		do   func() error
	}{
		{"add attempts", len(w.attempts.DeliveryIds), func() error { return q.AddAttempts(ctx, w.attempts) }},
		{"update deliveries", len(w.updates.Ids), func() error { return q.UpdateDeliveries(ctx, w.updates) }},
		{"return rows", len(w.returned.Ids), func() error { return q.ReturnRows(ctx, w.returned) }},
		{"add dead letters", len(w.dead.Ids), func() error { return q.AddDeadLetters(ctx, w.dead) }},
		{"report failed", len(w.failed.Ids), func() error { return q.ReportFailed(ctx, w.failed) }},
		{"count endpoints", len(w.endpoints), func() error { return q.CountEndpoints(ctx, w.endpointParams()) }},
		{"count health", len(counts.FlowIds), func() error { return q.CountHealth(ctx, counts) }},
		{"open flows", len(w.open), func() error { return q.OpenFlows(ctx, w.open) }},
		{"park flows", len(park.FlowIds), func() error { return q.ParkFlows(ctx, park) }},
		{"advance flows", len(w.advance.FlowIds), func() error { return q.AdvanceFlows(ctx, w.advance) }},
		{"move targets", len(w.moves), func() error { return w.moveTargets(ctx, q) }},
	} {
		if step.rows == 0 {
			continue
		}
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (w *settlement) parkParams() dbsql.ParkFlowsParams {
	var p dbsql.ParkFlowsParams
	for _, flow := range sortedKeys(w.parked) {
		step := w.parked[flow].step
		p.FlowIds, p.Reasons = append(p.FlowIds, flow), append(p.Reasons, string(step.Fault))
		p.Delays, p.ByHost = append(p.Delays, step.Delay), append(p.ByHost, step.Host)
		p.Circuits = append(p.Circuits, int32(w.parked[flow].circuit))
	}
	return p
}

// moveTargets applies the breaker's decisions: first those about hosts, then those about flows. A decision that waited
// for the store is still valid, because it contains its time.
func (w *settlement) moveTargets(ctx context.Context, q *dbsql.Queries) error {
	var all, hosts, flows dbsql.MoveTargetsParams
	for target, state := range w.moves {
		w.addMove(&all, target, state)
		if target.Flow == 0 {
			w.addMove(&hosts, target, state)
		} else {
			w.addMove(&flows, target, state)
		}
	}
	locked, err := q.LockTargets(ctx, dbsql.LockTargetsParams{
		Organizations: all.Organizations, Hosts: all.Hosts, Ports: all.Ports, TargetFlows: all.TargetFlows,
	})
	if err != nil {
		return err
	}
	for _, move := range []dbsql.MoveTargetsParams{hosts, flows} {
		if move.FlowIds = locked; len(locked) == 0 || len(move.Phases) == 0 {
			continue
		}
		if err := q.MoveTargets(ctx, move); err != nil {
			return err
		}
	}
	return q.ReportTargets(ctx, dbsql.ReportTargetsParams{
		Organizations: all.Organizations, Hosts: all.Hosts, Ports: all.Ports, TargetFlows: all.TargetFlows, Phases: all.Phases,
	})
}

func (w *settlement) addMove(p *dbsql.MoveTargetsParams, target breaker.Target, state breaker.State) {
	p.Organizations, p.Hosts = append(p.Organizations, target.Organization), append(p.Hosts, target.Host)
	p.Ports, p.TargetFlows = append(p.Ports, int32(target.Port)), append(p.TargetFlows, target.Flow)
	p.Phases, p.Opened = append(p.Phases, string(state.Phase)), append(p.Opened, int32(state.Opened))
	p.Circuits = append(p.Circuits, int32(target.Circuit))
	p.Delays = append(p.Delays, max(0, state.Until.Sub(w.now)))
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
