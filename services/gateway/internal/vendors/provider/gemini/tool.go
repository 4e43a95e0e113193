package gemini

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
)

// noArguments are the arguments of a call without any.
const noArguments = "{}"

type tools struct {
	Declarations []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	Calling callingConfig `json:"functionCallingConfig"`
}

type callingConfig struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type functionResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

// encodeTools declares the functions. Calls of a strict function must match its schema, so the schema may only use
// keywords that the vendor enforces; the schema of other functions is a hint, and is sent unchanged.
func (r *request) encodeTools(chat *provider.Chat) error {
	mode := "AUTO"
	var declared []declaration
	for i, tool := range chat.Tools {
		d := declaration{Name: tool.Name, Description: tool.Description}
		field := "tools[" + strconv.Itoa(i) + "].function.parameters"
		var err error
		if d.Parameters, err = arguments.Fit(field, tool.Parameters); err != nil {
			return err
		}
		if tool.Strict {
			mode = "VALIDATED"
			if d.Parameters, err = schema.Gemini.Convert(field, d.Parameters); err != nil {
				return err
			}
		}
		declared = append(declared, d)
	}
	if declared != nil {
		r.Tools = []tools{{declared}}
	}
	config := callingConfig{Mode: mode}
	if c := chat.ToolChoice; c != nil {
		switch c.Mode {
		case "none":
			config.Mode = "NONE"
		case "required":
			config.Mode = "ANY"
		case "tool":
			config = callingConfig{"ANY", []string{c.Name}}
		}
	}
	if chat.ToolChoice != nil || mode != "AUTO" {
		r.ToolConfig = &toolConfig{config}
	}
	return nil
}

// state is what must be sent back with a call; other vendors' state is left out.
type state struct {
	Google struct {
		Signature string `json:"thought_signature"`
	} `json:"google"`
}

// stateOf returns the state of a call as its Extra, in the format of Google's own OpenAI-compatible API.
func stateOf(signature string) json.RawMessage {
	if signature == "" {
		return nil
	}
	text, _ := json.Marshal(map[string]any{"google": map[string]string{"thought_signature": signature}}) // Strings never fail.
	return text
}

// unsigned is the vendor's placeholder signature for a call that it didn't make: models from Gemini 3 on refuse a
// conversation without any signature. Source: Gemini API, "Thought signatures", FAQ.
const unsigned = "skip_thought_signature_validator"

var generation = regexp.MustCompile(`^gemini-(\d+)`)

// wantsSignature reports whether a model refuses calls without a signature.
func wantsSignature(model string) bool {
	match := generation.FindStringSubmatch(bare(model))
	if match == nil {
		return false
	}
	n, err := strconv.Atoi(match[1])
	return err == nil && n >= 3
}

// encodeCall encodes a call with its signature. Of parallel calls only the first has one.
func encodeCall(model string, call provider.ToolCall, first bool) (part, error) {
	args := bytes.TrimSpace([]byte(call.Arguments))
	if len(args) == 0 {
		args = []byte(noArguments)
	}
	if args[0] != '{' || !jsoncheck.Valid(args) {
		return part{}, invalid("tool_calls: the arguments of the function "+screen.Quote(call.Name)+" are not a JSON object", nil)
	}
	var s state
	if len(call.Extra) > 0 {
		if err := json.Unmarshal(call.Extra, &s); err != nil {
			return part{}, invalid("tool_calls: the extra content of the function "+screen.Quote(call.Name)+" is not what the provider gave", err)
		}
	}
	if s.Google.Signature == "" && first && wantsSignature(model) {
		s.Google.Signature = unsigned
	}
	return part{
		FunctionCall:     &functionCall{call.ID, call.Name, args},
		ThoughtSignature: s.Google.Signature,
	}, nil
}

// encodeResult encodes the result of a call, with the name of its function, from the conversation. A result that is a
// JSON object is sent unchanged.
func encodeResult(m provider.Message, calls map[string]string) (part, error) {
	name := calls[m.ToolCallID]
	if name == "" {
		name = m.Name
	}
	if name == "" {
		return part{}, invalid("messages[].tool_call_id: "+"an id "+screen.Quote(m.ToolCallID)+" is no call of the conversation", nil)
	}
	m.Content = slices.Clone(m.Content)
	for i := range m.Content {
		switch p := &m.Content[i]; {
		case p.ImageURL != "":
			return part{}, provider.Unsupported("messages[].content", "this provider accepts no images in the results of tools")
		case p.File != nil:
			text, ok := p.File.NamedText()
			if !ok {
				return part{}, provider.Unsupported("messages[].content", "this provider accepts no documents but texts in the results of tools")
			}
			p.Text = text
		}
	}
	response := bytes.TrimSpace([]byte(m.Text()))
	if len(response) == 0 || response[0] != '{' || !jsoncheck.Valid(response) {
		response, _ = json.Marshal(map[string]string{"output": m.Text()}) // Strings never fail.
	}
	return part{FunctionResponse: &functionResponse{m.ToolCallID, name, response}}, nil
}

func invalid(text string, cause error) error {
	return &provider.Error{Class: apierr.ClassPolicy, Text: text, Cause: cause}
}
