package openai

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

// completion is a whole answer, or one chunk of a stream.
type completion struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	// Object is "error" in the flat error form of vLLM.
	Object  string `json:"object"`
	Message string `json:"message"`
}

type choice struct {
	Message      delta  `json:"message"`
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	ToolCalls []toolCall `json:"tool_calls"`
}

// usage counts inclusively: prompt_tokens holds the cached ones,
// completion_tokens the reasoning.
type usage struct {
	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// disjoint splits the totals into buckets. Details beyond their total would
// make a bucket negative; the total is what the vendor bills, so they are cut.
func (u usage) disjoint() *provider.Usage {
	read := min(u.PromptTokensDetails.CachedTokens, u.PromptTokens)
	written := min(u.PromptTokensDetails.CacheWriteTokens, u.PromptTokens-read)
	reasoning := min(u.CompletionTokensDetails.ReasoningTokens, u.CompletionTokens)
	return &provider.Usage{
		Input: u.PromptTokens - read - written, CacheRead: read, CacheWrite: written,
		Output: u.CompletionTokens - reasoning, Reasoning: reasoning,
	}
}

// document is the error document of an answer that turned out to be one.
func (c completion) document() []byte {
	return append(append([]byte(`{"error":`), c.Error...), '}')
}

func (c completion) answer() (*provider.Answer, error) {
	if len(c.Choices) == 0 {
		return nil, wire.Malformed("the answer holds no choice", nil)
	}
	first := c.Choices[0]
	answer := &provider.Answer{
		Text: first.Message.text(), ToolCalls: first.Message.calls(),
		FinishReason: finishReason(first.FinishReason), Model: c.Model,
	}
	if c.Usage != nil {
		answer.Usage = c.Usage.disjoint()
	}
	return answer, nil
}

func (d delta) text() string {
	switch {
	case d.Content != nil && *d.Content != "":
		return *d.Content
	case d.Refusal != nil:
		return *d.Refusal
	}
	return ""
}

func (d delta) calls() []provider.ToolCall {
	var calls []provider.ToolCall
	for i, call := range d.ToolCalls {
		index := i
		if call.Index != nil {
			index = *call.Index
		}
		calls = append(calls, provider.ToolCall{
			Index: index, ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments, Extra: call.ExtraContent,
		})
	}
	return calls
}

// finishReason maps the vendor's words; compatible servers add some of their own.
func finishReason(reason string) provider.FinishReason {
	switch reason {
	case "":
		return ""
	case "length", "model_length", "max_tokens":
		return provider.FinishLength
	case "tool_calls", "function_call":
		return provider.FinishToolCalls
	case "content_filter", "safety":
		return provider.FinishContentFilter
	}
	return provider.FinishStop
}
