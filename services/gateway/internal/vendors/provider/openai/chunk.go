package openai

import (
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// chunk is the content of a whole answer, or of one chunk of a stream.
type chunk struct {
	choices         int
	text, reasoning wire.Joined
	// holder names the member that held the reasoning.
	holder string
	// other is output without a place in the contract; see provider.Event.
	other   wire.Joined
	calls   []delta
	refused bool
	usage   *provider.Usage
	// problem is the JSON of an error that came inside a choice (OpenRouter).
	problem string
	// finish, model and details are views: they are valid as long as the data that was read.
	finish string
	model  gjson.Result
	// details of the reasoning (OpenRouter): most servers repeat its text in them.
	details gjson.Result
	// results and sources are the two lists of sources that Perplexity sends: search_results and citations.
	results, sources gjson.Result
	citations        []provider.Citation
	images           []string
}

// delta is a call or a piece of one; index is -1 if the server gave none.
type delta struct {
	choice, index int
	provider.ToolCall
}

// read parses a document and replaces the previous content; after an error the content is invalid. All texts except the
// views are copies; the list of calls is reused.
func (c *chunk) read(caller *wire.Caller, status int, data []byte) error {
	*c = chunk{calls: c.calls[:0]}
	if err := parse(caller, status, data, c.member); err != nil {
		return err
	}
	if len(c.calls) > provider.MaxToolCalls {
		return provider.TooManyCalls()
	}
	c.addDetails()
	return nil
}

// addDetails adds the text in the details of the reasoning if the reasoning came in no other member.
func (c *chunk) addDetails() {
	if !c.reasoning.Empty() {
		return
	}
	each(c.details, func(detail gjson.Result) {
		c.reasoning.Add(wire.Text(detail.Get("text")))
		c.reasoning.Add(wire.Text(detail.Get("summary")))
	})
}

func (c *chunk) member(name string, value gjson.Result) {
	switch name {
	case "choices":
		each(value, c.choice)
	case "model":
		first(&c.model, value)
	case "usage":
		c.addUsage(value)
	case "search_results":
		first(&c.results, value)
	case "citations":
		first(&c.sources, value)
	case "x_groq":
		c.addUsage(value.Get("usage"))
	}
}

func (c *chunk) addUsage(value gjson.Result) {
	if used := usageOf(value); c.usage.Reported() == nil && used != nil {
		c.usage = used
	}
}

// choice adds one choice. A request of the gateway has one; a native request may ask for several. Their texts are
// concatenated: they are counted, while the native frames are relayed separately.
func (c *chunk) choice(choice gjson.Result) {
	c.choices++
	before := len(c.calls)
	var number gjson.Result
	members(choice, func(name string, value gjson.Result) {
		switch name {
		case "index":
			first(&number, value)
		case "message", "delta":
			members(value, c.addMessage)
		case "finish_reason":
			if value.Str != "" {
				c.finish = value.Str
			}
		case "usage": // Moonshot
			c.addUsage(value)
		case "error":
			if isError(value) {
				c.problem = `{"error":` + value.Raw + `}`
			}
		}
	})
	for i := before; i < len(c.calls); i++ { // The number may follow the calls.
		c.calls[i].choice = int(number.Int())
	}
}

// addMessage adds a member of a message.
func (c *chunk) addMessage(name string, value gjson.Result) {
	switch name {
	case "content":
		c.content(value)
	case "refusal":
		refusal := wire.Text(value)
		c.refused = c.refused || refusal != ""
		c.text.Add(refusal)
	case memberReasoningContent, memberReasoning: // Some servers send both, with the same text.
		if c.reasoning.Empty() && value.Str != "" {
			c.reasoning.Add(wire.Text(value))
			c.holder = memberReasoningContent
			if name == memberReasoning {
				c.holder = memberReasoning
			}
		}
	case memberDetails:
		first(&c.details, value)
	case "annotations":
		each(value, c.addAnnotation)
	case "images":
		each(value, c.addImage)
	case "tool_calls":
		each(value, func(call gjson.Result) {
			if len(c.calls) <= provider.MaxToolCalls { // One more shows that there are too many.
				c.calls = append(c.calls, c.call(call))
			}
		})
	case "function_call": // The predecessor of tool_calls: one call, which has no ID.
		if value.IsObject() {
			d := delta{index: -1}
			members(value, d.function)
			c.calls = append(c.calls, d)
		}
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
		c.addImage(part)
		each(part.Get("thinking"), func(thought gjson.Result) {
			c.reasoning.Add(wire.Text(thought.Get("text")))
			c.holder = memberContent
		})
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

// function adds a member of the called function.
func (d *delta) function(name string, value gjson.Result) {
	switch {
	case name == "name":
		d.Name = wire.Text(value)
	case name == "arguments" && value.IsObject(): // Some servers don't encode it as a string.
		d.Arguments = string(wire.Bytes(value))
	case name == "arguments":
		d.Arguments = wire.Text(value)
	}
}

// failure returns the error in a choice, or the one that its finish reason stands for.
func (c *chunk) failure(caller *wire.Caller, status int) error {
	if c.problem != "" {
		return caller.Refused(status, []byte(c.problem))
	}
	switch strings.ToLower(c.finish) {
	case "error", "abort", "network_error", "insufficient_system_resource":
		e := wire.Malformed("the provider ended the answer early: finish_reason "+wire.Shorten(c.finish), nil)
		e.Status = status
		return e
	}
	return nil
}

// finishReason maps the vendor's finish reasons; compatible servers add some of their own. A refusal is what other
// vendors call a filtered answer.
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
