package responses

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/platform/apierr"
)

// item is an item of the input; each type uses its own fields.
type item struct {
	Type             string          `json:"type"`
	ID               string          `json:"id"`
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	CallID           string          `json:"call_id"`
	Name             string          `json:"name"`
	Namespace        string          `json:"namespace"`
	Arguments        json.RawMessage `json:"arguments"`
	Input            string          `json:"input"`
	Output           json.RawMessage `json:"output"`
	EncryptedContent string          `json:"encrypted_content"`
	Summary          json.RawMessage `json:"summary"`
	Tools            json.RawMessage `json:"tools"`
	Execution        string          `json:"execution"`
}

// conversation is what has been read of the input. The calls of a turn belong to one message, and their results follow
// it: most vendors refuse another order.
type conversation struct {
	// turn reports whether the last message is a turn of the assistant that may take further calls.
	turn bool
	// calls are the ids of the calls so far.
	calls map[string]bool
	// state is the opaque state of calls, by their ids, from reasoning items.
	state map[string]json.RawMessage
	// thought is reasoning text that belongs to the assistant's next turn.
	thought string
	// attachments are the images and documents in results of tools, which follow the results as a message of the user.
	attachments []provider.Part
}

// items reads the input, with the conversation that it continues.
func (r *reader) items() error {
	if r.list == nil && !r.Has("prompt") {
		return apierr.Invalid("input", "is required")
	}
	for i, one := range r.list {
		path := "previous_response_id"
		if i >= r.before {
			path = dialect.At("input", i-r.before)
		}
		if err := r.item(path, one); err != nil {
			return err
		}
	}
	r.flush()
	if len(r.chat.Chat.Messages) == 0 && r.chat.Only == "" && !r.Has("prompt") {
		return apierr.Invalid("input", "must hold a message")
	}
	return nil
}

func (r *reader) item(path string, raw json.RawMessage) error {
	var it item
	err := dialect.Unambiguous(path, raw, "type", "role", "content", "call_id", "name", "arguments", "input", "output", "tools", "encrypted_content")
	if err == nil {
		err = dialect.Decode(path, raw, &it)
	}
	if err != nil {
		return err
	}
	switch it.Type {
	case typeMessage:
		return r.message(path, it)
	case "":
		if it.Role != "" {
			return r.message(path, it)
		}
		return apierr.Invalid(path+".type", "is required")
	case "item_reference": // One with an id was resolved.
		return apierr.Invalid(path+".id", "is required")
	case typeFunctionCall, typeCustomCall, typeToolSearchCall:
		return r.call(path, it)
	case "function_call_output", "custom_tool_call_output", "tool_search_output":
		return r.result(path, it)
	case typeReasoning:
		r.thought(it)
		return nil
	case "additional_tools":
		return r.readTools(path+".tools", "", it.Tools)
	case typeCompaction:
		return r.compaction(path, it.EncryptedContent)
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools", "mcp_call":
		r.chat.Ignores("input." + it.Type) // Their results are in the text that the model wrote.
		return nil
	}
	r.chat.Open(path + ".type") // computer_call, shell_call, …, and types of the future
	return nil
}

func (r *reader) message(path string, it item) error {
	m := provider.Message{Role: provider.Role(it.Role)}
	switch it.Role {
	case "developer": // The newer name of the same role.
		m.Role = provider.RoleSystem
	case "system", "user", "assistant":
	default:
		return apierr.Invalid(path+".role", "must be user, assistant, system or developer")
	}
	if len(it.Content) == 0 {
		return apierr.Invalid(path+".content", "is required")
	}
	var err error
	if m.Content, err = r.content(path+".content", it.Content); err != nil {
		return err
	}
	r.add(m)
	return nil
}

// add appends a message. What the assistant says between its calls and their results belongs to the turn of the calls.
func (r *reader) add(m provider.Message) {
	messages := r.chat.Chat.Messages
	if last := len(messages) - 1; m.Role == provider.RoleAssistant {
		if r.input.turn && len(messages[last].ToolCalls) > 0 {
			messages[last].Content = append(messages[last].Content, m.Content...)
			return
		}
		r.flush()
		m.Reasoning, r.input.thought = r.input.thought, ""
		r.input.turn = true
	} else {
		r.flush()
		r.input.turn, r.input.thought = false, ""
	}
	r.chat.Chat.Messages = append(r.chat.Chat.Messages, m)
}

// flush appends the images and documents of the results before it, which have to be behind the last result.
func (r *reader) flush() {
	if len(r.input.attachments) > 0 {
		r.chat.Chat.Messages = append(r.chat.Chat.Messages, provider.Message{Role: provider.RoleUser, Content: r.input.attachments})
		r.input.attachments, r.input.turn = nil, false
	}
}

