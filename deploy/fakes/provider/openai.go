package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"switchyard.dev/deploy/fakes/fault"
)

// chatRequest holds the fields that the fake reads from a chat completion request; the rest is ignored.
type chatRequest struct {
	Model               string        `json:"model"`
	Messages            []chatMessage `json:"messages"`
	Stream              bool          `json:"stream"`
	StreamOptions       streamOptions `json:"stream_options"`
	MaxTokens           int           `json:"max_tokens"`
	MaxCompletionTokens int           `json:"max_completion_tokens"`
	Tools               []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// chatCompletion is both a whole answer and one chunk of a stream.
type chatCompletion struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	Usage             any          `json:"usage,omitempty"`
	ServiceTier       string       `json:"service_tier"`
	SystemFingerprint string       `json:"system_fingerprint"`
}

type chatChoice struct {
	Index        int         `json:"index"`
	Message      *chatAnswer `json:"message,omitempty"`
	Delta        *chatDelta  `json:"delta,omitempty"`
	Logprobs     *struct{}   `json:"logprobs"`
	FinishReason *string     `json:"finish_reason"`
}

type chatAnswer struct {
	Role        string         `json:"role"`
	Content     *string        `json:"content"`
	Reasoning   string         `json:"reasoning_content,omitempty"` // as many compatible servers show it
	Refusal     *string        `json:"refusal"`
	Annotations []struct{}     `json:"annotations"`
	ToolCalls   []chatToolCall `json:"tool_calls,omitempty"`
}

type chatToolCall struct {
	Index    *int         `json:"index,omitempty"` // in streams only
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatUsage struct {
	PromptTokens            int                    `json:"prompt_tokens"`
	CompletionTokens        int                    `json:"completion_tokens"`
	TotalTokens             int                    `json:"total_tokens"`
	PromptTokensDetails     promptTokensDetails    `json:"prompt_tokens_details"`
	CompletionTokensDetails completionTokensDetail `json:"completion_tokens_details"`
}

type promptTokensDetails struct {
	CachedTokens int `json:"cached_tokens"`
	AudioTokens  int `json:"audio_tokens"`
}

type completionTokensDetail struct {
	ReasoningTokens          int `json:"reasoning_tokens"`
	AudioTokens              int `json:"audio_tokens"`
	AcceptedPredictionTokens int `json:"accepted_prediction_tokens"`
	RejectedPredictionTokens int `json:"rejected_prediction_tokens"`
}

// chat answers POST /v1/chat/completions.
func chat(w http.ResponseWriter, r *http.Request, body []byte) {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		fail(w, r, http.StatusBadRequest, "We could not parse the JSON body of your request: "+err.Error())
		return
	}
	p, err := req.prompt()
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answer := respond(p, scripted(fault.FromContext(r.Context())))
	base := chatCompletion{
		ID:                id("chatcmpl-", 29, body, "chat"),
		Object:            "chat.completion",
		Created:           created,
		Model:             req.Model,
		ServiceTier:       "default",
		SystemFingerprint: fingerprint(req.Model),
	}
	calls := chatToolCalls(answer.calls, body)
	if req.Stream {
		streamChat(startEvents(w), base, answer, calls, req.StreamOptions.IncludeUsage)
		return
	}
	message := &chatAnswer{Role: "assistant", Reasoning: answer.thinking, Annotations: []struct{}{}, ToolCalls: calls}
	if answer.text != "" || len(calls) == 0 {
		message.Content = &answer.text
	}
	base.Choices = []chatChoice{{Message: message, FinishReason: &answer.finish}}
	if answer.usage != nil {
		base.Usage = openAIUsage(*answer.usage)
	}
	writeJSON(w, http.StatusOK, base)
}

func (req chatRequest) prompt() (prompt, error) {
	if req.Model == "" {
		return prompt{}, errors.New("you must provide a model parameter")
	}
	if len(req.Messages) == 0 {
		return prompt{}, errors.New("[] is too short - 'messages'")
	}
	p := prompt{maxTokens: max(req.MaxTokens, req.MaxCompletionTokens)}
	for _, m := range req.Messages {
		c, err := readContent(m.Content)
		if err != nil {
			return prompt{}, err
		}
		p.texts = append(p.texts, c.text)
		p.images += c.images
		switch m.Role {
		case "user":
			p.lastUser, p.toolResult = c.text, nil
		case "tool":
			p.toolResult = joinResult(p.toolResult, c.text)
			p.results++
		case "system", "developer", "assistant":
			p.toolResult = nil
		default:
			return prompt{}, errors.New("invalid value: '" + m.Role + "'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'")
		}
	}
	for _, t := range req.Tools {
		p.tools = append(p.tools, tool{name: t.Function.Name, schema: t.Function.Parameters})
	}
	p.force, p.forceName = readToolChoice(req.ToolChoice)
	return p, nil
}

// readToolChoice reads "none", "auto", "required" or a named function, in the form of either API.
func readToolChoice(raw json.RawMessage) (force, name string) {
	var word string
	if err := json.Unmarshal(raw, &word); err == nil {
		if word == "required" {
			return "any", ""
		}
		return word, ""
	}
	var named struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &named); err == nil {
		return "", cmp.Or(named.Name, named.Function.Name)
	}
	return "", ""
}

func chatToolCalls(calls []ToolCall, request []byte) []chatToolCall {
	var out []chatToolCall
	for i, c := range calls {
		out = append(out, chatToolCall{
			ID:       id("call_", 24, request, "tool"+strconv.Itoa(i)),
			Type:     "function",
			Function: chatFunction{Name: c.Name, Arguments: string(c.Arguments)},
		})
	}
	return out
}

// openAIUsage counts cached tokens as part of the prompt, as OpenAI does.
func openAIUsage(u Usage) *chatUsage {
	in := u.Input + u.CacheRead + u.CacheWrite
	return &chatUsage{
		PromptTokens:            in,
		CompletionTokens:        u.Output,
		TotalTokens:             in + u.Output,
		PromptTokensDetails:     promptTokensDetails{CachedTokens: u.CacheRead},
		CompletionTokensDetails: completionTokensDetail{ReasoningTokens: u.Reasoning},
	}
}
