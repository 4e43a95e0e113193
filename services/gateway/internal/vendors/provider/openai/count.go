package openai

import (
	"context"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// inputTokens is the path of the count. Source: OpenAI API reference, "Get input token counts".
const inputTokens = responses + "/input_tokens"

// counted are the members of a request that the count takes.
var counted = []string{
	"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation",
}

// CountTokens implements provider.TokenCounter for the caller's own body of the Responses API.
func (p *Provider) CountTokens(ctx context.Context, credential provider.Credential, chat *provider.Chat) (int64, error) {
	if !p.isResponses(chat) {
		return 0, provider.Unsupported("input", "is not in the form of the Responses API")
	}
	body, err := p.relayResponses(chat, p.placeOf(credential), false)
	if err != nil {
		return 0, err
	}
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, inputTokens, chat.Model, header(chat.Native), only(body, counted)) //nolint:bodyclose // wire.Read closes it.
	if err != nil {
		return 0, err
	}
	text, err := wire.Read(ctx, response)
	if err != nil {
		return 0, err
	}
	var tokens gjson.Result
	err = parse(caller, response.StatusCode, text, func(name string, value gjson.Result) {
		if name == "input_tokens" {
			first(&tokens, value)
		}
	})
	if err != nil {
		return 0, err
	}
	n, ok := wire.Tokens(tokens)
	if !ok {
		return 0, wire.Malformed("the answer holds no count", nil)
	}
	return n, nil
}
