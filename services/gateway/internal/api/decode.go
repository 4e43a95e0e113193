package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// The bodies are the contract's own messages, whose fields carry their JSON
// names. Only fields of free JSON are shadowed, by ones that keep the text as it
// came.
type chatBody struct {
	gatewayv1.LlmRequest
	Messages       []messageBody   `json:"messages"`
	Tools          []toolBody      `json:"tools"`
	ToolChoice     json.RawMessage `json:"tool_choice"`
	ResponseFormat json.RawMessage `json:"response_format"`
}

type messageBody struct {
	gatewayv1.ChatMessage
	Content   json.RawMessage `json:"content"`
	ToolCalls []callBody      `json:"tool_calls"`
}

type callBody struct {
	gatewayv1.ToolCall
	ExtraContent json.RawMessage `json:"extra_content"`
}

type toolBody struct {
	gatewayv1.Tool
	Function *functionBody `json:"function"`
}

type functionBody struct {
	gatewayv1.ToolFunction
	Parameters json.RawMessage `json:"parameters"`
}

// decodeChat reads a body into the contract's message and applies the
// contract's rules. A body that names no model means the default one.
func decodeChat(r io.Reader) (*gatewayv1.LlmRequest, error) {
	var body chatBody
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	m := &body.LlmRequest
	if m.GetModel() == "" {
		m.Model = routing.DefaultModel
	}
	m.ToolChoice, m.ResponseFormat = present(body.ToolChoice), present(body.ResponseFormat)
	for i := range body.Messages {
		m.Messages = append(m.Messages, body.Messages[i].message())
	}
	for i := range body.Tools {
		tool := &body.Tools[i]
		if tool.Function != nil {
			tool.Tool.Function = &tool.Function.ToolFunction
			tool.Tool.Function.Parameters = present(tool.Function.Parameters)
		}
		m.Tools = append(m.Tools, &tool.Tool)
	}
	return m, rpc.Validate(m)
}

func (b *messageBody) message() *gatewayv1.ChatMessage {
	b.ChatMessage.Content = present(b.Content)
	for i := range b.ToolCalls {
		call := &b.ToolCalls[i]
		call.ToolCall.ExtraContent = present(call.ExtraContent)
		b.ChatMessage.ToolCalls = append(b.ChatMessage.ToolCalls, &call.ToolCall)
	}
	return &b.ChatMessage
}

// present takes null for absent.
func present(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// decode reads one JSON object, strictly. Errors name the field.
func decode(r io.Reader, into any) error {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refuse("body", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return apierr.Invalid("body", "holds more than one JSON value")
	}
	return nil
}

// refuse says what is wrong with JSON text, without repeating a value.
func refuse(field string, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return apierr.Invalid(field, fmt.Sprintf("invalid JSON at byte %d: %s", syntax.Offset, syntax.Error()))
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what, _, _ := strings.Cut(kind.Value, " ")
		return apierr.Invalid(cmp.Or(publicPath(kind.Field), field), "must not be this "+what)
	}
	switch {
	case errors.Is(err, io.EOF):
		return apierr.Invalid(field, "is required")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return apierr.Invalid(field, "invalid JSON: it ends too early")
	}
	return apierr.Invalid(field, strings.TrimPrefix(err.Error(), "json: ")) // An unknown field, by name.
}

// publicPath leaves the Go names of embedded messages out of a field's path.
func publicPath(path string) string {
	var names []string
	for name := range strings.SplitSeq(path, ".") {
		if name != "" && strings.ToLower(name[:1]) == name[:1] {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}
