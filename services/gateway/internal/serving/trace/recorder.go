package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/panics"
)

// Bounds of the recorder.
const (
	// maxQueue and maxQueueBytes bound what waits to be stored. Each record holds its request and answer, some ten
	// kilobytes: with twice these bounds a busy gateway whose store falls behind would take half as much memory again.
	maxQueue      = 2048
	maxQueueBytes = 64 << 20
	// maxBatch is the most records of one transaction. It starts once there are as many, or once the first has waited for
	// linger: a recorder that each request wakes would take the second core from the answer.
	maxBatch = 512
	linger   = 100 * time.Millisecond
	// storeTime bounds one transaction. While the store is unavailable the transaction is repeated after storePause, and
	// records that don't fit into the queue are dropped.
	storeTime  = 5 * time.Second
	storePause = 500 * time.Millisecond
	// sayEvery is how often the number of dropped records is logged.
	sayEvery = time.Minute
)

// Options of a Recorder. All but Keys are required.
type Options struct {
	Store Store
	// Keys seal contents. With nil no content is kept.
	Keys *Keys
	// Rule returns what is kept of an organization's requests.
	Rule func(organization string) Rule
	// Answer returns the answer of a record in the contract's form; nil where it would be longer than what is kept.
	Answer func(a *Observation) (json.RawMessage, error)
	Log    *slog.Logger
	Meter  metric.Meter
}

// Recorder takes observations and stores them as records in the background. Safe for concurrent use.
type Recorder struct {
	Options

	queue    *batch.Queue[*Observation]
	bytes    atomic.Int64
	dropped  atomic.Int64 // since the last log message
	said     time.Time
	outcomes metric.Int64Counter
	// room and made are reused by each batch. Only Run uses them, and Close after it.
	room scratch
	made []Record
}

// NewRecorder returns a Recorder that stores nothing until Run.
func NewRecorder(o Options) (*Recorder, error) {
	r := &Recorder{Options: o}
	// A batch waits, since each record comes from a request whose answer is still to be sent.
	r.queue = batch.NewQueue(batch.Options{Size: maxQueue, Most: maxBatch, Linger: func() time.Duration { return linger }}, r.flush)
	var err error
	r.outcomes, err = o.Meter.Int64Counter("switchyard.gateway.traces",
		metric.WithDescription("Traces of requests by outcome: kept, or dropped because the queue was full or the store refused them."))
	if err != nil {
		return nil, fmt.Errorf("trace: instruments: %w", err)
	}
	return r, nil
}

// Observe implements inference.Recorder.
func (r *Recorder) Observe(organization string) (keep int, ok bool) {
	rule := r.Rule(organization)
	if rule.Lineage && r.Keys != nil && (rule.SamplePercent >= 100 || rand.Float64()*100 < rule.SamplePercent) { //nolint:gosec // The sample is not a secret.
		keep = rule.MaxBytes
	}
	return keep, rule.Lineage
}

// Record implements inference.Recorder.
func (r *Recorder) Record(_ context.Context, a *Observation) {
	size := weight(a)
	waiting := r.bytes.Add(size)
	if waiting > maxQueueBytes/2 {
		r.queue.Hurry()
	}
	if waiting <= maxQueueBytes && r.queue.Offer(a) {
		return
	}
	r.bytes.Add(-size)
	r.drop("queue", 1)
}

// weight returns about how much memory an observation holds, in bytes.
func weight(a *Observation) int64 {
	n := int64(2048 + len(a.Request.Raw.Body) + a.Request.Size)
	if a.Answer != nil {
		n += int64(a.AnswerBytes + len(a.Answer.Written))
	}
	return n
}

func (r *Recorder) drop(cause string, n int) {
	r.dropped.Add(int64(n))
	r.outcomes.Add(context.Background(), int64(n), metric.WithAttributes(attribute.String("outcome", "dropped"), attribute.String("cause", cause)))
}

// Run stores records until ctx ends. It is a part of the service's lifecycle.
func (r *Recorder) Run(ctx context.Context) error { return r.queue.Run(ctx) }

// Close stores the records that are left, as far as the time of ctx allows.
func (r *Recorder) Close(ctx context.Context) error {
	if err := r.queue.Drain(ctx); err != nil {
		return fmt.Errorf("store traces: %w", err)
	}
	return nil
}

// flush stores a batch of records.
func (r *Recorder) flush(ctx context.Context, observations []*Observation) {
	r.store(ctx, r.makeRecords(ctx, observations))
	r.say(ctx)
}

// makeRecords returns the records of observations. It releases each observation as soon as its record is made, since it
// holds the request and the answer.
func (r *Recorder) makeRecords(ctx context.Context, observations []*Observation) []Record {
	if r.Keys != nil {
		_ = r.Keys.read() // After an error the previous keys stay in use.
	}
	clear(r.made) // The records of the previous batch are stored.
	r.made = r.made[:0]
	for i, a := range observations {
		size := weight(a)
		if record, err := r.tryMakeRecord(ctx, a); err != nil {
			r.Log.ErrorContext(ctx, "the record of a trace could not be made; it is dropped", slog.String("trace_request_id", a.Request.ID), slog.String("error", err.Error()))
			r.drop("panic", 1)
		} else {
			r.made = append(r.made, record)
		}
		observations[i] = nil
		r.bytes.Add(-size)
	}
	return r.made
}

