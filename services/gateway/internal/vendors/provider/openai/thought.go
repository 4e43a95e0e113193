package openai

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// Members of messages that hold reasoning. Sources: the API references of DeepSeek, Moonshot and OpenRouter
// ("Preserving reasoning"), and Mistral's documentation, "Reasoning".
const (
	memberReasoningContent = "reasoning_content" // DeepSeek, Moonshot, Z.ai, Qwen
	memberReasoning        = "reasoning"         // OpenRouter, vLLM, Groq, Cerebras
	memberDetails          = "reasoning_details" // OpenRouter, MiniMax
	memberContent          = "content"           // Mistral, as parts of type thinking
)

// Thought is the reasoning that led to a call, as its server wrote it. Servers that reason between calls want it back
// with the turn that made the calls, and some refuse the conversation without it. It is kept in the opaque state of the
// first call, under the dialect's name, so that other vendors leave it out:
//
//	{"openai": {"provider": "…", "member": "reasoning_content", "text": "…"}}
type Thought struct {
	// Provider is the server's name in the policy. Only this provider gets Details back, and the text in Member.
	Provider string `json:"provider,omitempty"`
	Member   string `json:"member,omitempty"`
	Text     string `json:"text,omitempty"`
	// Details is OpenRouter's reasoning_details, a JSON list.
	Details json.RawMessage `json:"details,omitempty"`
}

// maxThought bounds the reasoning that is kept for the first call of an answer, in bytes. If there is more, none is
// kept.
const maxThought = 8 << 20

// ThoughtOf returns the reasoning in a call's state; false if there is none.
func ThoughtOf(state json.RawMessage) (t Thought, ok bool) {
	if len(state) == 0 {
		return t, false
	}
	own := gjson.GetBytes(state, DialectName)
	if !own.IsObject() || json.Unmarshal([]byte(own.Raw), &t) != nil {
		return Thought{}, false
	}
	if !gjson.ParseBytes(t.Details).IsArray() {
		t.Details = nil
	}
	return t, true
}

// WithoutThought returns a call's state without the reasoning of this dialect; nil if nothing else is left.
func WithoutThought(state json.RawMessage) json.RawMessage {
	if _, ok := ThoughtOf(state); !ok {
		return state
	}
	return withoutEmpty(wire.Override(state, wire.Member{Name: DialectName}))
}

func withoutEmpty(object json.RawMessage) json.RawMessage {
	if string(object) == "{}" {
		return nil
	}
	return object
}

// WithoutText returns a call's state without the text of the reasoning, for a face that shows the text next to the
// call.
func WithoutText(state json.RawMessage) json.RawMessage {
	t, ok := ThoughtOf(state)
	if !ok || t.Text == "" {
		return state
	}
	t.Text = ""
	return withThought(state, t)
}

// withThought returns a call's state with t in it.
func withThought(state json.RawMessage, t Thought) json.RawMessage {
	if len(state) == 0 {
		state = json.RawMessage("{}")
	}
	text, _ := jsontext.Marshal(t) // It holds texts and checked JSON.
	return wire.Override(state, wire.Member{Name: DialectName, Value: string(text)})
}

// isEmpty reports whether there is nothing to send back to the server.
func (t *Thought) isEmpty() bool { return t.Text == "" && t.Details == nil }

// encodeThought puts a turn's reasoning where the server wants it. A server that refuses calls without reasoning gets a
// blank if another vendor made the calls or the caller dropped the reasoning.
func (p *Provider) encodeThought(out *message, m *provider.Message) {
	t := p.thoughtOf(m)
	if t.Text == "" && p.traits.needsThoughts && len(m.ToolCalls) > 0 {
		t.Text = " "
	}
	out.ReasoningDetails = t.Details
	switch {
	case t.Text == "":
	case t.Member == memberReasoningContent:
		out.ReasoningContent = t.Text
	case t.Member == memberReasoning:
		out.Reasoning = t.Text
	case t.Member == memberContent:
		thinking := part{Type: "thinking", Thinking: []part{{Type: "text", Text: &t.Text}}}
		out.Content = slices.Concat([]part{thinking}, encodeParts(m.Content))
	}
}

