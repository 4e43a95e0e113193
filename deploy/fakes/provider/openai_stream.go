package provider

import (
	"encoding/json"
)

// chatDelta is what a chunk adds. Content is raw JSON, because it may be absent, null (before tool
// calls), or text.
type chatDelta struct {
	Role      string          `json:"role,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	Reasoning string          `json:"reasoning_content,omitempty"`
	Refusal   json.RawMessage `json:"refusal,omitempty"`
	ToolCalls []chatToolCall  `json:"tool_calls,omitempty"`
}

var null = json.RawMessage("null")

// streamChat sends an answer in chunks: the role, a chunk for each word, tool calls with their arguments in pieces,
// the finish reason, with includeUsage the token counts, and [DONE].
func streamChat(out events, base chatCompletion, answer reply, calls []chatToolCall, includeUsage bool) {
	base.Object = "chat.completion.chunk"
	if includeUsage {
		base.Usage = null
	}
	for _, delta := range chatDeltas(answer, calls) {
		base.Choices = []chatChoice{{Delta: &delta}}
		if !out.send("", encode(base)) {
			return
		}
	}
	base.Choices = []chatChoice{{Delta: &chatDelta{}, FinishReason: &answer.finish}}
	if !out.send("", encode(base)) {
		return
	}
	if includeUsage && answer.usage != nil {
		base.Choices, base.Usage = []chatChoice{}, openAIUsage(*answer.usage)
		if !out.send("", encode(base)) {
			return
		}
	}
	out.send("", []byte("[DONE]"))
}

func chatDeltas(answer reply, calls []chatToolCall) []chatDelta {
	first := chatDelta{Role: "assistant", Content: json.RawMessage(`""`), Refusal: null}
	if answer.text == "" && len(calls) > 0 {
		first.Content = null
	}
	deltas := []chatDelta{first}
	for _, word := range words(answer.thinking) {
		deltas = append(deltas, chatDelta{Reasoning: word})
	}
	for _, word := range words(answer.text) {
		deltas = append(deltas, chatDelta{Content: encode(word)})
	}
	for i, call := range calls {
		opening := call
		opening.Index, opening.Function.Arguments = &i, ""
		deltas = append(deltas, chatDelta{ToolCalls: []chatToolCall{opening}})
		for _, piece := range words(call.Function.Arguments) {
			deltas = append(deltas, chatDelta{ToolCalls: []chatToolCall{{Index: &i, Function: chatFunction{Arguments: piece}}}})
		}
	}
	return deltas
}