// call adds a call to the assistant's turn.
func (r *reader) call(path string, it item) error {
	call := provider.ToolCall{ID: it.CallID, Name: functionName(it.Namespace, it.Name)}
	switch it.Type {
	case typeFunctionCall:
		if err := dialect.Decode(path+".arguments", orEmpty(it.Arguments), &call.Arguments); err != nil {
			return err
		}
	case typeCustomCall:
		call.Arguments = customArguments(it.Input)
	case typeToolSearchCall:
		if it.Execution != "client" { // The vendor's own search; its result is in the items that follow.
			r.chat.Open(path + ".execution")
			return nil
		}
		call.Name, call.Arguments = toolSearch, string(it.Arguments)
	}
	if it.CallID == "" {
		return apierr.Invalid(path+".call_id", "is required")
	}
	if call.Name == "" {
		return apierr.Invalid(path+".name", "is required")
	}
	if r.input.calls[it.CallID] {
		return apierr.Invalid(path+".call_id", "an item before it has the same")
	}
	if r.input.calls == nil {
		r.input.calls = make(map[string]bool)
	}
	r.input.calls[it.CallID] = true
	call.Extra = r.input.state[it.CallID]
	if !r.input.turn {
		r.add(provider.Message{Role: provider.RoleAssistant})
	}
	turn := &r.chat.Chat.Messages[len(r.chat.Chat.Messages)-1]
	turn.Reasoning, r.input.thought = turn.Reasoning+r.input.thought, ""
	call.Index = len(turn.ToolCalls)
	turn.ToolCalls = append(turn.ToolCalls, call)
	return nil
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(`""`)
	}
	return raw
}

// result adds the result of a call. Images and documents in it follow all results of the turn: few vendors have a place
// for them in a result.
func (r *reader) result(path string, it item) error {
	switch {
	case it.CallID == "" && it.Type == "tool_search_output" && it.Execution != "client":
		r.chat.Open(path + ".execution")
		return nil
	case it.CallID == "":
		return apierr.Invalid(path+".call_id", "is required")
	case !r.input.calls[it.CallID]:
		return apierr.Invalid(path+".call_id", "no call of this id comes before it")
	}
	m := provider.Message{Role: provider.RoleTool, ToolCallID: it.CallID}
	output := path + ".output"
	if it.Type == "tool_search_output" {
		m.Content = []provider.Part{{Text: string(it.Tools)}}
		r.appendResult(m)
		return r.readTools(path+".tools", "", it.Tools)
	}
	if len(it.Output) == 0 {
		return apierr.Invalid(output, "is required")
	}
	parts, err := r.content(output, it.Output)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if part.ImageURL != "" || part.File != nil {
			r.input.attachments = append(r.input.attachments, part)
			continue
		}
		m.Content = append(m.Content, part)
	}
	if len(m.Content) == 0 {
		m.Content = []provider.Part{{Text: "The result follows below."}}
	}
	r.appendResult(m)
	return nil
}

// appendResult appends a result directly behind the results before it: attachments wait.
func (r *reader) appendResult(m provider.Message) {
	r.input.turn = false
	r.chat.Chat.Messages = append(r.chat.Chat.Messages, m)
}

// thought reads the state that the gateway put into an item for the calls that follow it. A vendor's own can be read
// by that vendor only: the others do without.
func (r *reader) thought(it item) {
	if name, ok := foreign(it.EncryptedContent); ok {
		r.chat.Ignores(encryptedReasoning)
		r.chat.Bound(name)
		return
	}
	if text := it.thoughtText(); text != "" {
		r.chat.Thought("reasoning.summary", nil)
		r.input.thought += text
	}
	state, ok := open(it.EncryptedContent)
	if !ok {
		if it.EncryptedContent != "" {
			r.chat.Ignores(encryptedReasoning)
		}
		return
	}
	if r.input.state == nil {
		r.input.state = make(map[string]json.RawMessage)
	}
	for _, extra := range state {
		r.chat.State(encryptedReasoning, extra, "")
	}
	maps.Copy(r.input.state, state)
}

// thoughtText returns the reasoning text of an item that this gateway wrote; empty for a vendor's own item, whose
// summary only stands for reasoning that the vendor doesn't show.
func (it *item) thoughtText() string {
	if it.ID != "" && !strings.Contains(it.ID, vendor.OwnID) || it.EncryptedContent != "" {
		return ""
	}
	var text strings.Builder
	for _, list := range []json.RawMessage{it.Summary, it.Content} {
		gjson.ParseBytes(list).ForEach(func(_, part gjson.Result) bool {
			text.WriteString(part.Get("text").Str)
			return true
		})
	}
	return text.String()
}

// encryptedReasoning names reasoning that only its vendor can read, where another one answers.
const encryptedReasoning = "reasoning.encrypted_content"
