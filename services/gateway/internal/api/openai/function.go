package openai

import (
	"encoding/json"
	"strconv"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// functions reads the predecessor of tools: one call a turn, and no ids. Of several calls of a turn the answer has the
// first, and so the conversation goes on with it.
func (r *reader) functions() error {
	list, err := dialect.Elements("functions", r.Raw("functions"))
	if err != nil {
		return err
	}
	for i, one := range list {
		var f struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		}
		path := dialect.At("functions", i)
		if err := dialect.Decode(path, one, &f); err != nil {
			return err
		}
		if f.Name == "" {
			return apierr.Invalid(path+".name", "is required")
		}
		r.chat.Chat.Tools = append(r.chat.Chat.Tools, provider.Tool{Name: f.Name, Description: f.Description, Parameters: f.Parameters})
	}
	if len(list) > 0 {
		r.chat.Writer = Dialect{functions: true}
	}
	return r.functionChoice(r.Raw("function_call"), len(list) > 0)
}

func (r *reader) functionChoice(raw json.RawMessage, offered bool) error {
	const path = "function_call"
	if raw == nil || !offered {
		return nil
	}
	if raw[0] == '"' {
		var mode string
		if err := dialect.Decode(path, raw, &mode); err != nil {
			return err
		}
		if mode != "auto" && mode != "none" {
			return apierr.Invalid(path, "must be auto, none or a function")
		}
		r.chat.Chat.ToolChoice = &provider.ToolChoice{Mode: mode}
		return nil
	}
	var choice callee
	if err := dialect.Decode(path, raw, &choice); err != nil {
		return err
	}
	r.chat.Chat.ToolChoice = &provider.ToolChoice{Mode: "tool", Name: choice.Name}
	return nil
}

// functionCall reads a call of a function in a turn of the assistant.
func (r *reader) functionCall(path string, raw json.RawMessage) (provider.ToolCall, error) {
	var f callee
	if err := dialect.Decode(path, raw, &f); err != nil {
		return provider.ToolCall{}, err
	}
	id := "call_" + strconv.Itoa(r.called)
	r.called++
	if r.last == nil {
		r.last = make(map[string]string)
	}
	r.last[f.Name] = id
	return provider.ToolCall{ID: id, Name: f.Name, Arguments: f.Arguments}, nil
}

// functionResult sets the call that a function's message answers: the latest of its name.
func (r *reader) functionResult(path string, m *provider.Message) {
	id, ok := r.last[m.Name]
	if !ok { // The dialect's own vendors decide what they make of it.
		r.chat.Restrict(path + ".name")
	}
	m.Role, m.ToolCallID = provider.RoleTool, id
}
