// Package openai implements the wire format of the OpenAI Chat Completions API for the gateway's callers. Package api
// serves it.
package openai

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Dialect implements dialect.Dialect, and writes its answers and lists of models.
type Dialect struct {
	// functions reports whether a request uses functions, the predecessor of tools, so that its answer does too.
	functions bool
}

// Name returns the dialect's name, which providers of the dialect have too.
func (Dialect) Name() string { return "openai" }

// completion is a whole answer.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      answer  `json:"message"`
	Logprobs     *string `json:"logprobs"`
	FinishReason string  `json:"finish_reason"`
}

type answer struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
	Refusal *string `json:"refusal"`
	// Annotations are the sources of Content; Images are the images that the model generated.
	Annotations []annotation `json:"annotations,omitempty"`
	Images      []picture    `json:"images,omitempty"`
	ToolCalls   []toolCall   `json:"tool_calls,omitempty"`
	// FunctionCall is the predecessor of ToolCalls.
	FunctionCall *callee `json:"function_call,omitempty"`
}

type toolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function callee `json:"function"`
	// ExtraContent is opaque state of the vendor that must come back with the call.
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type callee struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// usage counts inclusively: prompt_tokens includes cached tokens, completion_tokens includes reasoning.
type usage struct {
	PromptTokens     int64             `json:"prompt_tokens"`
	CompletionTokens int64             `json:"completion_tokens"`
	TotalTokens      int64             `json:"total_tokens"`
	Prompt           promptDetails     `json:"prompt_tokens_details"`
	Completion       completionDetails `json:"completion_tokens_details"`
}

type promptDetails struct {
	CachedTokens     int64 `json:"cached_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	AudioTokens      int64 `json:"audio_tokens"`
}

type completionDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
	AudioTokens     int64 `json:"audio_tokens"`
}

func toUsage(r ledger.Report) *usage {
	u := r.Usage
	return &usage{
		PromptTokens: r.Prompt, CompletionTokens: r.Completion, TotalTokens: r.Prompt + r.Completion,
		Prompt:     promptDetails{u.CacheRead, u.CacheWrite + u.CacheWriteLong, u.AudioInput},
		Completion: completionDetails{u.Reasoning, u.AudioOutput},
	}
}

// newID returns an id of the API's form.
func newID(prefix string) string {
	id := uuid.New()
	return fmt.Sprintf("%s-%x", prefix, id[:])
}

// Answer returns the provider's own answer with the caller's model name, or a new one.
func (d Dialect) Answer(reply dialect.Reply, c *inference.Completion) ([]byte, error) {
	if c.Native != nil {
		return dialect.NewRenamer("model", reply.Model).Append(nil, c.Native), nil
	}
	message := answer{Role: "assistant", Annotations: annotations(c.Citations), Images: pictures(c.Images, 0)}
	if c.Text != "" || len(c.ToolCalls) == 0 {
		message.Content = &c.Text
	}
	for _, call := range c.ToolCalls {
		message.ToolCalls = append(message.ToolCalls, toolCall{
			ID: call.ID, Type: typeFunction, Function: callee{call.Name, call.Arguments}, ExtraContent: call.Extra,
		})
	}
	if d.functions && len(c.ToolCalls) > 0 { // Its form has room for one.
		message.ToolCalls, message.FunctionCall = nil, &callee{c.ToolCalls[0].Name, c.ToolCalls[0].Arguments}
	}
	return jsontext.Marshal(completion{
		ID: newID("chatcmpl"), Object: "chat.completion", Created: time.Now().Unix(), Model: reply.Model,
		Choices: []choice{{Message: message, FinishReason: d.finish(c.FinishReason)}}, Usage: toUsage(c.Report),
	})
}

// finish returns a finish reason as the request's form has it.
func (d Dialect) finish(reason provider.FinishReason) string {
	if d.functions && reason == provider.FinishToolCalls {
		return "function_call"
	}
	return string(reason)
}

// modelList is the response of GET /v1/models.
type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // Not known: 0.
	OwnedBy string `json:"owned_by"`
}

// Models returns the list of models by the names that a request may use.
func (d Dialect) Models(models []provider.Target) any {
	list := modelList{Object: "list", Data: []model{}}
	for _, m := range models {
		list.Data = append(list.Data, toModel(m))
	}
	return list
}

// Model returns one entry of the list.
func (Dialect) Model(m provider.Target) any { return toModel(m) }

func toModel(m provider.Target) model {
	return model{ID: m.Model, Object: "model", OwnedBy: m.Provider}
}

const typeFunction = "function"