// thoughtOf returns a turn's reasoning as this server gets it: in the member in which it wrote the reasoning, or else
// in the member of its reasoning style.
func (p *Provider) thoughtOf(m *provider.Message) (t Thought) {
	for _, call := range m.ToolCalls {
		if found, ok := ThoughtOf(call.Extra); ok {
			t = found
			break
		}
	}
	t.Text = cmp.Or(t.Text, m.Reasoning)
	if t.Provider != p.Name() {
		t.Member, t.Details = "", nil
	}
	t.Member = cmp.Or(t.Member, p.traits.thoughts)
	return t
}

// thoughtJoiner collects a stream's reasoning until the first call. Not safe for concurrent use.
type thoughtJoiner struct {
	hold *memory.Hold
	// done reports whether further reasoning is dropped.
	done    bool
	member  string
	text    []byte
	details []detail
	size    int
}

// detail is an entry of reasoning_details, which arrives in pieces. head is the first piece, whose other members are
// kept.
type detail struct {
	head                     json.RawMessage
	kind, index              string
	text, summary, signature []byte
}

// detailSize is approximately how many bytes of memory a detail takes in addition to its content.
const detailSize = 256

// add keeps a chunk's reasoning; text is its text. The error is memory.ErrFull.
func (j *thoughtJoiner) add(c *chunk, text string) error {
	if j.done || text == "" && !c.details.Exists() {
		return nil
	}
	before := j.size
	j.member = cmp.Or(j.member, c.holder)
	j.size += len(text)
	j.text = append(j.text, text...)
	each(c.details, j.addDetail)
	if j.size > maxThought {
		*j = thoughtJoiner{hold: j.hold, done: true}
		return nil
	}
	return j.hold.Charge(j.size - before)
}

// addDetail appends a piece to the last detail if it continues that one, or begins a new detail.
func (j *thoughtJoiner) addDetail(piece gjson.Result) {
	if j.size += len(piece.Raw); j.size > maxThought || !piece.IsObject() {
		return
	}
	kind, index := piece.Get("type").Str, piece.Get("index").Raw
	last := len(j.details) - 1
	if last < 0 || j.details[last].kind != kind || j.details[last].index != index || kind == "reasoning.encrypted" {
		j.size += detailSize
		j.details = append(j.details, detail{head: wire.Bytes(piece), kind: wire.Text(piece.Get("type")), index: string(wire.Bytes(piece.Get("index")))})
		last++
	}
	d := &j.details[last]
	d.text = append(d.text, piece.Get("text").Str...)
	d.summary = append(d.summary, piece.Get("summary").Str...)
	if signature := piece.Get("signature").Str; signature != "" {
		d.signature = append(d.signature[:0], signature...)
	}
}

// take returns the reasoning so far. Later reasoning is dropped.
func (j *thoughtJoiner) take(by string) Thought {
	t := Thought{Provider: by, Member: j.member, Text: string(j.text)}
	if len(j.details) > 0 {
		t.Details = joinDetails(j.details)
	}
	*j = thoughtJoiner{hold: j.hold, done: true}
	return t
}

func joinDetails(details []detail) json.RawMessage {
	out := []byte{'['}
	for i, d := range details {
		if i > 0 {
			out = append(out, ',')
		}
		whole := d.head
		for _, m := range []struct {
			name string
			text []byte
		}{{"text", d.text}, {"summary", d.summary}, {"signature", d.signature}} {
			if len(m.text) == 0 {
				continue
			}
			if set, err := sjson.SetRawBytes(whole, m.name, jsontext.AppendText(nil, string(m.text))); err == nil {
				whole = set
			}
		}
		out = append(out, whole...)
	}
	return append(out, ']')
}
