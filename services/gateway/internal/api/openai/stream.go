package openai

import (
	"bytes"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// chunk is one piece of a newly written answer.
type chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []chunkChoice `json:"choices"`
	Usage   *usage        `json:"usage,omitempty"`
}

type chunkChoice struct {
	Index        int     `json:"index"`
	Delta        delta   `json:"delta"`
	Logprobs     *string `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role        string       `json:"role,omitempty"`
	Content     *string      `json:"content,omitempty"`
	Annotations []annotation `json:"annotations,omitempty"`
	Images      []picture    `json:"images,omitempty"`
	ToolCalls   []toolCall   `json:"tool_calls,omitempty"`
	// FunctionCall is the predecessor of ToolCalls.
	FunctionCall *callee `json:"function_call,omitempty"`
}

// stream writes an answer: a provider's own chunks, or new ones.
type stream struct {
	dialect Dialect
	reply   dialect.Reply
	id      string
	created int64
	model   *dialect.Renamer
	// relayed and counted report whether provider chunks, and the provider's usage chunk, were sent; begun whether a
	// new chunk was.
	relayed, counted, begun bool
	images                  int // number of images sent
	frame, out              []byte
}

// Stream implements dialect.Writer.
func (d Dialect) Stream(reply dialect.Reply) dialect.Stream {
	return &stream{dialect: d, reply: reply, id: newID("chatcmpl"), created: time.Now().Unix(), model: dialect.NewRenamer("model", reply.Model)}
}

var done = []byte("[DONE]")

// Event implements dialect.Stream.
func (s *stream) Event(e provider.Event) []byte {
	s.out = s.out[:0]
	if e.Native != nil {
		s.relay(e)
	} else {
		s.anew(e)
	}
	return s.out
}

// anew writes a chunk for another dialect's event.
func (s *stream) anew(e provider.Event) {
	d := delta{Annotations: annotations(e.Citations), Images: pictures(e.Images, s.images)}
	s.images += len(e.Images)
	if !s.begun {
		d.Role = "assistant"
	}
	if e.Text != "" || (!s.begun && len(e.ToolCalls) == 0) {
		d.Content = &e.Text
	}
	for _, call := range e.ToolCalls {
		if s.dialect.functions {
			if call.Index == 0 { // Its form has room for one.
				d.FunctionCall = &callee{call.Name, call.Arguments}
			}
			continue
		}
		one := toolCall{Index: &call.Index, ID: call.ID, Function: callee{call.Name, call.Arguments}, ExtraContent: call.Extra}
		if call.ID != "" {
			one.Type = typeFunction
		}
		d.ToolCalls = append(d.ToolCalls, one)
	}
	s.write(chunkChoice{Delta: d})
}

// relay forwards a provider's chunk. The chunk with only the usage exists because the gateway requested it; it is
// forwarded to callers that requested it too.
func (s *stream) relay(e provider.Event) {
	if !s.relayed { // Readers refuse a chunk with another id.
		if id := gjson.GetBytes(e.Native, "id"); id.Str != "" {
			s.id = id.Str
		}
	}
	s.relayed = true
	if bytes.Equal(e.Native, done) {
		return // End writes it once the answer is recorded.
	}
	if e.Usage != nil && gjson.GetBytes(e.Native, "choices.#").Int() == 0 {
		if !s.reply.IncludeUsage {
			return
		}
		s.counted = true
	}
	s.frame = s.model.Append(s.frame[:0], e.Native)
	s.out = dialect.AppendData(s.out, e.NativeType, s.frame)
}

func (s *stream) write(choices ...chunkChoice) {
	s.begun = true
	s.data(chunk{ID: s.id, Object: "chat.completion.chunk", Created: s.created, Model: s.reply.Model, Choices: choices})
}

func (s *stream) data(v any) {
	text, err := jsontext.Marshal(v)
	if err != nil {
		return // Only a provider's invalid state fails to marshal; the chunk is dropped.
	}
	s.out = dialect.AppendData(s.out, "", text)
}

// End implements dialect.Stream.
func (s *stream) End(finish provider.FinishReason, report ledger.Report) []byte {
	s.out = s.out[:0]
	if !s.relayed {
		if !s.begun {
			s.write(chunkChoice{Delta: delta{Role: "assistant", Content: new("")}})
		}
		s.write(chunkChoice{FinishReason: new(s.dialect.finish(finish))})
	}
	if s.reply.IncludeUsage && !s.counted {
		s.data(chunk{
			ID: s.id, Object: "chat.completion.chunk", Created: s.created, Model: s.reply.Model,
			Choices: []chunkChoice{}, Usage: toUsage(report),
		})
	}
	s.out = dialect.AppendData(s.out, "", done)
	return s.out
}

// Fail implements dialect.Stream. The stream ends without [DONE].
func (s *stream) Fail(err *apierr.Error, requestID string) []byte {
	s.out = s.out[:0]
	s.data(ErrorBody(err, requestID))
	return s.out
}

// Ping implements dialect.Stream: a comment.
func (s *stream) Ping() []byte { return []byte(": ping\n\n") }
