package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
)

// Form is the form of captured calls; see trace.RawRequest.
const Form = "tool"

// Provider returns the name under which a server's calls are in the ledger.
func Provider(server string) string { return "mcp/" + server }

// commit records the call in the ledger. It was sent, so that its price is due whatever came back.
// answers reports whether the caller gets the result, so that its call counts.
func (x *execution) commit(ctx context.Context, answers bool) {
	x.ended = time.Now()
	row := x.row()
	if answers {
		count, _ := callcount.Take(ctx, x.ended)
		row.CountMetric = count.Metric
	}
	if x.turns > 1 { // The first one has the price.
		row.ID, row.Cost = newID(), 0
	}
	err := x.caller.Ledger.Commit(context.WithoutCancel(ctx), row)
	if x.turns == 1 { // It has what is reserved.
		x.recorded = err == nil
	}
	if err != nil && row.CountMetric != "" {
		callcount.PutBack(ctx)
	}
	if err != nil {
		x.caller.Log.ErrorContext(ctx, "the ledger row of a tool's call could not be committed", slog.String("error", err.Error()))
	}
}

// row returns the ledger row of the call. The rows of later rounds cost nothing, and have the id of the first request.
func (x *execution) row() ledger.Entry {
	r := x.request
	id, cost := r.RequestID, x.price
	if x.last != nil {
		id, cost = x.last.Request, 0
	}
	credential := credentialOf(x.server)
	return ledger.Entry{
		ID: x.id, RequestID: id, Organization: r.Organization, Key: r.Key, KeyOrigin: r.KeyTerms.Key, User: r.User,
		Service: r.Service, Run: r.Run, Tags: r.Tags, Operation: ledger.OperationTool,
		RequestedProvider: Provider(x.server.ID), RequestedModel: x.tool, Provider: Provider(x.server.ID), Model: x.tool,
		Credential: credential.Source, Fingerprint: credential.Fingerprint, Attempts: 1,
		State: ledger.StateReported, Cost: cost, PriceVersion: x.priced, Outcome: x.outcome,
		StartedAt: x.started, EndedAt: x.ended,
	}
}

// priceVersion names the version of a server's registration, which has its price.
func priceVersion(s *toolserver.Server) string { return "server/" + strconv.Itoa(s.Version) }

// credentialOf returns whose credential the calls of a server use, and its hash.
func credentialOf(s *toolserver.Server) provider.Credential {
	c := provider.Credential{Source: "fleet", Fingerprint: s.Credential.Fingerprint}
	if s.Organization != "" {
		c.Source = "byok"
	}
	return c
}

// observe begins the record of the call, if it is recorded.
func (x *execution) observe(ctx context.Context) {
	if x.caller.Recorder == nil {
		return
	}
	keep, ok := x.caller.Recorder.Observe(x.request.Organization)
	if !ok {
		return
	}
	r := x.request
	x.record = &trace.Observation{
		ID: x.id, Started: x.started, Keep: keep,
		Request: trace.Request{
			ID: r.RequestID, Organization: r.Organization, Key: r.Key, Service: r.Service, Run: r.Run, Tools: 1,
			Route: routing.Request{
				Operation: ledger.OperationTool, Organization: r.Organization, Provider: Provider(x.server.ID), Model: x.tool,
			},
		},
	}
	if span := oteltrace.SpanContextFromContext(ctx); span.HasTraceID() {
		x.record.TraceID = span.TraceID().String()
	}
}

// end gives back what the call holds, and records its outcome once the answer has been written.
func (x *execution) end(ctx context.Context, result *upstream.Result, err error) {
	if !x.sent {
		x.settle(ctx, false, err)
	}
	x.release(ctx)
	if x.booked != nil {
		if x.sent {
			x.booked.Settle(0)
		} else {
			x.booked.Cancel()
		}
	}
	if x.grant != nil {
		x.grant.End(x.recorded)
	}
	if x.ended.IsZero() {
		x.ended = time.Now()
	}
	text := result.Text
	if result.Kind == upstream.KindInputRequired { // What servers ask is not kept.
		text = nil
	}
	x.caller.After(ctx, func() {
		x.caller.metrics.called(context.WithoutCancel(ctx), x, result.IsError, err)
		x.close(ctx, text, err)
		x.hold.Close()
	})
}

// close passes the record to the recorder.
func (x *execution) close(ctx context.Context, result json.RawMessage, err error) {
	if x.record == nil {
		return
	}
	o := x.record
	o.Ended, o.Status, o.Err = x.ended, x.status(err), shown(err)
	o.Policy = x.policy.Version
	o.Request.ApprovalRef = x.approvalRef
	if body, err := jsontext.Marshal(captured{Server: x.server.ID, Tool: x.tool, Arguments: x.arguments}); err == nil {
		o.Request.Raw = trace.RawRequest{Form: Form, Body: body}
	}
	if x.sent {
		x.recordSent(o, err)
	}
	if len(result) > 0 {
		o.Answer, o.AnswerBytes = &trace.Answer{Written: result}, len(result)
	}
	x.caller.Recorder.Record(context.WithoutCancel(ctx), o)
}

// recordSent records a call that was sent, and what it cost.
func (x *execution) recordSent(o *trace.Observation, err error) {
	row := x.row()
	o.Served, o.Price = provider.Target{Provider: row.Provider, Model: row.Model}, row.PriceVersion
	o.Credential = credentialOf(x.server)
	o.Report = &ledger.Report{Provider: row.Provider, Model: row.Model, Cost: row.Cost, RequestedProvider: row.RequestedProvider}
	try := trace.Try{Target: o.Served, Credential: o.Credential.Source, Outcome: trace.TryOK, Started: x.ready, Duration: x.ended.Sub(x.ready)}
	switch x.outcome {
	case ledger.OutcomeCancelled, ledger.OutcomeAborted:
		try.Outcome = trace.TryCancelled
	case ledger.OutcomeInterrupted:
		try.Outcome, try.Class = trace.TryFailed, apierr.ClassServerError
	case ledger.OutcomeCompleted:
		if answer, ok := errors.AsType[*wire.Error](err); ok {
			try.Code = strconv.FormatInt(answer.Code, 10)
		}
	}
	o.Tries = []trace.Try{try}
}

// captured is a call as it is kept.
type captured struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitzero"`
	// Call is the id of the request whose task has ended; empty for a call.
	Call string `json:"call,omitzero"`
}

// status returns how the call ended.
func (x *execution) status(err error) trace.Status {
	switch {
	case err == nil:
		return trace.StatusOK
	case x.outcome == ledger.OutcomeAborted:
		return trace.StatusAborted
	case apierr.From(err).Kind == apierr.KindCanceled:
		return trace.StatusCancelled
	}
	return trace.StatusFailed
}

// shown returns an error as the record has it. A server's own error is recorded without its text.
func shown(err error) *apierr.Error {
	if _, ok := errors.AsType[*wire.Error](err); ok {
		return apierr.New(apierr.KindUpstream, apierr.ReasonUnavailable, "the server answered with an error")
	}
	return apierr.From(err)
}
