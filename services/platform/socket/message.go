package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coder/websocket"
)

// piece is how much of a message is passed on at a time, in bytes.
const piece = 32 << 10

// receive calls receive for each message until the connection ends.
func (c *Conn) receive(receive Receive) error {
	for {
		if err := c.one(receive); err != nil {
			return err
		}
	}
}

// one receives one message. Its sender has MessageTime from its first bytes on.
func (c *Conn) one(receive Receive) error {
	ctx, cancel := context.WithCancelCause(c.alive)
	defer cancel(nil)
	kind, message, err := c.socket.Reader(ctx)
	if closed, ok := errors.AsType[websocket.CloseError](err); ok && !c.trusted {
		closed.Reason = ""
		return closed
	}
	if err != nil {
		return err
	}
	if kind != websocket.MessageText {
		return ErrNotText
	}
	clock := time.AfterFunc(c.bounds.MessageTime, func() { cancel(errSlow) })
	defer clock.Stop()
	if err := receive(message); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, message)
	return err
}

// Send sends a text message. A peer that doesn't read it in time is cut.
func (c *Conn) Send(text []byte) error {
	ctx, cancel := context.WithTimeout(c.alive, c.bounds.WriteTime)
	defer cancel()
	if err := c.socket.Write(ctx, websocket.MessageText, text); err != nil {
		c.fail(err)
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

// Pass sends a text message that consists of head and rest, piece by piece: its memory doesn't depend on the message's
// size. A message whose rest can't be read to its end cuts the connection.
func (c *Conn) Pass(head []byte, rest io.Reader) error {
	ctx, cancel := context.WithCancel(c.alive)
	defer cancel()
	clock := time.AfterFunc(c.bounds.WriteTime, cancel)
	defer clock.Stop()
	err := c.pass(ctx, head, &stepped{rest, clock, c.bounds.WriteTime})
	if err != nil {
		c.fail(err)
	}
	return err
}

func (c *Conn) pass(ctx context.Context, head []byte, rest io.Reader) error {
	writer, err := c.socket.Writer(ctx, websocket.MessageText)
	if err != nil {
		return fmt.Errorf("begin message: %w", err)
	}
	if _, err := writer.Write(head); err != nil {
		return fmt.Errorf("pass message: %w", err)
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{writer}, rest, make([]byte, piece)); err != nil {
		return fmt.Errorf("pass message: %w", err)
	}
	return writer.Close()
}

// stepped restarts a clock with each piece that is read.
type stepped struct {
	io.Reader

	clock *time.Timer
	time  time.Duration
}

// Read implements io.Reader.
func (s *stepped) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.clock.Reset(s.time)
	return n, err
}
