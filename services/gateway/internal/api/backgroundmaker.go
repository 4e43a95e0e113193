package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/serving/background"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// errInterrupted ends a response that can't be continued after readers have seen a part of it.
var errInterrupted = apierr.New(apierr.KindInternal, "response_interrupted", "the response was interrupted and can't be continued; request it again")

// errTooManyEvents ends a response whose events exceed the storage bound.
var errTooManyEvents = apierr.New(apierr.KindUnavailable, "response_too_large", "the events of the response exceed 16 MiB")

// makeInBackground makes a queued response and stores its end.
func (s *responseServer) makeInBackground(ctx context.Context, j *background.Job) {
	log := newEventLog(ctx, s.background, j)
	again := j.Again()
	err := s.resumed(ctx, j, log, again)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, background.ErrEnded):
		return
	case log.completed():
	case errors.Is(cause, background.ErrStopping) && again && !log.shown():
		s.background.Release(context.WithoutCancel(ctx), j)
		return
	case cause != nil, err == nil && log.end == nil:
		err = errInterrupted
	}
	if err != nil {
		s.fail(j, log, apierr.From(err))
	}
	s.store(ctx, j, log)
}

// resumed serves a queued request as a call of its own, on behalf of its caller. Its events go to the log.
func (s *responseServer) resumed(ctx context.Context, j *background.Job, log *eventLog, again bool) error {
	var q queuedRequest
	if err := json.Unmarshal(j.Request, &q); err != nil {
		return apierr.Internal(err)
	}
	const method = gatewayv1.InferenceService_Chat_FullMethodName
	id := rpc.RequestID("")
	return s.server.Resume(ctx, q.Caller, id, method, func(ctx context.Context) error {
		rpc.Annotate(ctx, slog.String("response", j.ID), slog.Int("response_attempts", j.Attempts))
		if !again {
			return errInterrupted
		}
		r := (&http.Request{Method: http.MethodPost, Header: q.Header.Clone(), Body: http.NoBody}).WithContext(ctx)
		if r.Header == nil {
			r.Header = make(http.Header)
		}
		chat, exchange, err := responses.Read(q.Body, r.Header, nil)
		if err != nil {
			return err
		}
		exchange.Resume(j.ID, j.Record.Previous, j.Record.CreatedAt)
		chat.Stream = true
		err = s.inferences.serveNative(log, r, responses.Dialect{}.Name(), chat, q.Body)
		return errors.Join(err, log.close())
	})
}

// fail ends a response for which no event says so.
func (s *responseServer) fail(j *background.Job, log *eventLog, e *apierr.Error) {
	log.fails()
	exchange := &responses.Exchange{}
	exchange.Resume(j.ID, j.Record.Previous, j.Record.CreatedAt)
	model := gjson.GetBytes(j.Record.Response, "model").Str
	_, _ = log.Write(exchange.Stream(dialect.Reply{Model: model}).Fail(e, ""))
}

// The times of the end of a response: the store may be away for a while, and the answer was paid for.
const (
	storeTime  = time.Minute
	storeEvery = time.Second
)

// store stores the end of a response.
func (s *responseServer) store(ctx context.Context, j *background.Job, log *eventLog) {
	end, last := log.last(j)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	ticker := time.NewTicker(storeEvery)
	defer ticker.Stop()
	for {
		_, err := s.background.Finish(bounded, j, end, last)
		if err == nil {
			return
		}
		rpc.Annotate(ctx, slog.String("store_error", err.Error()))
		select {
		case <-ticker.C:
		case <-ctx.Done(): // The next replica begins anew.
			return
		case <-bounded.Done():
			return
		}
	}
}

// Bounds of the event log.
const (
	// eventsFlush is the size of events that are stored at once, in bytes, flushEvery how long fewer wait.
	eventsFlush = 64 << 10
	flushEvery  = 200 * time.Millisecond
	// appendTime bounds one write to the store.
	appendTime = 5 * time.Second
)

