package responses

import (
	"encoding/json"
	"strconv"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// textItem is a message or the reasoning while it is written.
type textItem struct {
	kind, id string
	index    int
	text     []byte
	prefix   []byte
	// begin is where the item starts in the answer's text, in characters.
	begin       int
	annotations []any
}

// callItem is a call while it is written.
type callItem struct {
	id, callID string
	of         callable
	index      int
	arguments  []byte
	// prefix is nil for a call whose arguments are written at once, because they have another form here.
	prefix []byte
	// state came after the call had begun.
	state json.RawMessage
}

// place returns the next output index.
func (s *stream) place() int {
	s.items = append(s.items, nil)
	return len(s.items) - 1
}

// at returns the members that name an item's place, and that of a part within it.
func at(index int, part string) string {
	place := `"output_index":` + strconv.Itoa(index)
	if part != "" {
		place += `,"` + part + `":0`
	}
	return place
}

// inItem writes an event about an item by its id and place; more are further members with the comma before each.
func (s *stream) inItem(name, id string, index int, part string, more []byte) {
	s.event(name, func(out []byte) []byte {
		out = append(append(append(out, `,"item_id":"`...), id...), `",`...)
		out = append(out, at(index, part)...)
		return append(out, more...)
	})
}

// item writes an event that holds an item, and returns the item's JSON.
func (s *stream) item(name string, index int, item any) json.RawMessage {
	text, err := jsontext.Marshal(item)
	if err != nil {
		return nil // Items consist of texts and of JSON that was checked.
	}
	s.event(name, func(out []byte) []byte {
		out = append(append(out, ','), at(index, "")...)
		return append(append(out, `,"item":`...), text...)
	})
	return text
}

// newText begins a message or reasoning.
func (s *stream) newText(kind string) *textItem {
	t := &textItem{kind: kind, index: s.place(), begin: s.characters}
	if kind == typeReasoning {
		t.id = newID("rs")
		s.item("response.output_item.added", t.index, newReasoning(t.id, "", ""))
		s.inItem("response.reasoning_summary_part.added", t.id, t.index, "summary_index", []byte(`,"part":{"type":"summary_text","text":""}`))
		t.prefix = deltaPrefix("response.reasoning_summary_text.delta", t.id, at(t.index, "summary_index"))
		return t
	}
	t.id = newID("msg")
	s.item("response.output_item.added", t.index, newMessage(t.id, statusInProgress))
	s.inItem("response.content_part.added", t.id, t.index, "content_index", []byte(`,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}`))
	t.prefix = deltaPrefix("response.output_text.delta", t.id, at(t.index, "content_index"))
	return t
}

// endText ends a message or reasoning.
func (s *stream) endText(t *textItem, status, sealed string) {
	text := jsontext.AppendText(nil, string(t.text))
	if t.kind == typeReasoning {
		s.inItem("response.reasoning_summary_text.done", t.id, t.index, "summary_index", append([]byte(`,"text":`), text...))
		s.inItem("response.reasoning_summary_part.done", t.id, t.index, "summary_index",
			append(append([]byte(`,"part":{"type":"summary_text","text":`), text...), '}'))
		s.items[t.index] = s.item("response.output_item.done", t.index, newReasoning(t.id, string(t.text), sealed))
		return
	}
	s.inItem("response.output_text.done", t.id, t.index, "content_index", append(append([]byte(`,"text":`), text...), `,"logprobs":[]`...))
	part := textPart(string(t.text), t.annotations)
	if whole, err := jsontext.Marshal(part); err == nil { // It holds texts and numbers.
		s.inItem("response.content_part.done", t.id, t.index, "content_index", append([]byte(`,"part":`), whole...))
	}
	s.items[t.index] = s.item("response.output_item.done", t.index, newMessage(t.id, status, part))
}

// call writes a piece of a call.
func (s *stream) call(delta *provider.ToolCall) {
	place, begun := s.places[delta.Index]
	if !begun {
		s.beginCall(delta)
		place = len(s.calls) - 1
	} else if delta.Extra != nil {
		s.calls[place].state = delta.Extra
	}
	c := s.calls[place]
	c.arguments = append(c.arguments, delta.Arguments...)
	if delta.Arguments != "" && c.prefix != nil {
		s.delta(c.prefix, delta.Arguments)
	}
}

// beginCall adds a call. Its state goes into the reasoning that led to it.
func (s *stream) beginCall(delta *provider.ToolCall) {
	if len(delta.Extra) > 0 {
		s.keep(delta.ID, delta.Extra)
	} else {
		s.close(statusCompleted, "")
	}
	of := s.exchange.tools.find(delta.Name)
	c := &callItem{id: newID(callPrefix(of.kind)), callID: delta.ID, of: of, index: s.place()}
	if of.kind == toolFunction {
		c.prefix = deltaPrefix("response.function_call_arguments.delta", c.id, at(c.index, ""))
	}
	if s.places == nil {
		s.places = make(map[int]int)
	}
	s.places[delta.Index] = len(s.calls)
	s.calls = append(s.calls, c)
	s.item("response.output_item.added", c.index, newCall(c.id, statusInProgress, of, c.callID, ""))
}

// keep puts the state of a call into the reasoning that is written, or into an item of its own.
func (s *stream) keep(callID string, extra json.RawMessage) {
	sealed := seal(callID, extra)
	if s.writing != nil && s.writing.kind == typeReasoning {
		s.close(statusCompleted, sealed)
		return
	}
	s.close(statusCompleted, "")
	index, id := s.place(), newID("rs")
	s.item("response.output_item.added", index, newReasoning(id, "", ""))
	s.items[index] = s.item("response.output_item.done", index, newReasoning(id, "", sealed))
}

// endCalls ends all calls. State that came late has items of its own behind them.
func (s *stream) endCalls(status string) {
	for _, c := range s.calls {
		arguments := string(c.arguments)
		switch c.of.kind {
		case toolFunction:
			more := jsontext.AppendText([]byte(`,"name":`), c.of.name)
			more = jsontext.AppendText(append(more, `,"arguments":`...), arguments)
			s.inItem("response.function_call_arguments.done", c.id, c.index, "", more)
		case toolCustom:
			input := jsontext.AppendText(nil, customInput(arguments))
			s.inItem("response.custom_tool_call_input.delta", c.id, c.index, "", append([]byte(`,"delta":`), input...))
			s.inItem("response.custom_tool_call_input.done", c.id, c.index, "", append([]byte(`,"input":`), input...))
		}
		s.items[c.index] = s.item("response.output_item.done", c.index, newCall(c.id, status, c.of, c.callID, arguments))
	}
	for _, c := range s.calls {
		if c.state != nil {
			s.keep(c.callID, c.state)
		}
	}
}
