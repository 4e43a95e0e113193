package fault

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Depths of nested answers. A recursive JSON check needs the larger one to exceed Go's maximum stack of 1 GB.
const (
	deepNesting    = 100_000
	deepestNesting = 6_500_000
)

// deepBehaviours are answers with excessive nesting.
var deepBehaviours = []Behaviour{
	refused("nested_arrays", "a JSON answer of 100,000 nested arrays", body(func() string {
		return strings.Repeat("[", deepNesting) + strings.Repeat("]", deepNesting)
	})),
	refused("nested_objects", "a JSON answer of 100,000 nested objects", body(func() string {
		return strings.Repeat(`{"a":`, deepNesting) + "1" + strings.Repeat("}", deepNesting)
	})),
	refused("nested_deepest", "6.5 million opening brackets", body(func() string {
		return strings.Repeat("[", deepestNesting)
	})),
	refused("nested_deepest_objects", "1.3 million opened objects, 6.5 MB", body(func() string {
		return strings.Repeat(`{"a":`, deepestNesting/len(`{"a":`))
	})),
}

// endlessBehaviours are answers and heads without an end.
var endlessBehaviours = []Behaviour{
	refused("endless_body", "a JSON text that never ends", endlessBody(`{"a":"`, "xxxxxxxxxxxxxxxx")),
	open("endless_blanks", "a JSON answer with blanks behind it that never end", endlessBody(`{}`, "                ")),
	refused("endless_list", "a JSON list that never ends", endlessBody(`[0`, ",0,0,0,0")),
	refused("endless_head", "header lines that never end", raw(func(c *Conn) {
		c.Send(statusLine(http.StatusOK))
		for i := 0; !c.gone && i < maxEndless/1000; i++ {
			c.Send("X-Filler-" + strconv.Itoa(i) + ": " + strings.Repeat("x", 1000) + "\r\n")
		}
	})),
	refused("endless_header_line", "one header line that never ends", raw(func(c *Conn) {
		c.Send(statusLine(http.StatusOK) + "X-Filler: ")
		c.Endless("xxxxxxxxxxxxxxxx")
	})),
	refused("endless_informational", "103 answers that never end", raw(func(c *Conn) {
		c.Endless("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
	})),
	refused("endless_chunk_extension", "a chunk whose extension never ends", raw(func(c *Conn) {
		c.Send(jsonHead + "Transfer-Encoding: chunked\r\n\r\n2;a=")
		c.Endless("xxxxxxxxxxxxxxxx")
	})),
	open("endless_trailer", "the fake's own answer with trailers that never end", func(x *Exchange) {
		own := x.Own()
		x.Raw(func(c *Conn) {
			c.Send(own.head("Transfer-Encoding: chunked") + chunk(string(own.Body)) + "0\r\n")
			c.Endless("X-Trailer: xxxxxxxxxxxxxxxx\r\n")
		})
	}),
	open("ten_thousand_headers", "the fake's own answer under 10,000 headers", own(func(c *Conn, a Recorded) {
		for i := range 10_000 {
			a.Header.Set("X-H"+strconv.Itoa(i), "v")
		}
		c.Send(a.head(lengthOf(a)) + string(a.Body))
	})),
	served("trickled_body", "the fake's own answer, its first 40 bytes one by one", own(func(c *Conn, a Recorded) {
		c.Send(a.head(lengthOf(a)))
		c.Trickle(string(a.Body), trickled, tricklePause)
	})),
	served("trickled_head", "the fake's own answer, the first 40 bytes of its head one by one", own(func(c *Conn, a Recorded) {
		c.Trickle(a.head(lengthOf(a)), trickled, tricklePause)
		c.Send(string(a.Body))
	})),
}

const (
	trickled     = 40
	tricklePause = 10 * time.Millisecond
)

// jsonHead is the head of a JSON answer; headers may follow.
const jsonHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

// body answers with a text; in a stream of events, the text is the data of an event.
func body(text func() string) func(*Exchange) {
	return func(x *Exchange) {
		kind, prefix := x.form()
		x.Writer.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(x.Writer, prefix+text()+"\n\n") // the only error is a client that left
	}
}

// raw returns an answer that writes to the connection itself.
func raw(write func(*Conn)) func(*Exchange) {
	return func(x *Exchange) { x.Raw(write) }
}

// own returns an answer that writes to the connection itself, given the fake's own answer, and closes it.
func own(write func(*Conn, Recorded)) func(*Exchange) {
	return func(x *Exchange) {
		answer := x.Own()
		answer.Header.Set("Connection", "close")
		x.Raw(func(c *Conn) { write(c, answer) })
	}
}

func endlessBody(begin, piece string) func(*Exchange) {
	return func(x *Exchange) {
		kind, prefix := x.form()
		x.Raw(func(c *Conn) {
			c.Send("HTTP/1.1 200 OK\r\nContent-Type: " + kind + "\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(prefix+begin))
			c.EndlessChunks(piece)
		})
	}
}

// form returns the content type that fits the request, and the prefix of a text in it.
func (x *Exchange) form() (contentType, prefix string) {
	if x.Streams() {
		return "text/event-stream", "data: "
	}
	return "application/json", ""
}

func lengthOf(a Recorded) string { return "Content-Length: " + strconv.Itoa(len(a.Body)) }

// statusText returns a status as it stands in a status line.
func statusText(status int) string {
	return strconv.Itoa(status) + " " + http.StatusText(status)
}