// eventLog is the http.ResponseWriter of a response that is made in the background: it numbers its events, stores them if
// the response is streamed, and keeps the response that the last one holds.
type eventLog struct {
	ctx    context.Context //nolint:containedctx // The job's own: the log lives as long.
	queue  *background.Queue
	job    *background.Job
	header http.Header

	mu    sync.Mutex // A timer stores what waits.
	timer *time.Timer
	// waiting are the events from number first to before next. size counts the bytes of all events.
	waiting           []byte
	first, next, size int
	stored            bool
	// failing lets only the last events in, beyond all bounds.
	failing bool
	end     json.RawMessage
	err     error
}

func newEventLog(ctx context.Context, queue *background.Queue, j *background.Job) *eventLog {
	next := j.LastEvent + 1
	return &eventLog{ctx: ctx, queue: queue, job: j, header: make(http.Header), first: next, next: next}
}

// Header implements http.ResponseWriter. The headers are not sent.
func (l *eventLog) Header() http.Header { return l.header }

// WriteHeader implements http.ResponseWriter.
func (l *eventLog) WriteHeader(int) {}

// FlushError implements the interface of http.ResponseController.
func (l *eventLog) FlushError() error { return nil }

// Write takes the events of a text, which holds whole ones only.
func (l *eventLog) Write(events []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := responses.EachFrame(events, "", l.add); err != nil {
		return 0, err
	}
	return len(events), l.err
}

// add takes an event. The caller holds the lock.
func (l *eventLog) add(frame []byte) error {
	name := gjson.GetBytes(frame, "type").Str
	switch {
	case name == "response.created", name == "response.queued", l.failing && name == "response.in_progress":
		return nil
	case isLast(name):
		l.end = json.RawMessage(bytes.Clone([]byte(gjson.GetBytes(frame, "response").Raw)))
	case l.size+len(frame) > background.MaxEvents && !l.failing:
		l.err = errTooManyEvents
		return l.err
	}
	l.size += len(frame)
	if !l.job.Streamed {
		return nil
	}
	l.waiting = responses.NumberedEvent(l.waiting, frame, l.next)
	l.next++
	switch {
	case isLast(name): // It is stored with the end of the response.
	case len(l.waiting) >= eventsFlush:
		l.flush()
	case l.timer == nil:
		l.timer = time.AfterFunc(flushEvery, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.timer = nil
			if l.end == nil {
				l.flush()
			}
		})
	}
	return l.err
}

// flush stores what waits. The caller holds the lock.
func (l *eventLog) flush() {
	if len(l.waiting) == 0 || l.err != nil || context.Cause(l.ctx) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, appendTime)
	defer cancel()
	if err := l.queue.Append(ctx, l.job, background.Events{First: l.first, Last: l.next - 1, Text: l.waiting}); err != nil {
		l.err = apierr.Unavailable("events can't be stored at the moment", err)
		return
	}
	l.waiting, l.first, l.stored = l.waiting[:0], l.next, true
}

// fails lets the log take the events of a failure, whatever it refused before.
func (l *eventLog) fails() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing, l.err, l.end = true, nil, nil
}

// close stops the timer and returns why the log took no more.
func (l *eventLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	return l.err
}

// completed reports whether the response has come to an end of its own.
func (l *eventLog) completed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end != nil && gjson.GetBytes(l.end, "status").Str != "failed"
}

// shown reports whether readers may have seen events of the maker.
func (l *eventLog) shown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stored
}

// last returns the response's end as it is stored, with the events that wait.
func (l *eventLog) last(j *background.Job) (conversation.Record, *background.Events) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := j.Record
	end.Response = l.end
	if marked, err := responses.Begun(slices.Clone(l.end), j.Attempts); err == nil && j.Attempts > 1 {
		end.Response = marked
	}
	end.Items = responses.ItemIDs(responses.Record{Input: end.Input, Response: end.Response})
	if len(l.waiting) == 0 {
		return end, nil
	}
	return end, &background.Events{First: l.first, Last: l.next - 1, Text: l.waiting}
}
