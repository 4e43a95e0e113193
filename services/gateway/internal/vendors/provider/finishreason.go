package provider

// FinishReason is why the model stopped.
type FinishReason string

// The finish reasons of the contract.
const (
	FinishStop          FinishReason = "stop"
	FinishLength        FinishReason = "length"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishContentFilter FinishReason = "content_filter"
)

// WithCalls returns the finish reason of an answer with or without tool calls: FinishToolCalls and FinishStop replace
// each other, because vendors report either one wrongly. OpenAI reports that an answer just stopped if the request
// required the call. Other vendors report calls if the model called only a tool that the vendor runs, or none.
func (f FinishReason) WithCalls(calls bool) FinishReason {
	switch {
	case calls && f == FinishStop:
		return FinishToolCalls
	case !calls && f == FinishToolCalls:
		return FinishStop
	}
	return f
}