// store repeats until the records are stored, are refused, or ctx ends.
func (r *Recorder) store(ctx context.Context, batch []Record) {
	for len(batch) > 0 {
		err := r.append(ctx, batch)
		switch {
		case err == nil:
			r.outcomes.Add(ctx, int64(len(batch)), metric.WithAttributes(attribute.String("outcome", "kept")))
			return
		case errors.Is(err, ErrRefused):
			r.each(ctx, batch)
			return
		}
		timer := time.NewTimer(storePause)
		select {
		case <-ctx.Done():
			timer.Stop()
			if err := r.append(ctx, batch); err != nil {
				r.drop("store", len(batch))
			}
			return
		case <-timer.C:
			r.say(ctx)
		}
	}
}

// each stores records one by one, so that a refused record does not fail the others.
func (r *Recorder) each(ctx context.Context, batch []Record) {
	for i := range batch {
		if err := r.append(ctx, batch[i:i+1]); err != nil {
			r.Log.WarnContext(ctx, "a trace could not be stored; it is dropped", slog.String("trace_request_id", batch[i].RequestID), slog.String("error", err.Error()))
			r.drop("store", 1)
			continue
		}
		r.outcomes.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", "kept")))
	}
}

// append stores records in one transaction, which the end of ctx does not cancel: a shutdown must not interrupt a
// commit. storeTime bounds it.
func (r *Recorder) append(ctx context.Context, batch []Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	err := panics.Call(func() error { return r.Store.Append(ctx, batch) })
	if _, ok := errors.AsType[*panics.Error](err); ok {
		return errors.Join(ErrRefused, err) // A panic is caused by one of the records.
	}
	return err
}

// say logs the number of dropped records, at most once in sayEvery.
func (r *Recorder) say(ctx context.Context) {
	if now := time.Now(); r.dropped.Load() > 0 && now.Sub(r.said) >= sayEvery {
		r.said = now
		r.Log.WarnContext(ctx, "traces were dropped", slog.Int64("count", r.dropped.Swap(0)))
	}
}

// tryMakeRecord is makeRecord, but returns a panic as an error, so that a record that can't be made does not fail the
// others.
func (r *Recorder) tryMakeRecord(ctx context.Context, a *Observation) (record Record, err error) {
	defer panics.Recover(&err)
	return r.makeRecord(ctx, a), nil
}

// makeRecord returns the record of an observation. Texts are encoded, hashed and sealed here, after the answers have been
// written.
func (r *Recorder) makeRecord(ctx context.Context, a *Observation) Record {
	rule := r.Rule(a.Request.Organization)
	record := newRecord(a, rule)
	raw, err := rawOf(a)
	if err != nil {
		r.Log.WarnContext(ctx, "the request of a trace could not be encoded", slog.String("error", err.Error()))
	}
	record.RequestBytes, record.RequestDigest = len(raw), digest(raw)
	cut := err != nil
	var said json.RawMessage
	if a.Answer != nil {
		if said, err = r.Answer(a); err != nil {
			r.Log.WarnContext(ctx, "the answer of a trace could not be encoded", slog.String("error", err.Error()))
		}
		cut = cut || a.Answer.Cut || said == nil
		if !a.Answer.Cut {
			record.ResponseDigest = digest(said)
		}
	}
	if a.Keep == 0 || r.Keys == nil || rule.ContentRetention <= 0 {
		return record
	}
	packet := &Packet{Form: a.Request.Raw.Form, Header: a.Request.Raw.Header, Metadata: a.Request.Metadata}
	var cutRequest, cutResponse bool
	packet.Request, cutRequest = shorten(raw, a.Keep)
	packet.Response, cutResponse = shorten(said, a.Keep)
	content := &Content{Truncated: cut || cutRequest || cutResponse, Replayable: !cutRequest && len(raw) > 0, CapturedAt: a.Ended, ExpiresAt: a.Ended.Add(min(rule.ContentRetention, rule.Retention))}
	if content.Key, content.Sealed, err = r.Keys.seal(&r.room, record.Organization, record.ID, packet); err != nil {
		r.Log.WarnContext(ctx, "the content of a trace could not be sealed; it is not kept", slog.String("error", err.Error()))
		return record
	}
	content.Size = len(content.Sealed)
	record.Content = content
	return record
}

// rawOf returns the request as its caller wrote it.
func rawOf(a *Observation) (json.RawMessage, error) {
	if raw := a.Request.Raw; raw.Body != nil || raw.Encode == nil {
		return raw.Body, nil
	}
	return a.Request.Raw.Encode()
}
