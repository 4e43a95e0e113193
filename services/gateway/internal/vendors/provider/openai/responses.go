package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// ResponsesName is the name of the form of the Responses API, which some servers of the dialect take too. Source: OpenAI
// API reference, "Responses" and "Streaming events".
const ResponsesName = "responses"

// What the gateway itself put into the items of a conversation, and no vendor knows.
const (
	// OwnID follows the prefix of the ids of items that the gateway made.
	OwnID = "_sw"
	// OwnState begins the encrypted_content of reasoning that the gateway made.
	OwnState = "swy1."
)

// isResponses reports whether the caller's own body is a request of the Responses API that this server takes.
func (p *Provider) isResponses(chat *provider.Chat) bool {
	return p.traits.responses && chat.Native != nil && chat.Native.Dialect == ResponsesName
}

// respond requests a whole response.
func (p *Provider) respond(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	at := p.placeOf(credential)
	body, err := p.relayResponses(chat, at, false)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, responses, chat.Model, header(chat.Native), body) //nolint:bodyclose // wire.Read closes it.
	if err != nil {
		return nil, err
	}
	text, err := wire.Read(ctx, response)
	if err != nil {
		return nil, err
	}
	answer, err := responseOf(caller, response.StatusCode, text)
	if err != nil {
		return nil, err
	}
	answer.Limits, answer.Native = caller.Limits(response), at.sealAll(text, "output", nil)
	return answer, nil
}

// streamResponse requests a streamed response.
func (p *Provider) streamResponse(ctx context.Context, credential provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	at := p.placeOf(credential)
	body, err := p.relayResponses(chat, at, true)
	if err != nil {
		return nil, err
	}
	header := header(chat.Native)
	header.Set("Accept", "text/event-stream")
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, responses, chat.Model, header, body) //nolint:bodyclose // The stream or wire.Read closes it.
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return nil, notResponseStream(ctx, caller, response)
	}
	return newResponseStream(ctx, caller, response.Body, at, caller.Limits(response)), nil
}

func notResponseStream(ctx context.Context, caller *wire.Caller, response *http.Response) error {
	text, err := wire.Read(ctx, response)
	if err == nil {
		_, err = responseOf(caller, response.StatusCode, text)
	}
	if err == nil {
		err = wire.Malformed("the answer is not an event stream", nil)
	}
	return err
}

// kept are the members of a request that the gateway sets itself or has acted on: state is the gateway's, so that the
// vendor stores nothing.
var acted = []string{"model", "stream", "store", "background", "previous_response_id"}

// relayResponses returns the caller's body with the members that the gateway sets, and without what the gateway put into
// the items of earlier answers. A model that reasons is asked for its reasoning encrypted: as the vendor stores nothing, it
// goes on from it only so. An effort becomes the nearest that the model accepts. Every other field stays byte for byte.
func (p *Provider) relayResponses(chat *provider.Chat, at origin, stream bool) (json.RawMessage, error) {
	text := chat.Native.Body
	own := gjson.ParseBytes(text)
	if !jsoncheck.Valid(text) || !own.IsObject() {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the request is not a JSON object"}
	}
	model, err := json.Marshal(chat.Model)
	if err != nil {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the model's name can't be encoded as JSON", Cause: err}
	}
	out := make([]byte, 0, len(text)+len(model)+64)
	out = append(append(append(out, `{"model":`...), model...), `,"store":false`...)
	encrypts := p.traits.encrypts && reasons(chat.Model)
	own.ForEach(func(key, value gjson.Result) bool {
		for _, name := range acted { // A duplicate field, or one in other letters, must not override the gateway's.
			if strings.EqualFold(key.Str, name) {
				return true
			}
		}
		switch {
		case key.Str == "input" && err == nil:
			value.Raw, err = at.input(value)
		case key.Str == "include" && encrypts:
			value.Raw, encrypts = encrypting(value), false
		case key.Str == "reasoning":
			value.Raw = p.acceptedReasoning(chat.Model, value)
		}
		out = append(append(append(append(out, ','), key.Raw...), ':'), value.Raw...)
		return true
	})
	if encrypts {
		out = append(append(append(out, `,"include":[`...), encryptedContent...), ']')
	}
	if stream {
		out = append(out, `,"stream":true`...)
	}
	return append(out, '}'), err
}

// encryptedContent is the value of include that asks for reasoning encrypted.
const encryptedContent = `"reasoning.encrypted_content"`

// encrypting returns a list of what to include with encrypted reasoning in it.
func encrypting(include gjson.Result) string {
	var out strings.Builder
	out.WriteString("[" + encryptedContent)
	each(include, func(value gjson.Result) {
		if value.Raw != encryptedContent {
			out.WriteString("," + value.Raw)
		}
	})
	return out.String() + "]"
}

