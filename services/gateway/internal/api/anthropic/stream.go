package anthropic

import (
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	server "switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/platform/apierr"
)

// The events of a newly written stream.
type messageStart struct {
	Type    string  `json:"type"`
	Message message `json:"message"`
}

type blockStart struct {
	Type         string `json:"type"`
	Index        int    `json:"index"`
	ContentBlock block  `json:"content_block"`
}

type blockDelta struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
	Delta delta  `json:"delta"`
}

type delta struct {
	Type        string    `json:"type"`
	Text        *string   `json:"text,omitempty"`
	PartialJSON *string   `json:"partial_json,omitempty"`
	Thinking    *string   `json:"thinking,omitempty"`
	Signature   *string   `json:"signature,omitempty"`
	Citation    *citation `json:"citation,omitempty"`
}

type blockStop struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
}

type messageDelta struct {
	Type  string   `json:"type"`
	Delta stopping `json:"delta"`
	Usage usage    `json:"usage"`
}

type stopping struct {
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
}

type bare struct {
	Type string `json:"type"`
}

// stream writes an answer: a provider's own events, or new ones. New blocks follow one after the other, as readers
// expect: they add a delta to the block that began last. Other dialects may continue a call or text after another call
// began. One block is therefore written as it arrives, and what belongs to later ones waits until the end.
type stream struct {
	reply   dialect.Reply
	model   *dialect.Renamer
	relayed bool
	stop    []byte // the provider's last event, which waits for the record

	begun bool
	// index is that of the open block, calls are the begun calls in order, and places are their positions by call
	// number.
	index   int
	open    bool
	current *call // nil while the open block is text or thinking
	// thinking reports whether the open block is thinking.
	thinking bool
	calls    []*call
	places   map[int]int
	text     strings.Builder     // text that arrived after a call
	sources  []provider.Citation // sources that arrived after a call
	frame    []byte
	out      []byte
}

// call is a tool call in progress.
type call struct {
	block     block
	arguments strings.Builder // that wait
}

// Stream implements dialect.Writer.
func (Dialect) Stream(reply dialect.Reply) dialect.Stream {
	return &stream{reply: reply, model: dialect.NewRenamer("message.model", reply.Model)}
}

// Event implements dialect.Stream.
func (s *stream) Event(e provider.Event) []byte {
	s.out = s.out[:0]
	if e.Native != nil {
		s.relay(e)
		return s.out
	}
	s.begin()
	if e.Reasoning != "" {
		s.addThinking(e.Reasoning)
	}
	if e.Text != "" {
		s.addText(e.Text)
	}
	s.cite(e.Citations)
	for _, delta := range e.ToolCalls {
		s.addCall(delta)
	}
	return s.out
}

// cite adds sources to the open text block, or opens one for them. Sources that arrive after a call are written by End.
func (s *stream) cite(sources []provider.Citation) {
	if len(sources) == 0 {
		return
	}
	if len(s.calls) > 0 {
		s.sources = append(s.sources, sources...)
		return
	}
	if s.thinking {
		s.finish()
	}
	if !s.open {
		s.start(block{Type: "text", Text: new("")})
	}
	s.writeCitations(sources)
}

func (s *stream) writeCitations(sources []provider.Citation) {
	for _, c := range toCitations(sources) {
		s.delta(delta{Type: "citations_delta", Citation: &c})
	}
}

// relay forwards a provider's event; the last one waits for End.
func (s *stream) relay(e provider.Event) {
	s.relayed = true
	name, frame := e.NativeType, e.Native
	if name == "" { // Servers that only resemble the vendor omit it; SDKs depend on it.
		name = gjson.GetBytes(frame, "type").Str
	}
	switch name {
	case "message_stop":
		s.stop = dialect.AppendData(nil, name, frame)
		return
	case "message_start":
		s.frame = s.model.Append(s.frame[:0], frame)
		frame = s.frame
	}
	s.out = dialect.AppendData(s.out, name, frame)
}

