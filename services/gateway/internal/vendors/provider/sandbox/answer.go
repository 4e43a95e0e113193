package sandbox

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// bytesPerToken is the usual estimate, which provider.Estimate uses, too.
const bytesPerToken = 4

// answer is a pure function of the request. It returns an error for an image that is not in the request.
func answer(chat *provider.Chat) (*provider.Answer, error) {
	descriptions, err := describeImages(chat)
	if err != nil {
		return nil, err
	}
	a := &provider.Answer{FinishReason: provider.FinishStop, Model: chat.Model}
	if a.ToolCalls = calls(chat); len(a.ToolCalls) > 0 {
		a.FinishReason = provider.FinishToolCalls
	} else {
		a.Text, a.FinishReason = limit(reply(chat, descriptions), chat)
	}
	size := len(a.Text)
	for _, call := range a.ToolCalls {
		size += len(call.Name) + len(call.Arguments)
	}
	a.Usage = new(provider.Estimate(promptSize(chat), size))
	if chat.Model == modelReasoning {
		a.Reasoning = "The question has " + strconv.Itoa(len(lastText(chat, provider.RoleUser))) + " bytes. I repeat it."
		a.Usage.Reasoning = provider.Estimate(0, len(a.Reasoning)).Output
	}
	return a, nil
}

func promptSize(chat *provider.Chat) int {
	var size int
	for _, m := range chat.Messages {
		for _, part := range m.Content {
			size += len(part.Text)
		}
		for _, call := range m.ToolCalls {
			size += len(call.Name) + len(call.Arguments)
		}
	}
	for _, t := range chat.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return size
}

// reply repeats the last user text, or the tool's result after it, and describes its images.
func reply(chat *provider.Chat, descriptions []string) string {
	text := lastText(chat, provider.RoleUser, provider.RoleTool)
	if len(descriptions) > 0 {
		text = strings.TrimSpace(text + " [" + strings.Join(descriptions, "; ") + "]")
	}
	var format struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if len(chat.ResponseFormat) > 0 && json.Unmarshal(chat.ResponseFormat, &format) == nil {
		switch format.Type {
		case "json_object":
			object, _ := json.Marshal(map[string]string{"sandbox": text}) // texts never fail
			return string(object)
		case "json_schema":
			return instance(format.JSONSchema.Schema)
		}
	}
	return "sandbox: " + text
}

func lastText(chat *provider.Chat, roles ...provider.Role) string {
	for _, m := range slices.Backward(chat.Messages) {
		if slices.Contains(roles, m.Role) {
			return m.Text()
		}
	}
	return ""
}

// limit cuts text at the first stop sequence and at the limit of tokens.
func limit(text string, chat *provider.Chat) (string, provider.FinishReason) {
	for _, stop := range chat.Stop {
		if stop != "" {
			text, _, _ = strings.Cut(text, stop)
		}
	}
	end := chat.MaxTokens * bytesPerToken
	if end <= 0 || end >= len(text) {
		return text, provider.FinishStop
	}
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], provider.FinishLength
}

// calls returns a call of every tool that the last user text names, in the order of the tools. If none is named and the
// choice requires a call, the first tool is called. A conversation that ends with a tool's result gets no further call.
func calls(chat *provider.Chat) []provider.ToolCall {
	choice := provider.ToolChoice{Mode: "auto"}
	if chat.ToolChoice != nil {
		choice = *chat.ToolChoice
	}
	last := len(chat.Messages) - 1
	answered := last >= 0 && chat.Messages[last].Role == provider.RoleTool
	if len(chat.Tools) == 0 || choice.Mode == "none" || (choice.Mode == "auto" && answered) {
		return nil
	}
	var wanted []provider.Tool
	text := lastText(chat, provider.RoleUser)
	for _, tool := range chat.Tools {
		if choice.Mode == "tool" && tool.Name == choice.Name || choice.Mode != "tool" && strings.Contains(text, tool.Name) {
			wanted = append(wanted, tool)
		}
	}
	if len(wanted) == 0 && choice.Mode == "required" {
		wanted = chat.Tools[:1]
	}
	if chat.ParallelTools != nil && !*chat.ParallelTools && len(wanted) > 1 {
		wanted = wanted[:1]
	}
	var made int
	for _, m := range chat.Messages {
		made += len(m.ToolCalls)
	}
	var calls []provider.ToolCall
	for i, tool := range wanted {
		calls = append(calls, provider.ToolCall{
			Index: i, ID: "call_" + strconv.Itoa(made+i), Name: tool.Name, Arguments: instance(tool.Parameters),
		})
	}
	return calls
}
