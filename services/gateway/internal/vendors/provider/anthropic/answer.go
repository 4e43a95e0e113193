package anthropic

import (
	"context"
	"net/http"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// noArguments are the arguments of a call without any.
const noArguments = "{}"

// ReadAnswer reads a whole message, and closes the response. If native is true, the answer has the message as it was
// received, too.
func ReadAnswer(ctx context.Context, caller *wire.Caller, response *http.Response, native bool) (*provider.Answer, error) {
	text, root, err := read(ctx, caller, response)
	if err != nil {
		return nil, err
	}
	answer, err := decode(root)
	if err != nil {
		return nil, err
	}
	answer.Limits = caller.Limits(response)
	if native {
		answer.Native = text
	}
	return answer, nil
}

// read reads a whole answer, which may turn out to be an error. root is valid as long as text.
func read(ctx context.Context, caller *wire.Caller, response *http.Response) (text []byte, root gjson.Result, err error) {
	if text, err = wire.Read(ctx, response); err != nil {
		return nil, root, err
	}
	if !jsoncheck.Valid(text) {
		return nil, root, wire.Malformed("the answer is not the JSON expected", nil)
	}
	root = wire.ParseView(text)
	if root.Get("type").Str == "error" {
		return nil, root, caller.Refused(response.StatusCode, text)
	}
	return text, root, nil
}

// decode keeps text, calls and the thinking that belongs to calls. Blocks of other types (server tools and their
// results, and future types) have no form in the neutral answer; a face of this dialect gets them in Native.
func decode(root gjson.Result) (*provider.Answer, error) {
	content := root.Get("content")
	if !content.IsArray() {
		return nil, wire.Malformed("the answer holds no content", nil)
	}
	out := &provider.Answer{FinishReason: finishReason(root.Get("stop_reason").Str), Model: wire.Text(root.Get("model"))}
	var u usage
	u.update(root.Get("usage"))
	out.Usage = u.disjoint()
	var kept Thinking
	var written, reasoning, other wire.Joined
	var sources cited
	content.ForEach(func(_, block gjson.Result) bool {
		switch kind := block.Get("type").Str; {
		case kind == "text":
			text := wire.Text(block.Get("text"))
			written.Add(text)
			sources.write(text)
			each(block.Get("citations"), func(c gjson.Result) { sources.sources = append(sources.sources, citation(c)) })
			out.Citations = append(out.Citations, sources.take()...)
		case kind == "tool_use" && len(out.ToolCalls) > provider.MaxToolCalls: // One more shows that there are too many.
		case kind == "tool_use":
			out.ToolCalls = append(out.ToolCalls, provider.ToolCall{
				Index: len(out.ToolCalls), ID: wire.Text(block.Get("id")), Name: wire.Text(block.Get("name")),
				Arguments: arguments(block), Extra: kept.Take(),
			})
		case isThinking(kind):
			text := wire.Text(block.Get("thinking"))
			reasoning.Add(text)
			kept.Add(signed(block, text, wire.Text(block.Get("signature"))), !written.Empty() || len(out.ToolCalls) > 0)
		default:
			other.Add(unshown(block))
		}
		return true
	})
	out.FinishReason = out.FinishReason.WithCalls(len(out.ToolCalls) > 0)
	out.Text, out.Reasoning, out.Other = written.String(), reasoning.String(), other.String()
	if err := provider.CheckCalls(out.ToolCalls); err != nil {
		return nil, err
	}
	return out, nil
}

// unshown returns what the model wrote into a block of another type: the input of a vendor's own tool (server_tool_use,
// mcp_tool_use), or a summary of the conversation (compaction). Results of such tools are not written by the model.
func unshown(block gjson.Result) string {
	switch block.Get("type").Str {
	case "server_tool_use", "mcp_tool_use":
		if input := block.Get("input"); input.IsObject() && input.Raw != noArguments {
			return string(wire.Bytes(input))
		}
	case "compaction":
		return wire.Text(block.Get("content"))
	}
	return ""
}

// arguments returns the arguments of a tool_use block; a tool without parameters is called with an empty object.
func arguments(block gjson.Result) string {
	if input := wire.Bytes(block.Get("input")); len(input) > 0 {
		return string(input)
	}
	return noArguments
}

// finishReason maps the vendor's stop reasons. A paused turn has not ended: a further request continues it, as after a
// limit.
func finishReason(stop string) provider.FinishReason {
	switch stop {
	case "":
		return ""
	case "max_tokens", "model_context_window_exceeded", "pause_turn":
		return provider.FinishLength
	case "tool_use":
		return provider.FinishToolCalls
	case "refusal":
		return provider.FinishContentFilter
	}
	return provider.FinishStop
}
