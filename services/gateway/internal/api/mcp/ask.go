package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"switchyard.dev/services/gateway/internal/mcp/answer"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/rpc"
)

// Answers bring what callers answer to the replica that asked them; see answer.Router.
type Answers interface {
	// Expect returns a question to the client of a session, which must be closed.
	Expect(s *session.Session) (*answer.Question, error)
	// Take takes a response of the client of a session.
	Take(ctx context.Context, s *session.Session, m *wire.Message) error
}

// live returns what a caller of an older revision can be asked: on the stream of its own request, if it has a session, by
// which its answers find their way.
func (x *exchange) live() toolcall.Client {
	if x.session == nil || x.handler.Answers == nil {
		return toolcall.Client{}
	}
	return toolcall.Client{Capabilities: x.session.Capabilities, Ask: x.ask}
}

// ask puts requests to the caller in the stream of its own, and returns the answers by their keys. The error is a
// *wire.Error where the caller answers with one.
func (x *exchange) ask(ctx context.Context, asked []input.Request) (map[string]json.RawMessage, error) {
	questions := make([]*answer.Question, 0, len(asked))
	defer func() {
		for _, q := range questions {
			q.Close()
		}
	}()
	for range asked {
		q, err := x.handler.Answers.Expect(x.session)
		if err != nil {
			return nil, err
		}
		questions = append(questions, q)
	}
	for i, q := range questions {
		x.reply.notify(&wire.Message{ID: q.ID, Method: asked[i].Method, Params: asked[i].Params})
	}
	answers := make(map[string]json.RawMessage, len(asked))
	for i, q := range questions {
		result, err := q.Wait(ctx)
		if err != nil {
			x.withdraw(questions[i:])
			return nil, err
		}
		answers[asked[i].Key] = result
	}
	return answers, nil
}

// withdraw says that questions need no answer any more. The first of them may have got one, which does no harm.
func (x *exchange) withdraw(questions []*answer.Question) {
	for _, q := range questions {
		x.notify(wire.MethodCancelled, map[string]json.RawMessage{"requestId": q.ID})
	}
}

// take takes what a caller sends without wanting a response: the answer to a question, or a notification.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, in *incoming, requestID string) {
	if in.message.IsResponse() && in.session != nil && h.Answers != nil {
		if err := h.Answers.Take(r.Context(), in.session, &in.message); err != nil {
			refused := refusalOf(err, nil, requestID)
			rpc.Annotate(r.Context(), slog.String("mcp_error", codeText(refused.err.Code)))
			refused.write(w)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}
