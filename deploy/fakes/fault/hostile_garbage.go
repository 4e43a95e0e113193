package fault

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

// bombSize is the decompressed size of the compressed answer.
const bombSize = 256 << 20

// garbageBehaviours are answers that don't match their headers, or aren't HTTP.
var garbageBehaviours = []Behaviour{
	open("invalid_utf8", "the fake's own answer with bytes in it that aren't UTF-8", mangled("\xff\xfe\xc0\x80")),
	open("nul_bytes", "the fake's own answer with NUL bytes in it", mangled("\x00\x00")),
	open("escaped_nul", "the fake's own answer with escaped NULs and lone surrogates in it", mangled(`\u0000\ud800`)),
	open("byte_order_mark", "the fake's own answer behind a byte order mark", changed(func(a *Recorded) {
		a.Body = append([]byte("\xef\xbb\xbf"), a.Body...)
	})),
	open("content_type_html", "the fake's own answer as text/html", typed("text/html")),
	open("content_type_none", "the fake's own answer without a content type", typed("")),
	open("content_type_garbage", "the fake's own answer under an invalid content type", typed(";;;"+strings.Repeat("x", 1000))),
	open("gzip_unasked", "the fake's own answer compressed, whether the client accepts that or not", changed(func(a *Recorded) {
		a.Header.Set("Content-Encoding", "gzip")
		a.Body = zipped(a.Body)
	})),
	open("gzip_pretended", "the fake's own answer uncompressed, with the header of a compressed one", changed(func(a *Recorded) {
		a.Header.Set("Content-Encoding", "gzip")
	})),
	refused("gzip_bomb", "256 MiB of zeros, compressed", func(x *Exchange) {
		x.Writer.Header().Set("Content-Encoding", "gzip")
		x.Writer.Header().Set("Content-Type", "application/json")
		packer := gzip.NewWriter(x.Writer)
		zeros := make([]byte, endlessPiece)
		for sent := 0; sent < bombSize; sent += len(zeros) {
			if _, err := packer.Write(zeros); err != nil {
				return // the client left
			}
		}
		_ = packer.Close()
	}),
	refused("empty", "200 without a body", func(x *Exchange) { x.Writer.WriteHeader(http.StatusOK) }),
	refused("no_content", "204", func(x *Exchange) { x.Writer.WriteHeader(http.StatusNoContent) }),
	refused("status_999", "the fake's own answer under status 999", own(func(c *Conn, a Recorded) {
		a.Status = 999
		c.Send(a.head(lengthOf(a)) + string(a.Body))
	})),
	refused("status_garbage", "an invalid status line", raw(func(c *Conn) { c.Send("HTTP/1.1 OK\r\n\r\n{}") })),
	refused("another_protocol", "bytes of another protocol", raw(func(c *Conn) { c.Send("SSH-2.0-hostile\r\n" + strings.Repeat("\x00", 4096)) })),
	refused("header_garbage", "a header without a colon", raw(func(c *Conn) { c.Send(jsonHead + "nonsense\r\n\r\n{}") })),
	open("header_injection", "the fake's own answer under headers with bare line feeds and NULs", own(func(c *Conn, a Recorded) {
		c.Send(a.head("X-A: b\nX-C: d\x00", lengthOf(a)) + string(a.Body))
	})),
}

// changed answers with the fake's own answer after a change.
func changed(change func(*Recorded)) func(*Exchange) {
	return own(func(c *Conn, a Recorded) {
		change(&a)
		c.Send(a.head(lengthOf(a)) + string(a.Body))
	})
}

func typed(contentType string) func(*Exchange) {
	return changed(func(a *Recorded) {
		a.Header.Del("Content-Type")
		if contentType != "" {
			a.Header.Set("Content-Type", contentType)
		}
	})
}

// mangled inserts bytes into a text of the fake's own answer: the assistant's text, or the first text.
func mangled(with string) func(*Exchange) {
	return changed(func(a *Recorded) {
		at := bytes.Index(a.Body, []byte("said"))
		if at < 0 {
			at = bytes.IndexByte(a.Body, '"') + 1
		}
		a.Body = bytes.Join([][]byte{a.Body[:at], []byte(with), a.Body[at:]}, nil)
	})
}

func zipped(text []byte) []byte {
	var out bytes.Buffer
	packer := gzip.NewWriter(&out)
	_, _ = packer.Write(text) // a buffer takes everything
	_ = packer.Close()
	return out.Bytes()
}

// cutBehaviours end the connection at each kind of position in an answer.
func cutBehaviours() []Behaviour {
	cut := func(name, effect string, at func(head string, body []byte) string) Behaviour {
		return refused("cut_"+name, "the connection ends "+effect, own(func(c *Conn, a Recorded) {
			c.Send(at(a.head("Transfer-Encoding: chunked"), a.Body))
		}))
	}
	// A stream that has sent its end may be taken as whole.
	late := func(name, effect string, at func(head string, body []byte) string) Behaviour {
		b := cut(name, effect, at)
		b.Outcome = Open
		return b
	}
	whole := func(head string, body []byte) string { return head + chunk(string(body)) }
	half := func(text []byte) string { return string(text[:len(text)/2]) }
	return []Behaviour{
		cut("at_once", "before any byte", func(string, []byte) string { return "" }),
		cut("status", "in the status line", func(head string, _ []byte) string { return head[:len("HTTP/1.")] }),
		cut("status_end", "behind the status line", func(head string, _ []byte) string { return head[:strings.Index(head, "\r\n")+2] }),
		cut("header", "in a header", func(head string, _ []byte) string { return head[:len(head)-6] }),
		cut("head_end", "before the empty line", func(head string, _ []byte) string { return head[:len(head)-2] }),
		cut("body_begin", "behind the head", func(head string, _ []byte) string { return head }),
		cut("chunk_length", "in a chunk's length", func(head string, _ []byte) string { return head + "1f" }),
		cut("chunk_begin", "behind a chunk's length", func(head string, _ []byte) string { return head + "1f\r\n" }),
		cut("chunk", "within a chunk", func(head string, body []byte) string {
			text := whole(head, body)
			return text[:len(text)-len(body)/2]
		}),
		cut("half", "between two chunks, half of the body sent", func(head string, body []byte) string { return head + chunk(half(body)) }),
		late("chunk_end", "before a chunk's line end", func(head string, body []byte) string { return strings.TrimSuffix(whole(head, body), "\r\n") }),
		late("body_end", "before the last chunk, the body sent whole", whole),
		late("last_chunk", "within the last chunk", func(head string, body []byte) string { return whole(head, body) + "0\r" }),
		late("trailer", "before the last empty line", func(head string, body []byte) string { return whole(head, body) + "0\r\n" }),
	}
}
