package toolcall

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// live returns how a server of a session gets what it asks while it answers: by the caller, if its own request goes on
// meanwhile, or by the gateway.
func (x *execution) live() upstream.Ask {
	return upstream.Ask{Capabilities: x.liveCapabilities(), Answer: x.answerServer}
}

// liveCapabilities returns what a server of a session is shown; nil for nothing.
func (x *execution) liveCapabilities() json.RawMessage {
	client, terms := &x.request.Client, x.policy.Rules.Sampling(x.server.ID)
	answered := terms.By == toolrule.SamplingByGateway && x.caller.Sampler != nil
	offer := input.Offer{Answered: answered, SamplingTools: terms.Tools}
	if client.Ask == nil {
		return input.Offered(nil, offer)
	}
	offer.Elicitation, offer.Roots = true, true
	if terms.By == toolrule.SamplingByClient {
		offer.Sampling, offer.SamplingTools = true, true
	}
	return input.Offered(client.Capabilities, offer)
}

// answerServer answers what a server of a session asks while it answers. Several goroutines may call it.
func (x *execution) answerServer(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
	if method == wire.MethodSample && x.policy.Rules.Sampling(x.server.ID).By != toolrule.SamplingByClient {
		result, err := x.sample(ctx, params)
		if err != nil {
			return nil, forServer(err)
		}
		return result, nil
	}
	r := input.Request{Key: "question", Method: method, Params: params}
	if x.request.Client.Ask == nil || !r.Able(x.request.Client.Capabilities) {
		return unasked(method)
	}
	screened, err := r.Screen(x.screen())
	if err != nil {
		return nil, broken(err)
	}
	answers, err := x.request.Client.Ask(ctx, []input.Request{screened})
	if refused, ok := errors.AsType[*wire.Error](err); ok {
		return nil, refusedByCaller(refused)
	}
	if err != nil {
		return unasked(method)
	}
	answer, err := screened.Check(answers[screened.Key])
	if err != nil {
		return nil, broken(err)
	}
	return answer, nil
}

// screen returns what a question of the server is held against.
func (x *execution) screen() input.Screen {
	s := x.policy.Screen(x.server)
	if x.request.Client.Ask != nil { // In these revisions a page has a name.
		s.ID = rand.Text()
	}
	return s
}

// unasked answers a server whose question no caller gets, or none has answered.
func unasked(method string) (json.RawMessage, *wire.Error) {
	switch method {
	case wire.MethodElicit:
		return json.RawMessage(`{"action":"` + input.ActionCancel + `"}`), nil
	case wire.MethodSample:
		return nil, &wire.Error{Code: codeRejected, Message: "the completion was refused"}
	}
	return nil, &wire.Error{Code: wire.CodeMethodNotFound, Message: "the caller has no roots"}
}

// broken returns the error of a question or an answer that breaks a rule. It repeats nothing of either.
func broken(err error) *wire.Error {
	if wrong, ok := errors.AsType[*input.Error](err); ok {
		return &wire.Error{Code: wire.CodeInvalidParams, Message: wrong.Error()}
	}
	return &wire.Error{Code: wire.CodeInternal, Message: "internal error"}
}

// maxRefusal bounds the text by which a caller refuses to answer, in bytes.
const maxRefusal = 1 << 10

// refusedByCaller returns a caller's error for the server. Its data stay with the gateway.
func refusedByCaller(e *wire.Error) *wire.Error {
	if len(e.Message) > maxRefusal {
		return &wire.Error{Code: e.Code, Message: "the caller refused"}
	}
	return &wire.Error{Code: e.Code, Message: e.Message}
}
