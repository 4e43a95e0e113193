// Package client is an HTTP/1.1 client with next to no cost, so that a load test on one machine measures the server
// and not itself. It sends a request prepared once over a kept connection and reads the answer; it supports no
// redirects, trailers or HTTP/2. Package drive uses it.
package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Request is a prepared request; it may be sent any number of times, by any
// number of connections.
type Request struct {
	address string
	wire    []byte
	// stamp is the position of Stamp in the body; 0 for none.
	stamp int
}

// Stamp in a body is replaced with the Unix time in nanoseconds whenever the request is sent, so that a receiver can
// compute its age.
const Stamp = "{{now in nanosecs}}"

// now writes the current time over a stamp.
func now(at []byte) { strconv.AppendInt(at[:0], time.Now().UnixNano(), 10) }

// NewRequest prepares a POST of a JSON body.
func NewRequest(target string, header http.Header, body []byte) (*Request, error) {
	at, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("prepare request: %w", err)
	}
	if at.Scheme != "http" || at.Port() == "" {
		return nil, fmt.Errorf("prepare request to %s: want http with a port", target)
	}
	var wire bytes.Buffer
	fmt.Fprintf(&wire, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n",
		at.RequestURI(), at.Host, len(body))
	if err := header.Write(&wire); err != nil {
		return nil, fmt.Errorf("prepare request: %w", err)
	}
	wire.WriteString("\r\n")
	wire.Write(body)
	return &Request{at.Host, wire.Bytes(), max(0, bytes.Index(wire.Bytes(), []byte(Stamp)))}, nil
}

// answerTime bounds one exchange.
const answerTime = 30 * time.Second

// bufferSize holds the answers of most tests whole.
const bufferSize = 16 << 10

// Conn is one connection. Not safe for concurrent use.
type Conn struct {
	conn   net.Conn
	reader *bufio.Reader
	body   []byte
	sent   []byte // a stamped request
}

// Dial opens a connection to the server of a request.
func Dial(ctx context.Context, r *Request) (*Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", r.address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", r.address, err)
	}
	return &Conn{conn: conn, reader: bufio.NewReaderSize(conn, bufferSize)}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Answer is a response. Body is valid until the next exchange.
type Answer struct {
	Status int
	Body   []byte
	// First is when the body's first byte arrived.
	First time.Time
}

var errHead = errors.New("the answer is not HTTP/1.1 that this client supports")

// Do sends a request and reads the whole answer.
func (c *Conn) Do(r *Request) (Answer, error) {
	var answer Answer
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return answer, err
	}
	wire := r.wire
	if r.stamp > 0 {
		c.sent = append(c.sent[:0], r.wire...)
		now(c.sent[r.stamp : r.stamp+len(Stamp)])
		wire = c.sent
	}
	if _, err := c.conn.Write(wire); err != nil {
		return answer, err
	}
	status, length, err := c.head()
	if err != nil {
		return answer, err
	}
	answer.Status = status
	if length != 0 {
		if _, err := c.reader.Peek(1); err != nil {
			return answer, err
		}
	}
	answer.First = time.Now()
	c.body = c.body[:0]
	if length >= 0 {
		err = c.read(length)
	} else {
		err = c.chunks()
	}
	answer.Body = c.body
	return answer, err
}

// head reads the status line and headers; length is -1 for chunks.
func (c *Conn) head() (status, length int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, 0, err
	}
	const code, end = len("HTTP/1.1 "), len("HTTP/1.1 200")
	if len(line) < end || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, errHead
	}
	if status, err = strconv.Atoi(string(line[code:end])); err != nil {
		return 0, 0, errHead
	}
	length = -1
	for {
		if line, err = c.line(); err != nil || len(line) == 0 {
			return status, length, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, 0, errHead
			}
		}
	}
}

func (c *Conn) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

func (c *Conn) read(n int) error {
	at := len(c.body)
	if cap(c.body) < at+n {
		c.body = append(make([]byte, 0, 2*(at+n)), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.reader, c.body[at:])
	return err
}

func (c *Conn) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return errHead
		}
		if err := c.read(int(size)); err != nil {
			return err
		}
		if _, err := c.line(); err != nil || size == 0 {
			return err
		}
	}
}
