package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/serving/background"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// Background configures the responses that are made in the background. The zero value refuses them.
type Background struct {
	Queue *background.Queue
	// Start registers the part of the service that makes them.
	Start func(run func(context.Context) error)
}

// queuedRequest is what the maker of a response needs: the request with the whole conversation, and on whose behalf it is.
type queuedRequest struct {
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body"`
	Caller caller.Caller   `json:"caller"`
}

// queue accepts a request that is answered in the background, and answers with the queued response or with its events.
func (s *responseServer) queue(w http.ResponseWriter, r *http.Request, scope conversation.Scope, chat *dialect.Chat, x *responses.Exchange) error {
	if s.background == nil || s.conversations == nil {
		return apierr.New(apierr.KindInvalid, routing.ReasonCapabilityUnsupported, "background: responses are not stored here, so none is made in the background")
	}
	request, err := toNativeRequest(r.Context(), chat, r.Header, nil)
	if err != nil {
		return err
	}
	if err := s.inferences.engine.Check(r.Context(), request); err != nil {
		return err
	}
	response, events := x.Queued(chat.Model)
	job := background.Job{Scope: scope, ID: x.ID, Streamed: chat.Stream}
	job.Record = conversation.Record{ID: x.ID, Previous: x.Previous(), Input: x.Input(), Response: response, CreatedAt: x.CreatedAt()}
	job.Record.Items = responses.ItemIDs(responses.Record{Input: job.Record.Input, Response: response})
	job.Request, err = json.Marshal(queuedRequest{rawOfHTTP(r, "").Header, x.Body, caller.From(r.Context())})
	if err != nil {
		return apierr.Internal(err)
	}
	var first *background.Events
	if chat.Stream {
		first = &background.Events{First: 0, Last: 1, Text: events}
	}
	err = s.background.Create(r.Context(), job, first)
	switch {
	case errors.Is(err, background.ErrFull):
		return tooMany("too many responses are made in the background")
	case err != nil:
		return apierr.Unavailable("the response can't be queued at the moment", err)
	case chat.Stream:
		return s.follow(w, r, scope, job.ID, -1)
	}
	writeText(w, response)
	return nil
}

// present returns a stored response in its present state.
func (s *responseServer) present(ctx context.Context, record conversation.Record) (json.RawMessage, error) {
	if s.background == nil || responses.IsOver(record.Response) {
		return record.Response, nil
	}
	scope, err := scopeOf(ctx, "")
	if err != nil {
		return nil, err
	}
	state, err := s.background.State(ctx, scope.Organization, record.ID)
	switch {
	case err != nil:
		return nil, conversationError("response_id", err)
	case state == "": // It has ended since it was read.
		record, err = s.conversations.Get(ctx, scope, record.ID)
		return record.Response, conversationError("response_id", err)
	case state == "queued":
		return record.Response, nil
	}
	return responses.InProgress(record.Response)
}

// cancel ends a response that is made in the background. One that has ended stays as it is.
func (s *responseServer) cancel(w http.ResponseWriter, r *http.Request) error {
	record, err := s.one(r)
	if err != nil {
		return err
	}
	if !responses.IsBackground(record.Response) || s.background == nil {
		return apierr.Invalid("response_id", "only a response that is made in the background can be canceled")
	}
	if !responses.IsOver(record.Response) {
		scope, err := scopeOf(r.Context(), "")
		if err != nil {
			return err
		}
		end := record
		if end.Response, err = responses.Cancelled(bytes.Clone(record.Response)); err != nil {
			return apierr.Internal(err)
		}
		end.Items = responses.ItemIDs(responses.Record{Input: end.Input, Response: end.Response})
		if _, err := s.background.Cancel(r.Context(), scope, end); err != nil {
			return apierr.Unavailable("the response can't be canceled at the moment", err)
		}
		if record, err = s.conversations.Get(r.Context(), scope, record.ID); err != nil { // Another end may have come before.
			return conversationError("response_id", err)
		}
	}
	writeText(w, record.Response)
	return nil
}

