package openai

import (
	"net/http"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// answerOf parses a whole completion. The first call gets the answer's reasoning as its state, with by as the
// provider's name; if by is empty, no reasoning is kept.
func answerOf(caller *wire.Caller, status int, data []byte, by string) (*provider.Answer, error) {
	var c chunk
	if err := c.read(caller, status, data); err != nil {
		return nil, err
	}
	if c.choices == 0 {
		return nil, wire.Malformed("the answer holds no choice", nil)
	}
	if err := c.failure(caller, http.StatusOK); err != nil {
		return nil, err
	}
	c.addSources(0)
	answer := &provider.Answer{
		Citations: c.citations, Images: c.images,
		Text: c.text.String(), Reasoning: c.reasoning.String(), Other: c.other.String(), FinishReason: finishReason(c.finish, c.refused).WithCalls(len(c.calls) > 0),
		Usage: c.usage, Model: wire.Text(c.model),
	}
	if len(c.calls) > 0 {
		answer.ToolCalls = make([]provider.ToolCall, len(c.calls))
	}
	for i, call := range c.calls {
		call.Index = i
		if call.ID == "" {
			call.ID = newID()
		}
		answer.ToolCalls[i] = call.ToolCall
	}
	if by != "" && len(c.calls) > 0 {
		t := Thought{Provider: by, Member: c.holder, Text: answer.Reasoning, Details: wire.Bytes(c.details)}
		if first := &answer.ToolCalls[0]; !t.isEmpty() {
			first.Extra = withThought(first.Extra, t)
		}
	}
	if err := provider.CheckCalls(answer.ToolCalls); err != nil {
		return nil, err
	}
	return answer, nil
}

// reply holds the members of answers other than completions. They are valid as long as the answer's text.
type reply struct{ data, usage, model, format gjson.Result }

func (r *reply) member(name string, value gjson.Result) {
	switch name {
	case "data":
		first(&r.data, value)
	case "usage":
		first(&r.usage, value)
	case "model":
		first(&r.model, value)
	case "output_format":
		first(&r.format, value)
	}
}

// parse visits the members of an answer or a chunk, which must be a JSON object, once. If it turns out to be an error,
// parse returns that error, whatever members visit was called with before. Their values are valid as long as data.
func parse(caller *wire.Caller, status int, data []byte, visit func(name string, value gjson.Result)) error {
	if !jsoncheck.Valid(data) {
		return unexpected()
	}
	root := wire.ParseView(data)
	if !root.IsObject() {
		if root.Get("0.error").Exists() { // Google wraps errors in a list.
			return caller.Refused(status, data)
		}
		return unexpected()
	}
	failed := false
	members(root, func(name string, value gjson.Result) {
		switch name {
		case "error":
			failed = failed || isError(value)
		case "object": // The flat form of vLLM.
			failed = failed || value.Str == "error"
		default:
			visit(name, value)
		}
	})
	if failed {
		return caller.Refused(status, data)
	}
	return nil
}

func unexpected() error { return wire.Malformed("the answer is not the JSON expected", nil) }

// isError reports whether the value of an error member is an error: null, false and "" are not.
func isError(value gjson.Result) bool {
	return value.Type != gjson.Null && value.Type != gjson.False && value.Raw != `""`
}

// each visits the items of a list; any other value is an empty list.
func each(list gjson.Result, visit func(item gjson.Result)) {
	if list.IsArray() {
		list.ForEach(func(_, item gjson.Result) bool {
			visit(item)
			return true
		})
	}
}

// members visits the members of an object; any other value is an empty object.
func members(object gjson.Result, visit func(name string, value gjson.Result)) {
	if object.IsObject() {
		object.ForEach(func(key, value gjson.Result) bool {
			visit(key.Str, value)
			return true
		})
	}
}

// first keeps the first of several members of one name.
func first(kept *gjson.Result, value gjson.Result) {
	if !kept.Exists() {
		*kept = value
	}
}
