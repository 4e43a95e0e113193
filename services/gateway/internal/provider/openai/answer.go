package openai

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

// document is a whole answer as it came.
type document struct {
	text   []byte
	root   gjson.Result
	limits provider.Limits
}

// read reads an answer; one that turns out to be an error is one.
func read(ctx context.Context, caller *wire.Caller, response *http.Response) (document, error) {
	text, err := wire.Read(ctx, response)
	if err != nil {
		return document{}, err
	}
	root, err := parse(caller, response.StatusCode, text)
	return document{text, root, caller.Limits(response)}, err
}

// parse reads the JSON of an answer or a chunk. The result holds as long as data.
func parse(caller *wire.Caller, status int, data []byte) (gjson.Result, error) {
	root := wire.ParseView(data)
	if !gjson.ValidBytes(data) || !root.IsObject() {
		if gjson.ValidBytes(data) && root.Get("0.error").Exists() { // Google wraps errors in a list.
			return root, caller.Refused(status, data)
		}
		return root, wire.Malformed("the answer is not the JSON expected", nil)
	}
	failed := false
	members(root, func(name string, value gjson.Result) {
		switch name {
		case "error":
			failed = failed || said(value)
		case "object": // The flat form of vLLM.
			failed = failed || value.Str == "error"
		}
	})
	if failed {
		return root, caller.Refused(status, data)
	}
	return root, nil
}

// said tells null, false and "" from an error.
func said(value gjson.Result) bool {
	return value.Type != gjson.Null && value.Type != gjson.False && value.Raw != `""`
}

// chunk is what a whole answer, or one chunk of a stream, says.
type chunk struct {
	choices         int
	text, reasoning string
	calls           []delta
	refused         bool
	finish          string
	usage           *provider.Usage
	// problem is an error that came inside a choice (OpenRouter); JSON.
	problem string
}

// delta is a call or a piece of one; index is -1 where the server gave none.
type delta struct {
	choice, index int
	provider.ToolCall
}

// read reads what a document says, in place of what it said before. Every text in
// it is its own; the list of calls is used again.
func (c *chunk) read(root gjson.Result) {
	*c = chunk{calls: c.calls[:0]}
	members(root, func(name string, value gjson.Result) {
		switch name {
		case "choices":
			each(value, func(choice gjson.Result) {
				c.choices++
				c.choice(choice)
			})
		case "usage":
			c.use(value)
		case "x_groq":
			c.use(value.Get("usage"))
		}
	})
}

func (c *chunk) use(value gjson.Result) {
	if value.IsObject() && c.usage == nil {
		c.usage = usageOf(value)
	}
}

// choice adds one choice. A request of ours has one; the caller's own may ask for
// several, whose texts follow one another: they are counted, and relayed apart.
func (c *chunk) choice(choice gjson.Result) {
	number := int(choice.Get("index").Int())
	members(choice, func(name string, value gjson.Result) {
		switch name {
		case "message", "delta":
			c.message(number, value)
		case "finish_reason":
			if reason := text(value); reason != "" {
				c.finish = reason
			}
		case "usage": // Moonshot
			c.use(value)
		case "error":
			if said(value) {
				c.problem = `{"error":` + value.Raw + `}`
			}
		}
	})
}

func (c *chunk) message(choice int, message gjson.Result) {
	members(message, func(name string, value gjson.Result) {
		switch name {
		case "content":
			c.content(value)
		case "refusal":
			refusal := text(value)
			c.refused = c.refused || refusal != ""
			c.text += refusal
		case "reasoning_content", "reasoning": // Some servers give both, with the same text.
			if c.reasoning == "" {
				c.reasoning = text(value)
			}
		case "tool_calls":
			each(value, func(call gjson.Result) { c.calls = append(c.calls, deltaOf(choice, call)) })
		}
	})
}

