package anthropic

import (
	"context"
	"encoding/json"
	"net/http"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

// noArguments are the arguments of a call that has none.
const noArguments = "{}"

type answer struct {
	Type       string  `json:"type"`
	Model      string  `json:"model"`
	Content    []block `json:"content"`
	StopReason string  `json:"stop_reason"`
	Usage      *usage  `json:"usage"`
}

// read reads a whole answer, which may turn out to be an error.
func read(ctx context.Context, caller *wire.Caller, response *http.Response) (*answer, error) {
	body, err := wire.Read(ctx, response)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, wire.Malformed("the answer is not the JSON expected", err)
	}
	if a.Type == "error" {
		return nil, caller.Refused(response.StatusCode, body)
	}
	return &a, nil
}

// usage counts disjointly already: input_tokens leaves out what the cache served
// or took in. Fields are pointers because the events of a stream carry some of
// them each, and an absent count is not zero.
type usage struct {
	InputTokens              *int64 `json:"input_tokens"`
	CacheCreationInputTokens *int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     *int64 `json:"cache_read_input_tokens"`
	OutputTokens             *int64 `json:"output_tokens"`
}

// update lets the counts of a later event replace earlier ones: they are cumulative.
func (u *usage) update(later *usage) {
	if later == nil {
		return
	}
	for _, pair := range []struct{ into, from **int64 }{
		{&u.InputTokens, &later.InputTokens},
		{&u.OutputTokens, &later.OutputTokens},
		{&u.CacheReadInputTokens, &later.CacheReadInputTokens},
		{&u.CacheCreationInputTokens, &later.CacheCreationInputTokens},
	} {
		if *pair.from != nil {
			*pair.into = *pair.from
		}
	}
}

func (u *usage) disjoint() *provider.Usage {
	if u == nil || (u.InputTokens == nil && u.OutputTokens == nil) {
		return nil
	}
	count := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return max(0, *n)
	}
	return &provider.Usage{
		Input: count(u.InputTokens), CacheRead: count(u.CacheReadInputTokens),
		CacheWrite: count(u.CacheCreationInputTokens), Output: count(u.OutputTokens),
	}
}

func (a *answer) decode() (*provider.Answer, error) {
	if a.Content == nil {
		return nil, wire.Malformed("the answer holds no content", nil)
	}
	out := &provider.Answer{FinishReason: finishReason(a.StopReason), Usage: a.Usage.disjoint(), Model: a.Model}
	for _, b := range a.Content {
		switch b.Type {
		case "text":
			out.Text += b.Text
		case "tool_use":
			out.ToolCalls = append(out.ToolCalls, provider.ToolCall{
				Index: len(out.ToolCalls), ID: b.ID, Name: b.Name, Arguments: b.arguments(),
			})
		}
	}
	return out, nil
}

// arguments of a tool_use block; a tool without parameters is called with none.
func (b block) arguments() string {
	if len(b.Input) == 0 {
		return noArguments
	}
	return string(b.Input)
}

func finishReason(stop string) provider.FinishReason {
	switch stop {
	case "":
		return ""
	case "max_tokens", "model_context_window_exceeded":
		return provider.FinishLength
	case "tool_use":
		return provider.FinishToolCalls
	case "refusal":
		return provider.FinishContentFilter
	}
	return provider.FinishStop
}
