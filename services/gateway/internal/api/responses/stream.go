package responses

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// stream writes the events of an answer that another dialect gave. Clients demand the whole ladder: each item is added,
// grows, is done with all that it holds, and is in the terminal event once more.
type stream struct {
	exchange *Exchange
	model    string
	sequence int
	begun    bool
	// items are the items in the order of their output index; nil until one is done.
	items []json.RawMessage
	// writing is the text or reasoning that grows now; nil for none.
	writing *textItem
	// characters is the length of the answer's text so far, in characters.
	characters int
	// calls are the calls in order, and places their positions by the stream's index. A call stays open until the end,
	// since others may be continued in between.
	calls  []*callItem
	places map[int]int
	// relayed reports whether a vendor's own events were forwarded; last is the last of them, which waits for the record.
	relayed    bool
	last       []byte
	lastName   string
	frame, out []byte
}

// Stream implements dialect.Writer.
func (x *Exchange) Stream(reply dialect.Reply) dialect.Stream {
	return &stream{exchange: x, model: reply.Model}
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
		s.grow(typeReasoning, e.Reasoning)
	}
	if e.Text != "" {
		s.grow(typeMessage, e.Text)
		s.written(e.Text)
	}
	s.annotate(e.Citations)
	for _, uri := range e.Images {
		s.image(uri)
	}
	for i := range e.ToolCalls {
		s.call(&e.ToolCalls[i])
	}
	return s.out
}

// begin writes the events before the first item.
func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.lifecycle("response.created", s.exchange.object(s.model, statusInProgress))
	s.lifecycle("response.in_progress", s.exchange.object(s.model, statusInProgress))
}

// grow appends to the text or the reasoning that is written, or begins a new one.
func (s *stream) grow(kind, text string) {
	if s.writing == nil || s.writing.kind != kind {
		s.close(statusCompleted, "")
		s.writing = s.newText(kind)
	}
	s.writing.text = append(s.writing.text, text...)
	s.delta(s.writing.prefix, text)
}

// close ends the text or the reasoning that is written. sealed is state that belongs to the reasoning.
func (s *stream) close(status, sealed string) {
	if s.writing != nil {
		s.endText(s.writing, status, sealed)
		s.writing = nil
	}
}

// End implements dialect.Stream.
func (s *stream) End(finish provider.FinishReason, report ledger.Report) []byte {
	s.out = s.out[:0]
	if s.relayed {
		s.endRelay()
		return s.out
	}
	s.begin()
	r := s.exchange.object(s.model, statusInProgress)
	r.finish(finish, report, time.Now())
	if len(s.items) == 0 {
		s.writing = s.newText(typeMessage)
	}
	s.close(r.Status, "")
	s.endCalls(r.Status)
	r.Output = s.items
	text, err := s.exchange.kept(func() (json.RawMessage, error) {
		r.echo = s.exchange.echo
		return jsontext.Marshal(r)
	})
	if err == nil { // Items consist of texts and of JSON that was checked.
		s.holding("response."+r.Status, text)
	}
	return s.out
}

// Fail implements dialect.Stream. Some clients learn the reason from the one event, some from the other.
func (s *stream) Fail(err *apierr.Error, requestID string) []byte {
	s.out = s.out[:0]
	s.begin()
	code, message := openai.ErrorCode(err), failureText(err)
	s.event("error", func(out []byte) []byte {
		out = jsontext.AppendText(append(out, `,"code":`...), code)
		out = jsontext.AppendText(append(out, `,"message":`...), message)
		if field := err.Field(); field != "" {
			out = jsontext.AppendText(append(out, `,"param":`...), field)
		} else {
			out = append(out, `,"param":null`...)
		}
		return jsontext.AppendText(append(out, `,"request_id":`...), requestID)
	})
	r := s.exchange.object(s.model, statusFailed)
	r.Error = &failure{code, message}
	for _, item := range s.items {
		if item != nil {
			r.Output = append(r.Output, item)
		}
	}
	s.lifecycle("response.failed", r)
	return s.out
}

// failureText returns an error's text, with the wait in words: clients read it there and retry. So the text of an error
// that must not be retried has none.
func failureText(e *apierr.Error) string {
	if e.Kind == apierr.KindRateLimited && e.ErrorClass().Retryable() && e.RetryAfter > 0 {
		return strings.TrimSuffix(e.Text, ".") + ". Please try again in " + strconv.FormatFloat(e.RetryAfter.Seconds(), 'f', -1, 64) + "s."
	}
	return e.Text
}

// Ping implements dialect.Stream: a comment.
func (s *stream) Ping() []byte { return []byte(": ping\n\n") }

// lifecycle writes an event that holds the whole response.
func (s *stream) lifecycle(name string, r *response) {
	text, err := jsontext.Marshal(r)
	if err != nil {
		return // Only a request's invalid JSON fails to marshal, and that was refused.
	}
	s.holding(name, text)
}

// holding writes an event that holds a response.
func (s *stream) holding(name string, response json.RawMessage) {
	s.event(name, func(out []byte) []byte { return append(append(out, `,"response":`...), response...) })
}

// event writes an event with its type and number; body appends its other members.
func (s *stream) event(name string, body func(out []byte) []byte) {
	s.out = append(append(append(s.out, "event: "...), name...), "\ndata: {\"type\":\""...)
	s.out = append(append(s.out, name...), `","sequence_number":`...)
	s.out = strconv.AppendInt(s.out, int64(s.sequence), 10)
	s.sequence++
	s.out = append(body(s.out), "}\n\n"...)
}

// delta writes an event that appends text to an item. prefix is all before the number; see deltaPrefix.
func (s *stream) delta(prefix []byte, text string) {
	s.out = strconv.AppendInt(append(s.out, prefix...), int64(s.sequence), 10)
	s.sequence++
	s.out = jsontext.AppendText(append(s.out, `,"delta":`...), text)
	s.out = append(s.out, "}\n\n"...)
}

// deltaPrefix returns what the deltas of an item begin with, up to their number. place are the members that say where
// the text belongs.
func deltaPrefix(name, itemID, place string) []byte {
	return []byte("event: " + name + "\ndata: {\"type\":\"" + name + `","item_id":"` + itemID + `",` + place + `,"sequence_number":`)
}
