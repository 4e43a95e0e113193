package openai

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

// completion is a whole answer, or one chunk of a stream.
type completion struct {
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
	// Error may be an object or a text; null and absent are none.
	Error any `json:"error"`
	// Object is "error" in the flat error form of vLLM.
	Object string `json:"object"`
}

// decode reads an answer or a chunk; either may turn out to be an error.
func decode(caller *wire.Caller, status int, body []byte) (*completion, error) {
	var c completion
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, wire.Malformed("the answer is not the JSON expected", err)
	}
	if c.Error != nil || c.Object == "error" {
		return nil, caller.Refused(status, body)
	}
	return &c, nil
}

type choice struct {
	Message      delta  `json:"message"`
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content   content    `json:"content"`
	Refusal   string     `json:"refusal"`
	ToolCalls []toolCall `json:"tool_calls"`
}

// content is a string or, from Mistral's reasoning models, a list of parts, of
// which only text is kept.
type content string

// UnmarshalJSON reads both forms.
func (c *content) UnmarshalJSON(raw []byte) error {
	if raw[0] != '[' {
		return json.Unmarshal(raw, (*string)(c))
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		*c += content(part.Text)
	}
	return nil
}

// usage counts inclusively: prompt_tokens holds the cached ones,
// completion_tokens the reasoning.
type usage struct {
	PromptTokens        *int64 `json:"prompt_tokens"`
	CompletionTokens    *int64 `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// disjoint splits the totals into buckets; without a total there is no usage.
// Details beyond their total would make a bucket negative; the total is what
// the vendor bills, so they are cut.
func (u *usage) disjoint() *provider.Usage {
	if u == nil || (u.PromptTokens == nil && u.CompletionTokens == nil) {
		return nil
	}
	prompt, completion := count(u.PromptTokens), count(u.CompletionTokens)
	read := max(0, min(u.PromptTokensDetails.CachedTokens, prompt))
	written := max(0, min(u.PromptTokensDetails.CacheWriteTokens, prompt-read))
	reasoning := max(0, min(u.CompletionTokensDetails.ReasoningTokens, completion))
	return &provider.Usage{
		Input: prompt - read - written, CacheRead: read, CacheWrite: written,
		Output: completion - reasoning, Reasoning: reasoning,
	}
}

func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return max(0, *n)
}

func (c *completion) answer() (*provider.Answer, error) {
	if len(c.Choices) == 0 {
		return nil, wire.Malformed("the answer holds no choice", nil)
	}
	first := c.Choices[0]
	return &provider.Answer{
		Text: first.Message.text(), ToolCalls: first.Message.calls(),
		FinishReason: finishReason(first.FinishReason), Usage: c.Usage.disjoint(), Model: c.Model,
	}, nil
}

func (d delta) text() string {
	if d.Content != "" {
		return string(d.Content)
	}
	return d.Refusal
}

func (d delta) calls() []provider.ToolCall {
	var calls []provider.ToolCall
	for i, call := range d.ToolCalls {
		calls = append(calls, call.at(i))
	}
	return calls
}

func (c toolCall) at(index int) provider.ToolCall {
	return provider.ToolCall{
		Index: index, ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments, Extra: c.ExtraContent,
	}
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
