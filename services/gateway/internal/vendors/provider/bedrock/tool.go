package bedrock

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
)

type toolConfig struct {
	Tools  []tool  `json:"tools"`
	Choice *choice `json:"toolChoice,omitempty"`
}

type tool struct {
	Spec toolSpec `json:"toolSpec"`
}

type toolSpec struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	Input       inputSchema `json:"inputSchema"`
	Strict      bool        `json:"strict,omitempty"`
}

type inputSchema struct {
	JSON json.RawMessage `json:"json"`
}

// choice is a union: it has one of its fields.
type choice struct {
	Auto *struct{}   `json:"auto,omitempty"`
	Any  *struct{}   `json:"any,omitempty"`
	Tool *toolChoice `json:"tool,omitempty"`
}

type toolChoice struct {
	Name string `json:"name"`
}

// dontCall is the instruction in place of a choice that the dialect lacks.
const dontCall = "Answer without calling a tool."

// declare declares the functions. The dialect has no way to forbid calls but to declare none, which it refuses where the
// conversation has calls already: then the functions stay declared, and the model is told not to call them.
func (e *encoder) declare() error {
	tools := e.chat.Tools
	forbidden := e.chat.ToolChoice != nil && e.chat.ToolChoice.Mode == "none"
	if len(tools) == 0 || forbidden {
		called := e.called()
		if len(called) == 0 {
			return nil
		}
		if len(tools) == 0 {
			tools = called
		}
		e.instruct(dontCall)
	}
	e.Tools = &toolConfig{Choice: encodeChoice(e.chat.ToolChoice)}
	for i := range tools {
		t := &tools[i]
		parameters, err := anthropic.InputSchema(i, t)
		if err != nil {
			return err
		}
		e.Tools.Tools = append(e.Tools.Tools, tool{toolSpec{t.Name, t.Description, inputSchema{parameters}, t.Strict}})
	}
	return nil
}

// called returns the functions that the conversation has calls of.
func (e *encoder) called() (tools []provider.Tool) {
	seen := make(map[string]bool)
	for _, m := range e.chat.Messages {
		for _, call := range m.ToolCalls {
			if !seen[call.Name] {
				seen[call.Name] = true
				tools = append(tools, provider.Tool{Name: call.Name})
			}
		}
	}
	return tools
}

// encodeChoice returns which tools may be called; nil is the model's own choice.
func encodeChoice(c *provider.ToolChoice) *choice {
	switch {
	case c == nil:
		return nil
	case c.Mode == "auto":
		return &choice{Auto: &struct{}{}}
	case c.Mode == "required":
		return &choice{Any: &struct{}{}}
	case c.Mode == "tool":
		return &choice{Tool: &toolChoice{c.Name}}
	}
	return nil
}

// maxToolID is the largest length of the ID of a call.
const maxToolID = 64

// toolID returns the ID of a call in the form that the dialect accepts.
func toolID(id string) string { return anthropic.ToolID(provider.CallID(id, maxToolID)) }
