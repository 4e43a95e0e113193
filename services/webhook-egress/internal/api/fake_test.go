package api_test

import (
	"context"
	"time"

	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/circuit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/replay"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// domain answers what a test wants and remembers what it was asked.
type domain struct {
	asked    []any
	accepted delivery.Accepted
	record   delivery.Record
	records  []delivery.Record
	attempts []delivery.Attempt
	next     int64
	nextID   delivery.ID
	// first has the index that EnqueueBatch got for the first item of each batch.
	first     []int
	repeat    bool
	endpoint  endpoint.Endpoint
	generated secret.Value
	keys      *signing.KeySet
	result    event.Result
	created   replay.Created
	recorded  []event.Recorded
	circuits  []circuit.Circuit
	// nextTarget is after the circuits.
	nextTarget breaker.Target
	err        error
}

func (d *domain) Enqueue(_ context.Context, r delivery.Request) (delivery.Accepted, error) {
	d.asked = append(d.asked, r)
	return d.accepted, d.err
}

func (d *domain) EnqueueBatch(_ context.Context, requests []delivery.Request, first int) ([]delivery.Accepted, error) {
	d.asked, d.first = append(d.asked, requests), append(d.first, first)
	all := make([]delivery.Accepted, len(requests))
	for i := range all {
		all[i] = d.accepted
	}
	return all, d.err
}

func (d *domain) Get(_ context.Context, organization, owner, id string, withBody bool) (delivery.Record, error) {
	d.asked = append(d.asked, []any{organization, owner, id, withBody})
	return d.record, d.err
}

func (d *domain) List(_ context.Context, f delivery.Filter, before delivery.ID, limit int) ([]delivery.Record, delivery.ID, error) {
	d.asked = append(d.asked, []any{f, before, limit})
	return d.records, d.nextID, d.err
}

func (d *domain) Attempts(_ context.Context, organization, owner, id string, after int64, limit int) ([]delivery.Attempt, int64, error) {
	d.asked = append(d.asked, []any{organization, owner, id, after, limit})
	return d.attempts, d.next, d.err
}

func (d *domain) Resend(_ context.Context, r delivery.ResendRequest) (delivery.Record, bool, error) {
	d.asked = append(d.asked, r)
	return d.record, d.repeat, d.err
}

func (d *domain) Cancel(_ context.Context, organization, owner, id string) (delivery.Record, error) {
	d.asked = append(d.asked, []any{organization, owner, id})
	return d.record, d.err
}

// callCounts, circuitList, registry, emitter, house and replayer are the domain's other sides.
type (
	callCounts  struct{ *domain }
	circuitList struct{ *domain }
	registry    struct{ *domain }
	emitter     struct{ *domain }
	house       struct{ *domain }
	replayer    struct{ *domain }
)

func (d callCounts) List(_ context.Context, cursor string, limit int) (countfeed.Page, string, error) {
	d.asked = append(d.asked, []any{cursor, limit})
	return countfeed.Page{}, cursor, d.err
}

func (d circuitList) List(_ context.Context, f circuit.Filter, after breaker.Target, limit int) ([]circuit.Circuit, breaker.Target, error) {
	d.asked = append(d.asked, []any{f, after, limit})
	return d.circuits, d.nextTarget, d.err
}

func (d registry) Register(_ context.Context, r endpoint.Registration) (endpoint.Endpoint, secret.Value, error) {
	d.asked = append(d.asked, r)
	return d.endpoint, d.generated, d.err
}

func (d registry) RotateSecret(
	_ context.Context, scope endpoint.Scope, id string, overlap *time.Duration,
) (endpoint.Endpoint, secret.Value, error) {
	d.asked = append(d.asked, []any{scope, id, overlap})
	return d.endpoint, d.generated, d.err
}

func (d registry) Get(_ context.Context, scope endpoint.Scope, id string) (endpoint.Endpoint, error) {
	d.asked = append(d.asked, []any{scope, id})
	return d.endpoint, d.err
}

func (d registry) List(_ context.Context, f endpoint.Filter, before delivery.ID, limit int) ([]endpoint.Endpoint, delivery.ID, error) {
	d.asked = append(d.asked, []any{f, before, limit})
	return []endpoint.Endpoint{d.endpoint}, d.nextID, d.err
}

func (d registry) Update(_ context.Context, scope endpoint.Scope, id string, u endpoint.Update) (endpoint.Endpoint, error) {
	d.asked = append(d.asked, []any{scope, id, u})
	return d.endpoint, d.err
}

func (d registry) Delete(_ context.Context, scope endpoint.Scope, id string) error {
	d.asked = append(d.asked, []any{scope, id})
	return d.err
}

func (d registry) Test(_ context.Context, scope endpoint.Scope, id string, t endpoint.Test) (delivery.Record, *delivery.Attempt, error) {
	d.asked = append(d.asked, []any{scope, id, t})
	if len(d.attempts) == 0 {
		return d.record, nil, d.err
	}
	return d.record, &d.attempts[0], d.err
}

func (d emitter) Emit(_ context.Context, r event.Request) (event.Result, error) {
	d.asked = append(d.asked, r)
	return d.result, d.err
}

func (d house) Emit(_ context.Context, r event.HouseRequest) (event.HouseResult, error) {
	d.asked = append(d.asked, r)
	return event.HouseResult{Deliveries: len(d.result.Deliveries), Deduplicated: d.result.Deduplicated}, d.err
}

func (d house) List(_ context.Context, organization string, after int64, limit int) ([]event.Recorded, error) {
	d.asked = append(d.asked, []any{organization, after, limit})
	return d.recorded, d.err
}

func (d replayer) Create(_ context.Context, r replay.Request) (replay.Created, error) {
	d.asked = append(d.asked, r)
	return d.created, d.err
}

func (d replayer) Get(_ context.Context, organization, owner, id string) (replay.Replay, error) {
	d.asked = append(d.asked, []any{organization, owner, id})
	return d.created.Replay, d.err
}

func (d replayer) List(_ context.Context, organization, owner string, before delivery.ID, limit int) ([]replay.Replay, delivery.ID, error) {
	d.asked = append(d.asked, []any{organization, owner, before, limit})
	return []replay.Replay{d.created.Replay}, d.nextID, d.err
}

func (d replayer) Cancel(_ context.Context, organization, owner, id string) (replay.Replay, error) {
	d.asked = append(d.asked, []any{organization, owner, id})
	return d.created.Replay, d.err
}
