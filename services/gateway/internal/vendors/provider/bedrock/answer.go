package bedrock

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// noArguments are the arguments of a call without any.
const noArguments = "{}"

// serverTool is the type of a call of a tool that the vendor runs itself.
const serverTool = "server_tool_use"

// read reads a whole answer, and closes it.
func read(ctx context.Context, response *http.Response) (gjson.Result, error) {
	text, err := wire.Read(ctx, response)
	if err != nil {
		return gjson.Result{}, err
	}
	if !jsoncheck.Valid(text) {
		return gjson.Result{}, wire.Malformed("the answer is not the JSON expected", nil)
	}
	return wire.ParseView(text), nil
}

// readAnswer keeps text, calls and, of Claude, the thinking that belongs to calls. Blocks of other types have no form in
// the neutral answer.
func readAnswer(ctx context.Context, response *http.Response, claude bool) (*provider.Answer, error) {
	root, err := read(ctx, response)
	if err != nil {
		return nil, err
	}
	content := root.Get("output.message.content")
	if !content.IsArray() {
		return nil, wire.Malformed("the answer holds no content", nil)
	}
	finish, err := finishReason(root.Get("stopReason").Str)
	if err != nil {
		return nil, err
	}
	a := answer{claude: claude}
	content.ForEach(func(_, block gjson.Result) bool {
		a.add(block)
		return true
	})
	out := &provider.Answer{
		Text: a.text.String(), Reasoning: a.reasoning.String(), Other: a.other.String(), ToolCalls: a.calls,
		Citations: a.citations, Images: a.images,
		FinishReason: finish.WithCalls(len(a.calls) > 0), Usage: usageOf(root.Get("usage")),
	}
	return out, provider.CheckCalls(out.ToolCalls)
}

// answer is what was read of a whole answer.
type answer struct {
	claude                 bool
	text, reasoning, other wire.Joined
	// characters is the length of the text in characters.
	characters int
	citations  []provider.Citation
	images     []string
	calls      []provider.ToolCall
	kept       anthropic.Thinking
}

// add adds a block.
func (a *answer) add(block gjson.Result) {
	block.ForEach(func(kind, value gjson.Result) bool {
		switch kind.Str {
		case "text":
			a.write(wire.Text(value))
		case "citationsContent":
			a.addCited(value)
		case "image":
			if uri := image(wire.Text(value.Get("format")), value); uri != "" {
				a.images = append(a.images, uri)
			}
		case "toolUse":
			a.call(value)
		case "reasoningContent":
			text := wire.Text(value.Get("reasoningText.text"))
			a.reasoning.Add(text)
			if a.claude {
				after := !a.text.Empty() || len(a.calls) > 0
				keep(&a.kept, text, wire.Text(value.Get("reasoningText.signature")), wire.Text(value.Get("redactedContent")), after)
			}
		}
		return true
	})
}

func (a *answer) call(use gjson.Result) {
	input := wire.Bytes(use.Get("input"))
	switch {
	case use.Get("type").Str == serverTool:
		if string(input) != noArguments {
			a.other.Add(string(input))
		}
	case len(a.calls) > provider.MaxToolCalls: // One more shows that there are too many.
	default:
		if len(input) == 0 {
			input = json.RawMessage(noArguments)
		}
		a.calls = append(a.calls, provider.ToolCall{
			ID: wire.Text(use.Get("toolUseId")), Name: wire.Text(use.Get("name")), Arguments: string(input), Extra: a.kept.Take(),
		})
	}
}

// keep keeps thinking of Claude in the form that it has at Anthropic, so that a conversation may change between the hosts
// of Claude. Thinking without a signature can't be sent back.
func keep(kept *anthropic.Thinking, text, signature, redacted string, afterContent bool) {
	var block any
	switch {
	case redacted != "":
		block = struct {
			Type string `json:"type"`
			Data string `json:"data"`
		}{"redacted_thinking", redacted}
	case signature != "":
		block = struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{"thinking", text, signature}
	default:
		return
	}
	raw, _ := json.Marshal(block) // Texts never fail.
	kept.Add(raw, afterContent)
}

// finishReason maps the vendor's stop reasons. Some say that the model failed.
func finishReason(stop string) (provider.FinishReason, error) {
	switch stop {
	case "":
		return "", nil
	case "max_tokens", "model_context_window_exceeded":
		return provider.FinishLength, nil
	case "tool_use":
		return provider.FinishToolCalls, nil
	case "guardrail_intervened", "content_filtered":
		return provider.FinishContentFilter, nil
	case "malformed_model_output", "malformed_tool_use":
		e := wire.Malformed("the model wrote an output or a call that can't be read", nil)
		e.Code = stop
		return "", e
	}
	return provider.FinishStop, nil // end_turn, stop_sequence
}
