package openai

import (
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// chunk is what a whole answer, or one chunk of a stream, says.
type chunk struct {
	choices         int
	text, reasoning wire.Joined
	// other is output without a place in the contract; see provider.Event.
	other   wire.Joined
	calls   []delta
	refused bool
	usage   *provider.Usage
	// problem is an error that came inside a choice (OpenRouter); JSON.
	problem string
	// finish, model and details are views: they hold as long as what was read.
	finish string
	model  gjson.Result
	// details of the reasoning (OpenRouter): most servers repeat its text in them.
	details gjson.Result
}

// delta is a call or a piece of one; index is -1 where the server gave none.
type delta struct {
	choice, index int
	provider.ToolCall
}

// read reads what a document says, in place of what it said before; after an error
// nothing of it holds. Every text but the views is its own; the list of calls is
// used again.
func (c *chunk) read(caller *wire.Caller, status int, data []byte) error {
	*c = chunk{calls: c.calls[:0]}
	if err := parse(caller, status, data, c.member); err != nil {
		return err
	}
	if len(c.calls) > provider.MaxToolCalls {
		return provider.TooManyCalls()
	}
	if c.reasoning.Empty() {
		each(c.details, func(detail gjson.Result) {
			c.other.Add(wire.Text(detail.Get("text")))
			c.other.Add(wire.Text(detail.Get("summary")))
		})
	}
	return nil
}

func (c *chunk) member(name string, value gjson.Result) {
	switch name {
	case "choices":
		each(value, c.choice)
	case "model":
		first(&c.model, value)
	case "usage":
		c.use(value)
	case "x_groq":
		c.use(value.Get("usage"))
	}
}

func (c *chunk) use(value gjson.Result) {
	if c.usage == nil {
		c.usage = usageOf(value)
	}
}

// choice adds one choice. A request of ours has one; the caller's own may ask for
// several, whose texts follow one another: they are counted, and relayed apart.
func (c *chunk) choice(choice gjson.Result) {
	c.choices++
	before := len(c.calls)
	var number gjson.Result
	members(choice, func(name string, value gjson.Result) {
		switch name {
		case "index":
			first(&number, value)
		case "message", "delta":
			members(value, c.say)
		case "finish_reason":
			if value.Str != "" {
				c.finish = value.Str
			}
		case "usage": // Moonshot
			c.use(value)
		case "error":
			if said(value) {
				c.problem = `{"error":` + value.Raw + `}`
			}
		}
	})
	for i := before; i < len(c.calls); i++ { // The number may come behind the calls.
		c.calls[i].choice = int(number.Int())
	}
}

// say adds a member of a message.
func (c *chunk) say(name string, value gjson.Result) {
	switch name {
	case "content":
		c.content(value)
	case "refusal":
		refusal := wire.Text(value)
		c.refused = c.refused || refusal != ""
		c.text.Add(refusal)
	case "reasoning_content", "reasoning": // Some servers give both, with the same text.
		if c.reasoning.Empty() {
			c.reasoning.Add(wire.Text(value))
		}
	case "reasoning_details":
		first(&c.details, value)
	case "tool_calls":
		each(value, func(call gjson.Result) {
			if len(c.calls) <= provider.MaxToolCalls { // One more shows that there are too many.
				c.calls = append(c.calls, c.call(call))
			}
		})
	case "function_call": // What tool_calls took the place of.
		members(value, c.unshown)
	case "audio":
		c.other.Add(wire.Text(value.Get("transcript")))
	}
}

// unshown adds a member of a call that the contract has no form for.
func (c *chunk) unshown(name string, value gjson.Result) {
	switch name {
	case "name", "arguments", "input":
		c.other.Add(wire.Text(value))
	}
}

// content is a string or, from Mistral's reasoning models, a list of parts.
func (c *chunk) content(value gjson.Result) {
	if !value.IsArray() {
		c.text.Add(wire.Text(value))
		return
	}
	each(value, func(part gjson.Result) {
		c.text.Add(wire.Text(part.Get("text")))
		each(part.Get("thinking"), func(thought gjson.Result) { c.reasoning.Add(wire.Text(thought.Get("text"))) })
	})
}

func (c *chunk) call(call gjson.Result) delta {
	d := delta{index: -1}
	members(call, func(name string, value gjson.Result) {
		switch name {
		case "index":
			if value.Type == gjson.Number {
				d.index = int(value.Int())
			}
		case "id":
			d.ID = wire.Text(value)
		case "extra_content":
			if value.IsObject() {
				d.Extra = wire.Bytes(value)
			}
		case "function":
			members(value, d.function)
		case "custom":
			members(value, c.unshown)
		}
	})
	return d
}

// function adds a member of what is called.
func (d *delta) function(name string, value gjson.Result) {
	switch {
	case name == "name":
		d.Name = wire.Text(value)
	case name == "arguments" && value.IsObject(): // Some servers don't make a text of it.
		d.Arguments = string(wire.Bytes(value))
	case name == "arguments":
		d.Arguments = wire.Text(value)
	}
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
