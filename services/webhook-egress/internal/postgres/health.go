package postgres

import (
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

// endpointURL is an endpoint with the URL that was attempted.
type endpointURL struct {
	id  delivery.ID
	url string
}

type endpointHealth struct {
	delivered, failed int64
	gone              bool
}

type health struct{ delivered, failed int64 }

func (w *settlement) count(flow int64, step delivery.Step) {
	h := w.health[flow]
	if h == nil {
		h = &health{}
		w.health[flow] = h
	}
	if step.Outcome == delivery.OutcomeDelivered {
		h.delivered++
	} else {
		h.failed++
	}
}

func (w *settlement) countEndpoint(job *delivery.Job, step delivery.Step) {
	if job.Endpoint == nil || job.Test {
		return
	}
	at := endpointURL{job.Endpoint.ID, job.URL}
	h := w.endpoints[at]
	if h == nil {
		h = &endpointHealth{}
		w.endpoints[at] = h
	}
	if step.Outcome == delivery.OutcomeDelivered {
		h.delivered++
	} else {
		h.failed++
	}
	h.gone = h.gone || step.Outcome == delivery.OutcomeGone
}

func (w *settlement) healthParams() dbsql.CountHealthParams {
	var p dbsql.CountHealthParams
	for _, flow := range sortedKeys(w.health) {
		p.FlowIds = append(p.FlowIds, flow)
		p.Delivered, p.Failed = append(p.Delivered, w.health[flow].delivered), append(p.Failed, w.health[flow].failed)
	}
	return p
}

func (w *settlement) endpointParams() dbsql.CountEndpointsParams {
	p := dbsql.CountEndpointsParams{
		FailingFailures: delivery.FailingFailures, FailingAfter: delivery.FailingAfter,
		DisabledFailures: delivery.DisabledFailures, DisabledAfter: delivery.DisabledAfter,
	}
	for at, h := range w.endpoints {
		p.Ids, p.Urls, p.Delivered = append(p.Ids, uuidOf(at.id)), append(p.Urls, at.url), append(p.Delivered, h.delivered)
		p.Failed, p.Gone = append(p.Failed, h.failed), append(p.Gone, h.gone)
	}
	return p
}
