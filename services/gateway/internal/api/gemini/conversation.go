package gemini

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/platform/apierr"
)

// conversation is what has been read of the turns: the calls, by which their results are found.
type conversation struct {
	// system is the number of system messages.
	system int
	calls  map[string]*pending
	// open are the calls without a result so far by their function, oldest first.
	open map[string][]*pending
}

// pending is a call that waits for its result.
type pending struct {
	id       string
	answered bool
}

var callNames = known("id", "name", "args", "partialArgs", "willContinue")

// call reads a call. One without an id, as older models make them, gets one by its position, which stays the same in
// every further turn.
func (c *conversation) call(path string, p part) (call provider.ToolCall, err error) {
	o, err := newObject(path, p.call, callNames)
	if err != nil {
		return call, err
	}
	if err := o.takeAll(field{"id", &call.ID}, field{"name", &call.Name}); err != nil {
		return call, err
	}
	if call.Name == "" {
		return call, apierr.Invalid(o.at("name"), "is required")
	}
	call.Arguments = "{}"
	if args := o.raw("args"); args != nil {
		if args[0] != '{' {
			return call, apierr.Invalid(o.at("args"), "must be an object")
		}
		call.Arguments = string(args)
	}
	if call.ID == "" {
		call.ID = "call_" + strconv.Itoa(len(c.calls)+1)
	}
	if c.calls[call.ID] != nil {
		return call, apierr.Invalid(o.at("id"), "a call before it has the same")
	}
	if c.calls == nil {
		c.calls, c.open = make(map[string]*pending), make(map[string][]*pending)
	}
	made := &pending{id: call.ID}
	c.calls[call.ID] = made
	c.open[call.Name] = append(c.open[call.Name], made)
	if p.signature != "" {
		call.Extra, _ = vendor.State(p.signature)
	}
	return call, nil
}

// find returns the call that a result is of: by its id, or else the oldest call of the function without a result.
func (c *conversation) find(id, name string) *pending {
	if found := c.calls[id]; id != "" && found != nil && !found.answered {
		return found
	}
	if id != "" {
		return nil
	}
	waiting := c.open[name]
	for len(waiting) > 0 && waiting[0].answered {
		waiting = waiting[1:]
	}
	if len(waiting) == 0 {
		delete(c.open, name)
		return nil
	}
	c.open[name] = waiting
	return waiting[0]
}

var resultNames = known("id", "name", "response", "parts", "willContinue", "scheduling")

// result reads the result of a call. Images in it are returned for the user's turn behind the results: few vendors have
// a place for them in a result.
func (r *reader) result(path string, raw json.RawMessage) (m provider.Message, images []provider.Part, err error) {
	o, err := newObject(path, raw, resultNames)
	if err != nil {
		return m, nil, err
	}
	var id, name string
	if err := o.takeAll(field{"id", &id}, field{"name", &name}); err != nil {
		return m, nil, err
	}
	call := r.turn.find(id, name)
	if call == nil {
		return m, nil, apierr.Invalid(path, "no call before it waits for this result")
	}
	call.answered = true
	m = provider.Message{Role: provider.RoleTool, ToolCallID: call.id}
	if response := o.raw("response"); response != nil {
		if response[0] != '{' {
			return m, nil, apierr.Invalid(o.at("response"), "must be an object")
		}
		m.Content = []provider.Part{{Text: textOf(response)}}
	}
	if images, err = r.resultParts(o); err != nil {
		return m, nil, err
	}
	if len(m.Content) == 0 && len(images) > 0 {
		m.Content = []provider.Part{{Text: "The result follows below."}}
	}
	for _, rest := range o.Rest() {
		r.chat.Ignores(rest)
	}
	return m, images, nil
}

func (r *reader) resultParts(o *object) (content []provider.Part, err error) {
	list, err := o.list("parts")
	if err != nil {
		return nil, err
	}
	for i, one := range list {
		p, err := r.part(dialect.At(o.at("parts"), i), one)
		if err != nil {
			return nil, err
		}
		if p.shared {
			content = append(content, p.content)
		}
	}
	return content, nil
}

// textOf returns the text of a result that is nothing else, and any other as it is.
func textOf(response json.RawMessage) string {
	members := 0
	var only gjson.Result
	var name string
	gjson.ParseBytes(response).ForEach(func(key, value gjson.Result) bool {
		members++
		name, only = key.Str, value
		return members < 2
	})
	if members == 1 && only.Type == gjson.String && (name == "output" || name == "result") {
		return strings.Clone(only.String())
	}
	return string(response)
}
