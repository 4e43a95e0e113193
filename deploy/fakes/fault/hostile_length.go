package fault

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Stray is the text of every second answer, which no request asked for. A client must never pass it to a caller.
const Stray = "an unrequested answer"

// lengthBehaviours announce wrong lengths.
var lengthBehaviours = []Behaviour{
	open("length_too_long", "a Content-Length of more than what comes before the connection ends", own(func(c *Conn, a Recorded) {
		c.Send(a.head("Content-Length: "+strconv.Itoa(len(a.Body)+1)) + string(a.Body))
	})),
	open("length_never_reached", "a Content-Length of more than what comes, and silence", own(func(c *Conn, a Recorded) {
		c.Send(a.head("Content-Length: "+strconv.Itoa(len(a.Body)+1)) + string(a.Body))
		c.HoldUntilLeft()
	})),
	refused("length_too_short", "a Content-Length of half of the body; the rest comes behind the answer", kept(func(c *Conn, a Recorded) {
		c.Send(a.head("Content-Length: "+strconv.Itoa(len(a.Body)/2)) + string(a.Body))
	})),
	refused("length_negative", "a negative Content-Length", lengthLine("-1")),
	open("length_absurd", "a Content-Length of 9223372036854775807", lengthLine("9223372036854775807")),
	refused("length_twice", "two Content-Lengths that differ", own(func(c *Conn, a Recorded) {
		c.Send(a.head(lengthOf(a), "Content-Length: 1") + string(a.Body))
	})),
	open("length_beside_chunks", "a Content-Length of 1 beside a chunked body", own(func(c *Conn, a Recorded) {
		c.Send(a.head("Content-Length: 1", "Transfer-Encoding: chunked") + chunk(string(a.Body)) + "0\r\n\r\n")
	})),
	refused("chunk_absurd", "a chunk of 2^64 bytes and more", chunkLine("fffffffffffffffff")),
	refused("chunk_negative", "a chunk of -1 bytes", chunkLine("-1")),
	refused("chunk_garbage", "a chunk whose length isn't a number", chunkLine("zz")),
}

func lengthLine(length string) func(*Exchange) {
	return own(func(c *Conn, a Recorded) { c.Send(a.head("Content-Length: "+length) + string(a.Body)) })
}

func chunkLine(length string) func(*Exchange) {
	return own(func(c *Conn, a Recorded) {
		c.Send(a.head("Transfer-Encoding: chunked") + length + "\r\n" + string(a.Body) + "\r\n0\r\n\r\n")
	})
}

// surplusBehaviours send the fake's own answer whole, and further bytes behind it on a connection that stays open.
var surplusBehaviours = []Behaviour{
	alone("second_answer", "the fake's own answer, and a second one behind it", kept(func(c *Conn, a Recorded) {
		c.Send(a.head(lengthOf(a)) + string(a.Body) + stray(a))
	})),
	alone("second_answer_large", "the fake's own answer filled up to 32 KB, and a second one behind it", kept(func(c *Conn, a Recorded) {
		a.Body = append(a.Body, strings.Repeat("\n", largeAnswer)...)
		c.Send(a.head(lengthOf(a)) + string(a.Body) + stray(a))
	})),
	alone("second_answer_late", "the fake's own answer, and after a moment a second one", kept(func(c *Conn, a Recorded) {
		c.Send(a.head(lengthOf(a)) + string(a.Body))
		c.Pause(surplusPause)
		if !c.ReceivedMore() { // or else it would answer that request
			c.Send(stray(a))
		}
	})),
	alone("second_answer_chunked", "the fake's own answer in chunks, and a second one behind it", kept(func(c *Conn, a Recorded) {
		c.Send(a.head("Transfer-Encoding: chunked") + chunk(string(a.Body)) + "0\r\n\r\n" + stray(a))
	})),
	alone("surplus_bytes", "the fake's own answer, and bytes behind it that are no answer", kept(func(c *Conn, a Recorded) {
		c.Send(a.head(lengthOf(a)) + string(a.Body) + strings.Repeat("\x00"+Stray, 100))
	})),
	alone("surplus_informational", "the fake's own answer, and a 100 behind it", kept(func(c *Conn, a Recorded) {
		c.Send(a.head(lengthOf(a)) + string(a.Body) + "HTTP/1.1 100 Continue\r\n\r\n")
	})),
}

