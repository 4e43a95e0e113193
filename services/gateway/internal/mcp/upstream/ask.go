package upstream

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/panics"
)

// Ask is how a server of a session gets what it asks of its client while it answers a request. Servers without sessions
// ask by their results.
type Ask struct {
	// Capabilities are what the session is shown of the client, as input.Offered returns them; nil for nothing. Callers
	// share the sessions of those with the same, so that no server asks a caller what another one can.
	Capabilities json.RawMessage
	// Answer answers a request with a result, an object, or with an error. It is called on goroutines of its own, up to 16
	// times for a call, and returns when ctx ends; ctx leaves the server time to go on. params are an object of at most
	// 64 KiB, nil for none. With nil every request is answered as not supported.
	Answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error)
}

// Bounds of what a server asks: parameters in bytes, and the time that the answer leaves of the call's, at most a tenth.
const (
	maxAskParams = 64 << 10
	mostRest     = 5 * time.Second
)

// asksClient reports whether a method asks something of the client that an Ask answers.
func asksClient(method string) bool {
	return method == wire.MethodElicit || method == wire.MethodSample || method == wire.MethodRoots
}

// errReused is the error of a server that uses an id for two requests.
var errReused = protocol("the server sent two requests with one id")

// ask has a request of the server answered while the conversation goes on. The message's memory isn't kept.
func (v *conversation) ask(ctx context.Context, m *wire.Message) error {
	if v.pending[string(m.ID)] != nil {
		return errReused
	}
	if len(m.Params) > maxAskParams {
		v.respond(ctx, &wire.Message{ID: m.ID, Error: &wire.Error{Code: wire.CodeInvalidParams, Message: "params: larger than 64 KiB"}})
		return nil
	}
	if err := memory.FromContext(ctx).Charge(len(m.Params)); err != nil {
		return failed(ctx, err, true)
	}
	question := wire.Message{ID: slices.Clone(m.ID), Method: m.Method, Params: slices.Clone(m.Params)}
	ctx, withdraw := context.WithCancel(ctx)
	if v.pending == nil {
		v.pending = make(map[string]context.CancelFunc)
	}
	v.pending[string(question.ID)] = withdraw
	v.asking.Go(func() error {
		defer withdraw()
		answer := &wire.Message{ID: question.ID}
		failure := panics.Call(func() error {
			bounded, cancel := withRest(ctx)
			defer cancel()
			answer.Result, answer.Error = v.asks.Answer(bounded, question.Method, question.Params)
			return nil
		})
		if failure != nil || answer.Result == nil && answer.Error == nil { // The server waits for an answer all the same.
			answer.Error = &wire.Error{Code: wire.CodeInternal, Message: "internal error"}
		}
		v.respond(ctx, answer)
		return failure
	})
	return nil
}

// withdraw ends a request that the server no longer wants to be answered.
func (v *conversation) withdraw(params json.RawMessage) {
	wire.Members(orEmpty(params), func(name string, value []byte) bool {
		if end := v.pending[string(value)]; name == "requestId" && end != nil {
			end()
		}
		return true
	})
}

// withRest bounds a question, so that the server has time to go on once it is answered.
func withRest(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, controlTime)
	}
	left := time.Until(deadline)
	return context.WithTimeout(ctx, left-min(left/10, mostRest))
}

// respond sends the server an answer. A server that doesn't take it has the harm itself.
func (v *conversation) respond(ctx context.Context, m *wire.Message) {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	_ = v.reply(ctx, m)
}
