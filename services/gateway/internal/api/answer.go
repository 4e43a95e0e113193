package api

import (
	"encoding/json"
	"math"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// The JSON face writes these types instead of the contract's messages: the same names in the specification's order, at
// a fraction of the cost. conformance_test.go checks that both are equal.
type answer struct {
	Content string `json:"content"`
	// ToolCalls is null if there is none.
	ToolCalls    []toolCall  `json:"tool_calls"`
	Usage        usage       `json:"usage"`
	FinishReason string      `json:"finish_reason"`
	Model        string      `json:"model"`
	RequestID    string      `json:"request_id"`
	Citations    []citation  `json:"citations,omitempty"`
	Images       []chatImage `json:"images,omitempty"`
}

type citation struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	Quote string `json:"quote"`
	Start int32  `json:"start"`
	End   int32  `json:"end"`
}

type chatImage struct {
	URL string `json:"url"`
}

type usage struct {
	PromptTokens      int32   `json:"prompt_tokens"`
	CompletionTokens  int32   `json:"completion_tokens"`
	ProviderUsed      string  `json:"provider_used"`
	CostCents         float64 `json:"cost_cents"`
	Estimated         bool    `json:"estimated"`
	RequestedProvider string  `json:"requested_provider,omitempty"`
	RequestedGoal     *string `json:"requested_goal"`
	Substituted       bool    `json:"substituted"`
	CacheHit          bool    `json:"cache_hit"`
	ModelUsed         string  `json:"model_used"`
}

type toolCall struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Function     function        `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// The parts of a stream.
type contentDelta struct {
	Content string `json:"content"`
}

type citationsDelta struct {
	Citations []citation `json:"citations"`
}

type imagesDelta struct {
	Images []chatImage `json:"images"`
}

type callsDelta struct {
	ToolCalls []callDelta `json:"tool_calls"`
}

type callDelta struct {
	Index        int             `json:"index"`
	ID           string          `json:"id,omitempty"`
	Type         string          `json:"type,omitempty"`
	Function     functionDelta   `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type functionDelta struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type lastChunk struct {
	FinishReason string `json:"finish_reason"`
	Usage        usage  `json:"usage"`
	Model        string `json:"model"`
	RequestID    string `json:"request_id"`
}

const typeFunction = "function"

// answerJSON returns a whole chat answer as JSON.
func answerJSON(c *inference.Completion, requestID string) (json.RawMessage, error) {
	a := answer{
		Content: c.Text, Usage: toUsage(c.Report), FinishReason: string(c.FinishReason),
		Model: c.Report.Model, RequestID: requestID,
		Citations: toCitations(c.Citations), Images: toImages(c.Images),
	}
	if len(c.ToolCalls) > 0 {
		a.ToolCalls = toCalls(c.ToolCalls)
	}
	return jsontext.Marshal(&a)
}

func toCitations(found []provider.Citation) (out []citation) {
	for _, c := range found {
		out = append(out, citation{c.URL, c.Title, c.Quote, clamp(int64(c.Start)), clamp(int64(c.End))})
	}
	return out
}

func toImages(urls []string) (out []chatImage) {
	for _, url := range urls {
		out = append(out, chatImage{url})
	}
	return out
}

func toCalls(calls []provider.ToolCall) []toolCall {
	out := make([]toolCall, len(calls))
	for i, call := range calls {
		out[i] = toolCall{
			ID: call.ID, Type: typeFunction, Function: function{call.Name, call.Arguments}, ExtraContent: call.Extra,
		}
	}
	return out
}

func toUsage(r ledger.Report) usage {
	return usage{
		PromptTokens: clamp(r.Prompt), CompletionTokens: clamp(r.Completion),
		ProviderUsed: r.Provider, CostCents: r.Cost.Cents(), Estimated: r.Estimated,
		RequestedProvider: r.RequestedProvider, RequestedGoal: optional(r.RequestedGoal),
		Substituted: r.Substituted, CacheHit: r.CacheHit, ModelUsed: r.Model,
	}
}

// clamp limits a vendor's count to the contract's width.
func clamp(n int64) int32 { return int32(min(n, math.MaxInt32)) }

func toCallDeltas(calls []provider.ToolCall) []callDelta {
	deltas := make([]callDelta, len(calls))
	for i, call := range calls {
		deltas[i] = callDelta{
			Index: call.Index, ID: call.ID, Function: functionDelta{call.Name, call.Arguments}, ExtraContent: call.Extra,
		}
		if call.ID != "" {
			deltas[i].Type = typeFunction
		}
	}
	return deltas
}

func toProto(c *inference.Completion, requestID string) *gatewayv1.LlmResponse {
	out := &gatewayv1.LlmResponse{
		Content: c.Text, Usage: toUsageProto(c.Report), FinishReason: string(c.FinishReason),
		Model: c.Report.Model, RequestId: requestID,
	}
	out.Citations, out.Images = toCitationsProto(c.Citations), toImagesProto(c.Images)
	for _, call := range c.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, &gatewayv1.ToolCall{
			Id: call.ID, Type: typeFunction, ExtraContent: call.Extra,
			Function: &gatewayv1.FunctionCall{Name: call.Name, Arguments: call.Arguments},
		})
	}
	return out
}

func toCitationsProto(found []provider.Citation) (out []*gatewayv1.Citation) {
	for _, c := range toCitations(found) {
		out = append(out, &gatewayv1.Citation{Url: c.URL, Title: c.Title, Quote: c.Quote, Start: c.Start, End: c.End})
	}
	return out
}

func toImagesProto(urls []string) (out []*gatewayv1.AnswerImage) {
	for _, url := range urls {
		out = append(out, &gatewayv1.AnswerImage{Url: url})
	}
	return out
}

func toUsageProto(r ledger.Report) *gatewayv1.Usage {
	u := toUsage(r)
	return &gatewayv1.Usage{
		PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens, ProviderUsed: u.ProviderUsed,
		CostCents: u.CostCents, Estimated: u.Estimated, RequestedProvider: optional(u.RequestedProvider),
		RequestedGoal: u.RequestedGoal, Substituted: u.Substituted, CacheHit: u.CacheHit, ModelUsed: u.ModelUsed,
	}
}

func toChunk(event provider.Event) *gatewayv1.LlmChunk {
	chunk := &gatewayv1.LlmChunk{
		Content: optional(event.Text), Citations: toCitationsProto(event.Citations), Images: toImagesProto(event.Images),
	}
	for _, d := range toCallDeltas(event.ToolCalls) {
		chunk.ToolCalls = append(chunk.ToolCalls, &gatewayv1.ToolCallDelta{
			Index: int32(d.Index), Id: optional(d.ID), Type: optional(d.Type), ExtraContent: d.ExtraContent,
			Function: &gatewayv1.FunctionCallDelta{Name: optional(d.Function.Name), Arguments: new(d.Function.Arguments)},
		})
	}
	return chunk
}

func toLastChunk(s *inference.Stream, requestID string) *gatewayv1.LlmChunk {
	report := s.Report()
	return &gatewayv1.LlmChunk{
		FinishReason: new(string(s.FinishReason())), Usage: toUsageProto(report),
		Model: new(report.Model), RequestId: new(requestID),
	}
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
