package smtp

import (
	"bytes"
	"errors"
	"net"
)

// maxReply bounds what the server may send for one command, in bytes: a greeting, a reply of many lines, or the
// certificates of a handshake. RFC 5321 (4.5.3.1.5) limits lines to 512.
const maxReply = 64 << 10

var (
	errLongReply = errors.New("smtp: the server's reply is larger than 65536 bytes")
	errUnasked   = errors.New("smtp: the server sent more than the reply to a command")
)

// boundConn is a connection with bounded server replies. Until it is encrypted it accepts only one reply for the
// greeting and for each command, so that no data from before the handshake is read after it.
type boundConn struct {
	net.Conn

	encrypted bool
	read      int // bytes since the last write
	replied   bool
	surplus   bool
	line      []byte // the beginning of the line in progress
}

// Write begins another exchange. TLS handshake records begin with 22, which no command does.
func (c *boundConn) Write(p []byte) (int, error) {
	if c.surplus {
		return 0, errUnasked
	}
	c.read, c.replied, c.line = 0, false, c.line[:0]
	if len(p) > 0 && p[0] == handshakeRecord {
		c.encrypted = true
	}
	return c.Conn.Write(p)
}

const handshakeRecord = 22

// Read returns at most one reply. Any data after it makes the next command fail.
func (c *boundConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.read += n; c.read > maxReply {
		return 0, errLongReply
	}
	if c.encrypted {
		return n, err
	}
	reply := c.reply(p[:n])
	if reply < n {
		c.surplus = true
	}
	if reply == 0 && c.surplus {
		return 0, errUnasked
	}
	return reply, err
}

// reply returns how many bytes of text belong to the current reply.
func (c *boundConn) reply(text []byte) (n int) {
	for n < len(text) && !c.replied {
		part, _, ends := bytes.Cut(text[n:], []byte{'\n'})
		n += len(part)
		if room := lastOfCode - len(c.line); room > 0 {
			c.line = append(c.line, part[:min(room, len(part))]...)
		}
		if ends {
			n++
			c.replied = len(c.line) < lastOfCode || c.line[lastOfCode-1] != '-' // as in "250-", which means that more lines follow
			c.line = c.line[:0]
		}
	}
	return n
}

const lastOfCode = 4