func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.event("message_start", messageStart{"message_start", head(s.reply)})
}

// addThinking adds thinking before the first call; what comes later has no place here.
func (s *stream) addThinking(text string) {
	if len(s.calls) > 0 {
		return
	}
	if !s.thinking {
		s.finish()
		s.thinking = true
		s.start(block{Type: typeThinking, Thinking: new(""), Signature: new("")})
	}
	s.delta(delta{Type: "thinking_delta", Thinking: &text})
}

func (s *stream) addText(text string) {
	if len(s.calls) > 0 {
		s.text.WriteString(text)
		return
	}
	if s.thinking {
		s.finish()
	}
	if !s.open {
		s.start(block{Type: "text", Text: new("")})
	}
	s.delta(delta{Type: "text_delta", Text: &text})
}

func (s *stream) addCall(d provider.ToolCall) {
	c := s.call(d)
	if s.current == nil { // The first call: it is written as it arrives.
		s.finish()
		s.current = c
		s.start(c.block)
	}
	switch {
	case d.Arguments == "":
	case c == s.current:
		s.delta(delta{Type: "input_json_delta", PartialJSON: &d.Arguments})
	default:
		c.arguments.WriteString(d.Arguments)
	}
}

func (s *stream) call(d provider.ToolCall) *call {
	if place, begun := s.places[d.Index]; begun {
		return s.calls[place]
	}
	if s.places == nil {
		s.places = make(map[int]int)
	}
	s.places[d.Index] = len(s.calls)
	c := &call{block: block{Type: "tool_use", ID: d.ID, Name: d.Name, Input: []byte("{}"), ExtraContent: server.WithoutText(d.Extra)}}
	s.calls = append(s.calls, c)
	return c
}

// End implements dialect.Stream.
func (s *stream) End(finish provider.FinishReason, report ledger.Report) []byte {
	s.out = s.out[:0]
	if s.relayed {
		s.out = append(s.out, s.stop...)
		return s.out
	}
	s.begin()
	s.finish()
	if s.text.Len() > 0 || len(s.sources) > 0 {
		s.start(block{Type: "text", Text: new("")})
		s.delta(delta{Type: "text_delta", Text: new(s.text.String())})
		s.writeCitations(s.sources)
		s.finish()
	}
	for i, c := range s.calls {
		if i == 0 {
			continue
		}
		s.start(c.block)
		if c.arguments.Len() > 0 {
			s.delta(delta{Type: "input_json_delta", PartialJSON: new(c.arguments.String())})
		}
		s.finish()
	}
	s.event("message_delta", messageDelta{"message_delta", stopping{StopReason: stopReason(finish)}, toUsage(report)})
	s.event("message_stop", bare{"message_stop"})
	return s.out
}

// start opens the next block, finish closes the open one.
func (s *stream) start(b block) {
	s.open = true
	s.event("content_block_start", blockStart{"content_block_start", s.index, b})
}

func (s *stream) finish() {
	if !s.open {
		return
	}
	if s.thinking {
		s.delta(delta{Type: "signature_delta", Signature: new(vendor.OwnSignature)})
		s.thinking = false
	}
	s.event("content_block_stop", blockStop{"content_block_stop", s.index})
	s.open = false
	s.index++
}

func (s *stream) delta(d delta) {
	s.event("content_block_delta", blockDelta{"content_block_delta", s.index, d})
}

func (s *stream) event(name string, v any) {
	text, err := jsontext.Marshal(v)
	if err != nil {
		return // Only a provider's invalid state fails to marshal; the event is dropped.
	}
	s.out = dialect.AppendData(s.out, name, text)
}

// Fail implements dialect.Stream.
func (s *stream) Fail(err *apierr.Error, requestID string) []byte {
	s.out = s.out[:0]
	s.event("error", ErrorBody(err, requestID))
	return s.out
}

// Ping implements dialect.Stream.
func (s *stream) Ping() []byte { return []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n") }