const (
	largeAnswer  = 32 << 10
	surplusPause = 3 * time.Millisecond
)

// kept returns an answer that leaves the connection open.
func kept(write func(*Conn, Recorded)) func(*Exchange) {
	return func(x *Exchange) { x.Kept(write) }
}

// stray returns a well-formed second answer of the same kind as the first, with Stray in the place of the assistant's
// text.
func stray(a Recorded) string {
	text := strings.ReplaceAll(string(a.Body), "You said:", Stray+":")
	text = strings.ReplaceAll(text, `"You"`, `"`+Stray+`"`)
	if !strings.Contains(text, Stray) {
		text = fmt.Sprintf(`{"stray":%q}`, Stray)
	}
	a.Body = []byte(text)
	return a.head(lengthOf(a)) + text
}

// refusalBehaviours refuse the request, most of them before its body is read.
var refusalBehaviours = []Behaviour{
	refusedEarly("early_429", "429 with Retry-After 1 before the body is read, and the connection closed", early(429, "1", false)),
	refusedEarly("early_429_held", "429 with Retry-After 1 before the body is read, which never is", early(429, "1", true)),
	refusedEarly("early_413", "413 before the body is read, and the connection closed", early(413, "", false)),
	refusedEarly("early_413_held", "413 before the body is read, which never is", early(413, "", true)),
	refusedEarly("early_503_held", "503 with Retry-After 1 before the body is read, which never is", early(503, "1", true)),
	refused("retry_after_huge", "429 with a Retry-After of 10^30 seconds", refusal(429, "1"+strings.Repeat("0", 30))),
	refused("retry_after_overflow", "429 with a Retry-After of 2^63-1 seconds", refusal(429, "9223372036854775807")),
	refused("retry_after_negative", "429 with a Retry-After of -5", refusal(429, "-5")),
	refused("retry_after_date", "503 with a Retry-After in the year 9999", refusal(503, "Fri, 31 Dec 9999 23:59:59 GMT")),
	refused("retry_after_garbage", "429 with a Retry-After of 1e400", refusal(429, "1e400")),
	refused("retry_after_long", "429 with a Retry-After of 60,000 digits", refusal(429, strings.Repeat("9", 60_000))),
	refused("redirect_metadata", "a redirect to the cloud's metadata", redirect(302, "http://169.254.169.254/latest/meta-data/")),
	refused("redirect_loopback", "a redirect, with the body, to a port of the client's machine", redirect(307, "http://127.0.0.1:1/")),
	refused("redirect_file", "a redirect to a file", redirect(308, "file:///etc/passwd")),
	refused("redirect_to_self", "a redirect to itself", func(x *Exchange) { redirect(307, x.Request.URL.Path)(x) }),
	refused("switching_protocols", "101 to a protocol that the client didn't request", raw(func(c *Conn) {
		c.Send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: hostile\r\n\r\n")
		c.HoldUntilLeft()
	})),
}

// early refuses by hand: net/http would read a part of the body first.
func early(status int, retryAfter string, held bool) func(*Exchange) {
	return raw(func(c *Conn) {
		head := statusLine(status)
		if retryAfter != "" {
			head += "Retry-After: " + retryAfter + "\r\n"
		}
		c.Send(head + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		if held {
			c.Hold()
		}
	})
}

func refusal(status int, retryAfter string) func(*Exchange) {
	return func(x *Exchange) {
		x.Writer.Header().Set("Retry-After", retryAfter)
		x.Writer.WriteHeader(status)
	}
}

func redirect(status int, to string) func(*Exchange) {
	return func(x *Exchange) {
		x.Writer.Header()["Location"] = []string{to}
		x.Writer.WriteHeader(status)
	}
}
