// Package responses implements the wire format of the OpenAI Responses API for the gateway's callers. Package api
// serves it.
package responses

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// Dialect implements dialect.Dialect.
type Dialect struct{}

// Name returns the dialect's name, which is that of the form for providers that take it as it comes.
func (Dialect) Name() string { return vendor.ResponsesName }

// Chat parses a request.
func (Dialect) Chat(body []byte, header http.Header) (*dialect.Chat, error) {
	chat, _, err := Read(body, header, nil)
	return chat, err
}

// The types of items.
const (
	typeMessage        = "message"
	typeReasoning      = "reasoning"
	typeFunctionCall   = "function_call"
	typeCustomCall     = "custom_tool_call"
	typeToolSearchCall = "tool_search_call"
)

// The states of a response and of an item.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// Exchange is one request with what its answer says of it. It implements dialect.Writer.
type Exchange struct {
	// ID of the response, which is in each of its lifecycle events.
	ID string
	// Body is the request with the whole input: with the conversation that it continues, and the items that it names.
	Body []byte

	// keep stores the response, and reports whether it did. Nil stores nothing.
	keep func(response json.RawMessage) bool
	// remember gets the response as it is sent, before it is sent; nil for none.
	remember func(response json.RawMessage)
	created  time.Time
	// echo is repeated in the answer. own are the items of the request itself.
	echo  echo
	own   []json.RawMessage
	tools toolbox
}

// Joined returns the items of turns, and then those of input, as one input: a JSON array.
func Joined(turns []Record, input json.RawMessage) json.RawMessage {
	return joined(append(itemsOf(turns), itemsOf([]Record{{Input: input}})...))
}

// Previous returns the id of the response that the request continues; empty for none.
func (x *Exchange) Previous() string {
	if x.echo.PreviousResponseID == nil {
		return ""
	}
	return *x.echo.PreviousResponseID
}

// Stores reports whether the caller wants the response to be stored.
func (x *Exchange) Stores() bool { return x.echo.Store }

// CreatedAt returns when the request was read.
func (x *Exchange) CreatedAt() time.Time { return x.created }

// SetKeep sets the function that stores the response; nil for a response that is not stored, which the answer says.
func (x *Exchange) SetKeep(keep func(response json.RawMessage) bool) {
	x.keep = keep
	x.echo.Store = keep != nil
}

// kept stores a response that has come to its end, and returns it as it is sent: it says whether it was stored.
func (x *Exchange) kept(encode func() (json.RawMessage, error)) (json.RawMessage, error) {
	text, err := encode()
	if err == nil && x.keep != nil && !x.keep(text) {
		x.echo.Store = false
		text, err = encode()
	}
	if err == nil && x.remember != nil {
		x.remember(text)
	}
	return text, err
}

// SetRemember sets a function that gets the response before its last event is sent, whether it is stored or not. It must
// not keep the bytes.
func (x *Exchange) SetRemember(remember func(response json.RawMessage)) { x.remember = remember }

// echo holds the settings of a request as its answer repeats them. Its order is that of the vendor's reference.
type echo struct {
	Background         bool            `json:"background"`
	Instructions       json.RawMessage `json:"instructions"`
	MaxOutputTokens    json.RawMessage `json:"max_output_tokens"`
	MaxToolCalls       json.RawMessage `json:"max_tool_calls"`
	Metadata           json.RawMessage `json:"metadata"`
	ParallelToolCalls  bool            `json:"parallel_tool_calls"`
	PreviousResponseID *string         `json:"previous_response_id"`
	PromptCacheKey     json.RawMessage `json:"prompt_cache_key,omitempty"`
	Reasoning          json.RawMessage `json:"reasoning"`
	SafetyIdentifier   json.RawMessage `json:"safety_identifier,omitempty"`
	ServiceTier        json.RawMessage `json:"service_tier,omitempty"`
	Store              bool            `json:"store"`
	Temperature        json.RawMessage `json:"temperature"`
	Text               json.RawMessage `json:"text"`
	ToolChoice         json.RawMessage `json:"tool_choice"`
	Tools              json.RawMessage `json:"tools"`
	TopLogprobs        json.RawMessage `json:"top_logprobs,omitempty"`
	TopP               json.RawMessage `json:"top_p"`
	Truncation         json.RawMessage `json:"truncation"`
	User               json.RawMessage `json:"user,omitempty"`
}

// response is the object that a whole answer and the lifecycle events hold.
type response struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"`
	CreatedAt         int64             `json:"created_at"`
	CompletedAt       *int64            `json:"completed_at,omitempty"`
	Status            string            `json:"status"`
	Error             *failure          `json:"error"`
	IncompleteDetails *incomplete       `json:"incomplete_details"`
	Model             string            `json:"model"`
	Output            []json.RawMessage `json:"output"`
	Usage             *usage            `json:"usage"`
	echo
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

// usage counts inclusively: input_tokens includes cached tokens, output_tokens includes reasoning.
type usage struct {
	InputTokens  int64         `json:"input_tokens"`
	Input        inputDetails  `json:"input_tokens_details"`
	OutputTokens int64         `json:"output_tokens"`
	Output       outputDetails `json:"output_tokens_details"`
	TotalTokens  int64         `json:"total_tokens"`
}

type inputDetails struct {
	CachedTokens     int64 `json:"cached_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
}

type outputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

func toUsage(r ledger.Report) *usage {
	u := r.Usage
	return &usage{
		InputTokens: r.Prompt, OutputTokens: r.Completion, TotalTokens: r.Prompt + r.Completion,
		Input:  inputDetails{u.CacheRead, u.CacheWrite + u.CacheWriteLong},
		Output: outputDetails{u.Reasoning},
	}
}

// newID returns an id of the API's form, with the mark by which it can be told from a vendor's.
func newID(prefix string) string {
	const digits = "0123456789abcdef"
	id := uuid.New()
	out := make([]byte, 0, len(prefix)+len(vendor.OwnID)+2*len(id))
	out = append(append(out, prefix...), vendor.OwnID...)
	for _, b := range id {
		out = append(out, digits[b>>4], digits[b&15])
	}
	return string(out)
}

// object returns the response in a state, without output and usage.
func (x *Exchange) object(model, status string) *response {
	return &response{
		ID: x.ID, Object: "response", CreatedAt: x.created.Unix(), Status: status, Model: model,
		Output: []json.RawMessage{}, echo: x.echo,
	}
}

// finish sets the state of an answer that has come to its end.
func (r *response) finish(finish provider.FinishReason, report ledger.Report, now time.Time) {
	r.Status, r.Usage, r.CompletedAt = statusCompleted, toUsage(report), new(now.Unix())
	switch finish {
	case provider.FinishLength:
		r.incomplete("max_output_tokens")
	case provider.FinishContentFilter:
		r.incomplete("content_filter")
	case provider.FinishStop, provider.FinishToolCalls:
	}
}

func (r *response) incomplete(reason string) {
	r.Status, r.IncompleteDetails, r.CompletedAt = statusIncomplete, &incomplete{reason}, nil
}
