package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/serving/background"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// Conversations keeps the responses that callers may refer to.
type Conversations interface {
	Keep(ctx context.Context, s conversation.Scope, t conversation.Record) error
	Get(ctx context.Context, s conversation.Scope, id string) (conversation.Record, error)
	Chain(ctx context.Context, s conversation.Scope, id string) ([]conversation.Record, error)
	Holding(ctx context.Context, s conversation.Scope, items []string) ([]conversation.Record, error)
	Delete(ctx context.Context, s conversation.Scope, id string) error
}

// responseServer serves the Responses API.
type responseServer struct {
	inferences    *inferenceServer
	conversations Conversations     // nil: no response is stored
	background    *background.Queue // nil: none is made in the background
	server        *rpc.Server
}

// mountResponses registers the Responses API on the server.
func mountResponses(server *rpc.Server, inferences *inferenceServer, conversations Conversations, made Background) *responseServer {
	s := &responseServer{inferences, conversations, made.Queue, server}
	if s.background != nil {
		made.Start(func(ctx context.Context) error { return s.background.Run(ctx, s.makeInBackground) })
	}
	const method = gatewayv1.InferenceService_Chat_FullMethodName
	for _, root := range []string{"/v1/", azureRoot} {
		server.Handle("POST", root+"responses", method, s.create)
		server.Handle("POST", root+"responses/compact", method, s.compact)
		server.Handle("POST", root+"responses/input_tokens", method, s.inputTokens)
		server.Handle("GET", root+"responses/{response_id}", method, s.get)
		server.Handle("DELETE", root+"responses/{response_id}", method, s.delete)
		server.Handle("POST", root+"responses/{response_id}/cancel", method, s.cancel)
		server.Handle("GET", root+"responses/{response_id}/input_items", method, s.inputItems)
	}
	return s
}

// scopeOf returns whose responses a caller may read. named is the organization that a body names.
func scopeOf(ctx context.Context, named string) (conversation.Scope, error) {
	c := caller.From(ctx)
	organization, err := c.OrganizationOf(named)
	return conversation.Scope{Organization: organization, Owner: c.Owner}, err
}

// body returns the body of a request, with the content of the files that it names, and whose responses it may read.
func (s *responseServer) body(r *http.Request) (conversation.Scope, []byte, error) {
	body, err := peek(r)
	if err != nil {
		return conversation.Scope{}, nil, err
	}
	scope, err := scopeOf(r.Context(), gjson.GetBytes(body, dialect.Extension+".organization_id").Str)
	if err != nil {
		return scope, nil, err
	}
	body, err = s.inferences.withFiles(r.Context(), scope, body)
	return scope, body, err
}

// create answers a request, and stores the response unless the caller asks not to.
func (s *responseServer) create(w http.ResponseWriter, r *http.Request) error {
	scope, body, err := s.body(r)
	if err != nil {
		return err
	}
	chat, exchange, err := responses.Read(body, r.Header, s.history(r.Context(), scope))
	if err != nil {
		return err
	}
	if exchange.Background() {
		return s.queue(w, r, scope, chat, exchange)
	}
	exchange.SetKeep(s.keep(r.Context(), scope, exchange, nil))
	return s.inferences.serveNative(w, r, responses.Dialect{}.Name(), chat, exchange.Body)
}

// compact shortens a conversation.
func (s *responseServer) compact(w http.ResponseWriter, r *http.Request) error {
	scope, body, err := s.body(r)
	if err != nil {
		return err
	}
	chat, compaction, err := responses.ReadCompaction(body, r.Header, s.history(r.Context(), scope))
	if err != nil {
		return err
	}
	r = r.WithContext(callcount.With(r.Context(), nil))                                      // An empty summary is a failure, which counts nothing.
	return s.inferences.serveNative(w, r, responses.Dialect{}.Name(), chat, compaction.Body) // A replay writes the summary.
}

// inputTokens counts the tokens of a request, with the conversation that it continues.
func (s *responseServer) inputTokens(w http.ResponseWriter, r *http.Request) error {
	scope, body, err := s.body(r)
	if err != nil {
		return err
	}
	chat, _, err := responses.Read(body, r.Header, s.history(r.Context(), scope))
	if err != nil {
		return err
	}
	count, err := s.inferences.count(w, r, chat)
	if err != nil {
		return err
	}
	return writeJSON(w, inputCount{"response.input_tokens", count.InputTokens})
}

// inputCount is the answer of a count.
type inputCount struct {
	Object      string `json:"object"`
	InputTokens int64  `json:"input_tokens"`
}

// keepTime bounds the time to store a response: its last event waits for it.
const keepTime = 5 * time.Second

