package provider

import (
	"bytes"
	"io"
	"iter"
	"strings"

	"switchyard.dev/deploy/fakes/fault"
)

// eventsHead returns the head of a stream without a length.
func eventsHead(t dialect) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: " + t.mediaType() + "\r\nTransfer-Encoding: chunked\r\n\r\n"
}

// streamBehaviours are streams without an end; a request for a whole answer gets the usual one.
var streamBehaviours = []fault.Behaviour{
	endless("endless_event_line", "an event whose data line never ends", func(dialect) (begin, piece string) { return `data: {"a":"`, "xxxxxxxxxxxxxxxx" }),
	endless("endless_event_lines", "an event of data lines that never end", func(dialect) (begin, piece string) { return "", "data: x\n" }),
	endless("endless_comments", "comments that never end, before any content", func(dialect) (begin, piece string) { return "", ": still here\n\n" }),
	endless("endless_blank_lines", "empty lines that never end", func(dialect) (begin, piece string) { return "", "\n" }),
	endless("endless_empty_events", "events without content that never end", func(t dialect) (begin, piece string) { return t.begin, t.textEvent("") }),
	endless("endless_reasoning", "reasoning that never ends", func(t dialect) (begin, piece string) {
		return t.begin, strings.ReplaceAll(t.reasoning, "{text}", "hm, ")
	}),
	endless("endless_text", "a text that never ends", func(t dialect) (begin, piece string) { return t.begin, t.textEvent("word ") }),
	endless("endless_tool_arguments", "arguments in pieces of four bytes that never end", func(t dialect) (begin, piece string) {
		return t.begin + t.callEvent("0"), t.argumentsEvent("0", "abcd")
	}),
	endless("endless_after_done", "an answer, and behind its end a text that never ends", func(t dialect) (begin, piece string) {
		return t.begin + t.textEvent("hostile") + t.endEvents(t.count("1")), t.textEvent("word ")
	}),
	streaming("trickled_comments", "a comment every 50 ms and nothing else", fault.Refused, func(t dialect, c *fault.Conn) {
		c.Send(eventsHead(t))
		for range maxComments {
			c.Send("3\r\n: \n\r\n")
			c.Pause(commentPause)
		}
	}),
	streaming("trickled_text", "an answer whose first events come byte by byte", fault.Open, func(t dialect, c *fault.Conn) {
		text := t.framed(t.begin + t.textEvent("hostile") + t.endEvents(t.count("1")))
		c.Send("HTTP/1.1 200 OK\r\nContent-Type: " + t.mediaType() + "\r\nConnection: close\r\n\r\n")
		c.Trickle(text, 100, commentPause/10)
	}),
}

// endless streams pieces until the client leaves.
func endless(name, effect string, what func(dialect) (begin, piece string)) fault.Behaviour {
	return streaming(name, effect, fault.Open, func(t dialect, c *fault.Conn) {
		begin, piece := what(t)
		c.Send(eventsHead(t))
		c.Chunk(t.framed(begin))
		c.EndlessChunks(t.framed(piece))
	})
}

func streaming(name, effect string, outcome fault.Outcome, write func(dialect, *fault.Conn)) fault.Behaviour {
	return fault.Behaviour{Name: name, Effect: effect, Outcome: outcome, StreamOnly: true, Act: func(x *fault.Exchange) {
		x.Raw(func(c *fault.Conn) { write(dialectOf(x.Request), c) })
	}}
}

// formBehaviours are answers that don't have the vendor's form.
var formBehaviours = []fault.Behaviour{
	behaviour("nested_event", "a text behind which an event is 6.5 million brackets deep", hostileAnswer{
		events: func(t dialect) iter.Seq[string] {
			return once(t.textEvent("hostile") + "data: " + strings.Repeat("[", 65*hostileDepth) + "\n\n")
		},
	}),
	behaviour("after_done", "a stream that goes on behind its end", hostileAnswer{
		after: func(t dialect) string {
			return strings.Repeat(t.textEvent(fault.Stray), 1000) + t.endEvents(t.count("1"))
		},
	}),
	behaviour("begins_twice", "a stream that begins again in the middle", hostileAnswer{
		events: func(t dialect) iter.Seq[string] {
			return once(t.textEvent("hostile") + t.begin + t.textEvent("hostile"))
		},
	}),
	behaviour("text_long", "a text of 1 MB in one piece", hostileAnswer{text: strings.Repeat("word ", 200_000)}),
	behaviour("text_many_pieces", "a text of 100,000 pieces", hostileAnswer{
		events: func(t dialect) iter.Seq[string] { return repeated(t.textEvent("word "), 100_000) },
	}),
	{Name: "never_done", Effect: "a stream that stops without its end", Outcome: fault.Open, StreamOnly: true, Act: func(x *fault.Exchange) {
		t := dialectOf(x.Request)
		x.Writer.Header().Set("Content-Type", t.mediaType())
		_, _ = io.WriteString(x.Writer, t.framed(t.begin+t.textEvent("hostile"))) // the only error is a client that left
	}},
	{Name: "duplicate_keys", Effect: "the fake's own answer, with every key of its first object twice, the first time with another value", Outcome: fault.Open, Act: func(x *fault.Exchange) {
		own := x.Own()
		twice := `{"id":1,"choices":[],"content":[],"candidates":[],"embeddings":null,"usage":null,"model":false,`
		x.Writer.Header().Set("Content-Type", own.Header.Get("Content-Type"))
		_, _ = x.Writer.Write(bytes.ReplaceAll(own.Body, []byte(`{"id":`), []byte(twice+`"id":`))) // as above
	}},
	{Name: "wrong_types", Effect: "the fake's own answer with numbers in the place of its texts' keys", Outcome: fault.Open, Act: func(x *fault.Exchange) {
		own := x.Own()
		x.Writer.Header().Set("Content-Type", own.Header.Get("Content-Type"))
		for _, name := range []string{"content", "parts", "choices", "candidates", "embeddings", "delta", "message"} {
			own.Body = bytes.ReplaceAll(own.Body, []byte(`"`+name+`":`), []byte(`"`+name+`":7,"was":`))
		}
		_, _ = x.Writer.Write(own.Body) // as above
	}},
}