// content is a string or, from Mistral's reasoning models, a list of parts.
func (c *chunk) content(value gjson.Result) {
	if !value.IsArray() {
		c.text += text(value)
		return
	}
	each(value, func(part gjson.Result) {
		c.text += text(part.Get("text"))
		each(part.Get("thinking"), func(thought gjson.Result) { c.reasoning += text(thought.Get("text")) })
	})
}

func deltaOf(choice int, call gjson.Result) delta {
	d := delta{choice: choice, index: -1}
	members(call, func(name string, value gjson.Result) {
		switch name {
		case "index":
			if value.Type == gjson.Number {
				d.index = int(value.Int())
			}
		case "id":
			d.ID = text(value)
		case "extra_content":
			if value.IsObject() {
				d.Extra = wire.Bytes(value)
			}
		case "function":
			members(value, func(name string, value gjson.Result) {
				switch {
				case name == "name":
					d.Name = text(value)
				case name == "arguments" && value.IsObject(): // Some servers don't make a text of it.
					d.Arguments = string(wire.Bytes(value))
				case name == "arguments":
					d.Arguments = text(value)
				}
			})
		}
	})
	return d
}

// each goes through a list; anything else is an empty one.
func each(list gjson.Result, visit func(item gjson.Result)) {
	if list.IsArray() {
		list.ForEach(func(_, item gjson.Result) bool {
			visit(item)
			return true
		})
	}
}

// members goes through an object; anything else is an empty one.
func members(object gjson.Result, visit func(name string, value gjson.Result)) {
	if object.IsObject() {
		object.ForEach(func(key, value gjson.Result) bool {
			visit(key.Str, value)
			return true
		})
	}
}

// text is a JSON string's text, of its own and valid; anything else is "".
func text(value gjson.Result) string {
	if value.Type != gjson.String || strings.IndexByte(value.Raw, '\\') < 0 {
		return wire.Text(value)
	}
	return strings.ToValidUTF8(value.Str, "\uFFFD") // gjson has made it anew.
}

// answer is a whole completion.
func (d document) answer(caller *wire.Caller) (*provider.Answer, error) {
	var c chunk
	c.read(d.root)
	if c.choices == 0 {
		return nil, wire.Malformed("the answer holds no choice", nil)
	}
	if err := c.failure(caller, http.StatusOK); err != nil {
		return nil, err
	}
	answer := &provider.Answer{
		Text: c.text, Reasoning: c.reasoning, FinishReason: finishReason(c.finish, c.refused),
		Usage: c.usage, Model: text(d.root.Get("model")), Limits: d.limits,
	}
	for i, call := range c.calls {
		call.Index = i
		call.ID = cmp.Or(call.ID, newID())
		answer.ToolCalls = append(answer.ToolCalls, call.ToolCall)
	}
	return answer, nil
}

// failure is the error that a choice holds, or that its finish reason stands for.
func (c *chunk) failure(caller *wire.Caller, status int) error {
	if c.problem != "" {
		return caller.Refused(status, []byte(c.problem))
	}
	switch strings.ToLower(c.finish) {
	case "error", "abort", "network_error", "insufficient_system_resource":
		e := wire.Malformed("the provider broke the answer off: finish_reason "+wire.Shorten(c.finish), nil)
		e.Status = status
		return e
	}
	return nil
}

// finishReason maps the vendor's words; compatible servers add some of their own.
// A refusal is what other vendors call a filtered answer.
func finishReason(reason string, refused bool) provider.FinishReason {
	switch reason = strings.ToLower(reason); {
	case reason == "":
		return ""
	case refused:
		return provider.FinishContentFilter
	}
	switch reason {
	case "length", "model_length", "max_tokens":
		return provider.FinishLength
	case "tool_calls", "function_call":
		return provider.FinishToolCalls
	case "content_filter", "safety", "recitation", "sensitive", "refusal":
		return provider.FinishContentFilter
	}
	return provider.FinishStop
}