// keep returns the function that stores the response of an exchange; nil for one that is not to be stored. unstored are
// the turns before it if none of them can be found later: they are stored with it.
func (s *responseServer) keep(ctx context.Context, scope conversation.Scope, x *responses.Exchange, unstored []responses.Record) func(json.RawMessage) bool {
	if s.conversations == nil || !x.Stores() {
		return nil
	}
	return func(response json.RawMessage) bool {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
		defer cancel()
		turn, previous := responses.Record{Input: x.Input(), Response: response}, x.Previous()
		if unstored != nil {
			turn.Input, previous = responses.Joined(unstored, turn.Input), ""
		}
		err := s.conversations.Keep(ctx, scope, conversation.Record{
			ID: x.ID, Previous: previous, Input: turn.Input, Response: turn.Response,
			Items: responses.ItemIDs(turn), CreatedAt: x.CreatedAt(),
		})
		if err != nil { // The answer was paid for: it is sent, and says that it is not stored.
			rpc.Annotate(ctx, slog.String("store_error", err.Error()))
		}
		return err == nil
	}
}

// history returns what finds the responses of a scope; nil where none is stored.
func (s *responseServer) history(ctx context.Context, scope conversation.Scope) responses.History {
	if s.conversations == nil {
		return nil
	}
	return scopedHistory{ctx, s.conversations, scope}
}

// scopedHistory implements responses.History for one request.
type scopedHistory struct {
	ctx           context.Context //nolint:containedctx // The request's own: the value lives as long.
	conversations Conversations
	scope         conversation.Scope
}

// Chain implements responses.History.
func (h scopedHistory) Chain(id string) ([]responses.Record, error) {
	turns, err := h.conversations.Chain(h.ctx, h.scope, id)
	switch {
	case errors.Is(err, conversation.ErrNotFound):
		return nil, responses.PreviousNotFound()
	case err != nil:
		return nil, conversationError("previous_response_id", err)
	}
	return toTurns(turns), responses.CheckEnded(turns[len(turns)-1].Response)
}

// Items implements responses.History.
func (h scopedHistory) Items(ids []string) (map[string]json.RawMessage, error) {
	turns, err := h.conversations.Holding(h.ctx, h.scope, ids)
	if err != nil {
		return nil, conversationError("input", err)
	}
	return responses.FindItems(toTurns(turns), ids), nil
}

func toTurns(stored []conversation.Record) []responses.Record {
	turns := make([]responses.Record, len(stored))
	for i, t := range stored {
		turns[i] = responses.Record{Input: t.Input, Response: t.Response}
	}
	return turns
}

// conversationError returns an error of the store as the caller's, if it is one.
func conversationError(field string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, conversation.ErrNotFound):
		return apierr.New(apierr.KindNotFound, "response_not_found", field+": no such response is stored")
	case errors.Is(err, conversation.ErrTooLong):
		return apierr.Invalid(field, "the conversation is longer than 4096 turns or 16 MiB; begin a new one")
	}
	return apierr.Unavailable("stored responses can't be read at the moment", err)
}

// stored returns a stored response's turn with all before it.
func (s *responseServer) stored(r *http.Request) (turns []conversation.Record, err error) {
	scope, err := scopeOf(r.Context(), "")
	if err != nil {
		return nil, err
	}
	if s.conversations == nil {
		return nil, conversationError("response_id", conversation.ErrNotFound)
	}
	turns, err = s.conversations.Chain(r.Context(), scope, r.PathValue("response_id"))
	return turns, conversationError("response_id", err)
}

// one returns a stored response.
func (s *responseServer) one(r *http.Request) (conversation.Record, error) {
	scope, err := scopeOf(r.Context(), "")
	if err != nil {
		return conversation.Record{}, err
	}
	if s.conversations == nil {
		return conversation.Record{}, conversationError("response_id", conversation.ErrNotFound)
	}
	turn, err := s.conversations.Get(r.Context(), scope, r.PathValue("response_id"))
	return turn, conversationError("response_id", err)
}

func (s *responseServer) get(w http.ResponseWriter, r *http.Request) error {
	record, err := s.one(r)
	if err != nil {
		return err
	}
	if r.URL.Query().Get("stream") == "true" {
		return s.resume(w, r, record)
	}
	response, err := s.present(r.Context(), record)
	if err != nil {
		return err
	}
	writeText(w, response)
	return nil
}

// deletion is the answer of DELETE.
type deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

func (s *responseServer) delete(w http.ResponseWriter, r *http.Request) error {
	scope, err := scopeOf(r.Context(), "")
	if err != nil {
		return err
	}
	id := r.PathValue("response_id")
	if s.conversations == nil {
		return conversationError("response_id", conversation.ErrNotFound)
	}
	if err := s.conversations.Delete(r.Context(), scope, id); err != nil {
		return conversationError("response_id", err)
	}
	return writeJSON(w, deletion{id, "response", true})
}

func (s *responseServer) inputItems(w http.ResponseWriter, r *http.Request) error {
	turns, err := s.stored(r)
	if err != nil {
		return err
	}
	page, err := responses.InputItems(toTurns(turns), r.URL.Query())
	if err != nil {
		return err
	}
	return writeJSON(w, page)
}
