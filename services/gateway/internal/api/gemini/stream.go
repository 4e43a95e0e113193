package gemini

import (
	"bytes"
	"encoding/json"
	"strings"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// stream writes an answer: a provider's own chunks, or new ones. Texts are written as they arrive. A call is whole in
// this API, so calls wait for the end. A provider's chunk with a finish reason waits until the next one or the end, so
// that an answer is complete only once it is recorded.
type stream struct {
	writer

	reply   dialect.Reply
	id      string
	model   *dialect.Renamer
	relayed bool
	held    []byte // a provider's chunk that waits
	calls   []*call
	places  map[int]int // positions of calls by their number
	sources []provider.Citation
	begun   bool // an element of the array was written
	frame   []byte
	out     []byte
}

// call is a call in progress.
type call struct {
	id, name  string
	extra     json.RawMessage
	arguments strings.Builder
}

// Stream implements dialect.Writer.
func (w writer) Stream(reply dialect.Reply) dialect.Stream {
	return &stream{writer: w, reply: reply, id: newID(), model: dialect.NewRenamer(modelPath, reply.Model)}
}

// ContentType returns the media type of the stream.
func (s *stream) ContentType() string {
	if s.array {
		return "application/json"
	}
	return "text/event-stream"
}

var finishName = []byte(`"finishReason"`)

// Event implements dialect.Stream.
func (s *stream) Event(e provider.Event) []byte {
	s.out = s.out[:0]
	if e.Native != nil {
		s.relayed = true
		s.release()
		if bytes.Contains(e.Native, finishName) {
			s.held = append(s.held[:0], e.Native...)
			return s.out
		}
		s.relay(e.Native)
		return s.out
	}
	if s.relayed { // An event of the gateway alone.
		return s.out
	}
	if e.Reasoning != "" && s.thoughts {
		s.chunk(newResponse(s.reply.Model, s.id, []answerPart{thought(e.Reasoning)}))
	}
	if e.Text != "" {
		s.chunk(newResponse(s.reply.Model, s.id, []answerPart{{Text: &e.Text}}))
	}
	for _, uri := range e.Images {
		s.chunk(newResponse(s.reply.Model, s.id, []answerPart{imagePart(uri)}))
	}
	s.sources = append(s.sources, e.Citations...)
	for _, delta := range e.ToolCalls {
		s.add(delta)
	}
	return s.out
}

// release writes the chunk that waits.
func (s *stream) release() {
	if len(s.held) > 0 {
		s.relay(s.held)
		s.held = s.held[:0]
	}
}

// relay forwards a provider's chunk with the caller's name of the model, on one line: SDKs read no other.
func (s *stream) relay(chunk []byte) {
	s.frame = s.model.Append(s.frame[:0], chunk)
	if bytes.IndexByte(s.frame, '\n') >= 0 {
		var line bytes.Buffer
		if json.Compact(&line, s.frame) == nil {
			s.frame = append(s.frame[:0], line.Bytes()...)
		}
	}
	s.write(s.frame)
}

func (s *stream) add(d provider.ToolCall) {
	place, begun := s.places[d.Index]
	if !begun {
		if s.places == nil {
			s.places = make(map[int]int)
		}
		place = len(s.calls)
		s.places[d.Index] = place
		s.calls = append(s.calls, &call{id: d.ID, name: d.Name, extra: d.Extra})
	}
	s.calls[place].arguments.WriteString(d.Arguments)
}

// End implements dialect.Stream.
func (s *stream) End(finish provider.FinishReason, report ledger.Report) []byte {
	s.out = s.out[:0]
	if s.relayed {
		s.release()
	} else {
		var parts []answerPart
		for _, c := range s.calls {
			parts = append(parts, callPart(c.id, c.name, c.arguments.String(), c.extra))
		}
		r := newResponse(s.reply.Model, s.id, parts)
		r.Candidates[0].Finish, r.Usage = finishReason(finish), toUsage(report)
		r.Candidates[0].Grounding = toGrounding("", s.sources)
		s.chunk(r)
	}
	s.finish()
	return s.out
}

// finish ends the array.
func (s *stream) finish() {
	if !s.array {
		return
	}
	if !s.begun {
		s.out = append(s.out, '[')
	}
	s.out = append(s.out, "]\n"...)
}

func (s *stream) chunk(v any) {
	text, err := jsontext.Marshal(v)
	if err != nil {
		return // Only a provider's invalid state fails to marshal; the chunk is dropped.
	}
	s.write(text)
}

// write appends a chunk as an event or as an element of the array.
func (s *stream) write(text []byte) {
	switch {
	case !s.array:
		s.out = append(append(append(s.out, "data: "...), text...), lineEnds...)
		return
	case s.begun:
		s.out = append(s.out, ",\r\n"...)
	default:
		s.out = append(s.out, '[')
	}
	s.begun = true
	s.out = append(s.out, text...)
}

// lineEnds end an event, as this API writes them.
const lineEnds = "\r\n\r\n"

// Fail implements dialect.Stream.
func (s *stream) Fail(err *apierr.Error, requestID string) []byte {
	s.out = s.out[:0]
	s.chunk(ErrorBody(err, requestID))
	s.finish()
	return s.out
}

// Ping implements dialect.Stream. It is empty lines: SDKs take a comment for an error.
func (s *stream) Ping() []byte {
	if s.array {
		return []byte("\n")
	}
	return []byte(lineEnds)
}
