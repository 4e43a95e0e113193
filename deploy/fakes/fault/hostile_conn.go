package fault

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// A behaviour without an end sends at most endlessRate bytes a second, so that
	// the fake leaves the processors to those it is to try.
	endlessPiece = 64 << 10
	endlessPause = 2 * time.Millisecond
	// maxHostile bounds the time of one behaviour.
	maxHostile = time.Minute
	// maxTurns is how many requests one connection is answered with surplus bytes.
	maxTurns = 1000
	// maxHold bounds how long a connection is kept on which nothing moves: that the
	// client has left can't be seen without reading.
	maxHold = 15 * time.Second
)

// Conn is a connection taken over from net/http. A client that left makes the
// following calls do nothing.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
	ctx  context.Context //nolint:containedctx // lives as long as the call
	gone bool
}

// Raw takes the connection over and closes it after say. It does not return:
// net/http has nothing left to do.
func (x *Exchange) Raw(say func(*Conn)) {
	conn, buffered, err := http.NewResponseController(x.Writer).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer closeWith(x.Request.Context(), conn)()
	_ = conn.SetDeadline(time.Now().Add(maxHostile))
	say(&Conn{conn: conn, in: buffered.Reader, ctx: x.Request.Context()})
	panic(http.ErrAbortHandler)
}

// Say sends a text.
func (c *Conn) Say(text string) {
	if c.gone {
		return
	}
	_, err := io.WriteString(c.conn, text)
	c.gone = err != nil
}

// Rest pauses.
func (c *Conn) Rest(d time.Duration) {
	c.gone = c.gone || !wait(c.ctx, int(d.Milliseconds()))
}

// Trickle sends a text byte by byte with a pause after each, but at most most of
// them so, and the rest at once.
func (c *Conn) Trickle(text string, most int, pause time.Duration) {
	most = min(most, len(text))
	for i := range most {
		c.Say(text[i : i+1])
		c.Rest(pause)
	}
	c.Say(text[most:])
}

// Endless repeats a piece until the client leaves, at a bounded rate and at most
// 1 GiB of it.
func (c *Conn) Endless(piece string) {
	block := strings.Repeat(piece, max(endlessPiece/max(len(piece), 1), 1))
	for sent := 0; sent < maxEndless && !c.gone; sent += len(block) {
		c.Say(block)
		c.Rest(endlessPause)
	}
}

// EndlessChunks is Endless in chunks of a chunked body.
func (c *Conn) EndlessChunks(piece string) {
	block := strings.Repeat(piece, max(endlessPiece/max(len(piece), 1), 1))
	c.Endless(chunk(block))
}

// Chunk sends a chunk of a chunked body, nothing for an empty text.
func (c *Conn) Chunk(text string) {
	if text != "" {
		c.Say(chunk(text))
	}
}

// Hold keeps the connection open for fifteen seconds without reading from it or
// writing to it.
func (c *Conn) Hold() { c.Rest(maxHold) }

// HoldUntilLeft keeps the connection open and discards what comes, until the client
// leaves or after a minute.
func (c *Conn) HoldUntilLeft() {
	_, _ = io.Copy(io.Discard, io.LimitReader(c.in, maxEndless))
	c.gone = true
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// Turns answers the call, and then every further request on the same connection, in
// the same way: say gets the fake's own answer to each.
func (x *Exchange) Turns(say func(*Conn, Recorded)) {
	x.Raw(func(c *Conn) {
		for range maxTurns {
			say(c, x.Own())
			if c.gone || !x.next(c) {
				return
			}
		}
	})
}

// next reads the next request of a connection.
func (x *Exchange) next(c *Conn) bool {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return false
	}
	defer func() { _ = r.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(r.Body, maxEndless)); err != nil {
		return false
	}
	r = r.WithContext(x.Request.Context())
	_, r.URL.Path = hostilePath(r.URL.Path)
	x.Request, x.Body = r, body.Bytes()
	return true
}