// resume streams the events of a response after the one that the query names.
func (s *responseServer) resume(w http.ResponseWriter, r *http.Request, record conversation.Record) error {
	after := -1
	if text := r.URL.Query().Get("starting_after"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 1<<30 {
			return apierr.Invalid("starting_after", "must be the number of an event")
		}
		after = n
	}
	const rule = "only a response that was created with background and stream can be streamed again"
	if s.background == nil || !responses.IsBackground(record.Response) {
		return apierr.Invalid("stream", rule)
	}
	scope, err := scopeOf(r.Context(), "")
	if err != nil {
		return err
	}
	events, err := s.background.Events(r.Context(), scope.Organization, record.ID, -1)
	if err != nil {
		return conversationError("response_id", err)
	}
	if len(events) == 0 {
		return apierr.Invalid("stream", rule)
	}
	return s.follow(w, r, scope, record.ID, after)
}

// followEvery is how often a reader looks for new events.
const followEvery = 200 * time.Millisecond

// follow sends the events of a response after a number, until its last one.
func (s *responseServer) follow(w http.ResponseWriter, r *http.Request, scope conversation.Scope, id string, after int) error {
	ctx := r.Context()
	out := newEventWriter(w, pingEvery)
	defer out.close()
	f := follower{server: s, out: out, scope: scope, id: id, after: after}
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		over, err := f.turn(ctx)
		if err != nil && ctx.Err() == nil {
			e := apierr.From(conversationError("response_id", err))
			rpc.Annotate(ctx, slog.String("stream_reason", string(e.Reason)), slog.String("stream_error", e.Error()))
			out.error(openai.ErrorBody(e, ""))
		}
		if over || err != nil || out.failed() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// follower is one reader of the events of a response.
type follower struct {
	server *responseServer
	out    *eventWriter
	scope  conversation.Scope
	id     string
	after  int
	// idle is the number of turns without an event.
	idle int
}

// stateEvery is after how many turns without an event a follower asks whether there can be more.
const stateEvery = 5

// turn sends the events that are there. It reports whether the last one was among them.
func (f *follower) turn(ctx context.Context) (over bool, err error) {
	asked := f.idle >= stateEvery
	state := "unknown"
	if asked { // Before the events, so that none is missed.
		if state, err = f.server.background.State(ctx, f.scope.Organization, f.id); err != nil {
			return false, err
		}
		f.idle = 0
	}
	before := f.after
	for {
		chunks, err := f.server.background.Events(ctx, f.scope.Organization, f.id, f.after)
		if err != nil {
			return false, err
		}
		for _, chunk := range chunks {
			over = f.send(chunk) || over
		}
		f.out.flush()
		if over || len(chunks) == 0 || f.out.failed() {
			break
		}
	}
	if f.after == before {
		f.idle++
	}
	if over || state != "" {
		return over, nil
	}
	record, err := f.server.conversations.Get(ctx, f.scope, f.id)
	if err != nil {
		return false, err
	}
	if responses.IsCancelled(record.Response) { // Then no event of its own says so.
		f.out.send(responses.LastEvent(nil, record.Response, f.after+1))
		f.out.flush()
	}
	return true, nil
}

// send sends the events of a chunk that come after the last one that was sent. It reports whether the response's last
// event was sent, or had been.
func (f *follower) send(chunk background.Events) (over bool) {
	_ = responses.EachFrame(chunk.Text, "", func(frame []byte) error {
		n := int(gjson.GetBytes(frame, "sequence_number").Int())
		over = over || isLast(gjson.GetBytes(frame, "type").Str)
		if n > f.after {
			f.after = n
			f.out.send(responses.NumberedEvent(nil, frame, n))
		}
		return nil
	})
	return over
}

// isLast reports whether a response ends with an event.
func isLast(event string) bool {
	switch strings.TrimPrefix(event, "response.") {
	case "completed", "incomplete", "failed":
		return true
	}
	return false
}