// responseOf parses a whole response.
func responseOf(caller *wire.Caller, status int, data []byte) (*provider.Answer, error) {
	var r responseObject
	if err := parse(caller, status, data, r.member); err != nil {
		return nil, err
	}
	if !r.output.IsArray() {
		return nil, wire.Malformed("the answer holds no output", nil)
	}
	if r.failed() {
		return nil, r.failure(caller, status)
	}
	answer := &provider.Answer{Model: wire.Text(r.model), Usage: responseUsage(r.usage)}
	refused := readOutput(r.output, answer)
	answer.FinishReason = r.finishReason(refused).WithCalls(len(answer.ToolCalls) > 0)
	return answer, provider.CheckCalls(answer.ToolCalls)
}

// readOutput adds the items of a response to an answer, and reports whether the model refused.
func readOutput(output gjson.Result, answer *provider.Answer) (refused bool) {
	var text, reasoning, other wire.Joined
	each(output, func(item gjson.Result) {
		switch item.Get("type").Str {
		case "message":
			each(item.Get("content"), func(part gjson.Result) {
				refusal := wire.Text(part.Get("refusal"))
				refused = refused || refusal != ""
				text.Add(refusal)
				text.Add(wire.Text(part.Get("text")))
			})
		case "function_call":
			if len(answer.ToolCalls) <= provider.MaxToolCalls { // One more shows that there are too many.
				answer.ToolCalls = append(answer.ToolCalls, responseCall(item))
			}
		case "reasoning":
			each(item.Get("summary"), func(part gjson.Result) { reasoning.Add(wire.Text(part.Get("text"))) })
			each(item.Get("content"), func(part gjson.Result) { reasoning.Add(wire.Text(part.Get("text"))) })
		default:
			unshownItem(item, &other)
		}
	})
	answer.Text, answer.Reasoning, answer.Other = text.String(), reasoning.String(), other.String()
	return refused
}

func responseCall(item gjson.Result) provider.ToolCall {
	return provider.ToolCall{ID: wire.Text(item.Get("call_id")), Name: wire.Text(item.Get("name")), Arguments: wire.Text(item.Get("arguments"))}
}

// unshownItem adds what the model wrote into a call of a vendor's or a custom tool.
func unshownItem(item gjson.Result, other *wire.Joined) {
	members(item, func(name string, value gjson.Result) {
		switch name {
		case "name", "input", "arguments", "code", "action", "operation":
			if value.Type == gjson.String {
				other.Add(wire.Text(value))
			} else if value.IsObject() {
				other.Add(string(wire.Bytes(value)))
			}
		}
	})
}

// responseObject holds the members of a response. They are valid as long as its text.
type responseObject struct{ status, output, usage, model, reason, problem gjson.Result }

func (r *responseObject) member(name string, value gjson.Result) {
	switch name {
	case "status":
		first(&r.status, value)
	case "output":
		first(&r.output, value)
	case "usage":
		first(&r.usage, value)
	case "model":
		first(&r.model, value)
	case "incomplete_details":
		first(&r.reason, value.Get("reason"))
	case "error":
		first(&r.problem, value)
	}
}

func (r *responseObject) failed() bool {
	switch r.status.Str {
	case "failed", "cancelled", "queued":
		return true
	}
	return false
}

// failure returns the error of a response that failed.
func (r *responseObject) failure(caller *wire.Caller, status int) error {
	if r.problem.IsObject() {
		return caller.Refused(status, []byte(`{"error":`+r.problem.Raw+`}`))
	}
	return wire.Malformed("the response is "+wire.Shorten(r.status.Str), nil)
}

func (r *responseObject) finishReason(refused bool) provider.FinishReason {
	switch {
	case r.status.Str == "incomplete" && r.reason.Str == "content_filter", refused:
		return provider.FinishContentFilter
	case r.status.Str == "incomplete":
		return provider.FinishLength
	}
	return provider.FinishStop
}

// responseUsage splits a usage into disjoint buckets, or returns nil if there is none.
func responseUsage(value gjson.Result) *provider.Usage {
	var b bill
	members(value, func(name string, value gjson.Result) {
		switch name {
		case "input_tokens":
			b.prompt.record(value)
		case "output_tokens":
			b.completion.record(value)
		case "input_tokens_details":
			members(value, b.input)
		case "output_tokens_details":
			members(value, b.output)
		}
	})
	if !b.prompt.number && !b.completion.number {
		return nil
	}
	return b.split()
}
