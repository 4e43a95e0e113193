package proxy

import (
	"fmt"
	"net/http"
	"time"
)

// piecewise writes a response to a customer, who has a limited time to read each piece; with flush, each piece is
// sent at once.
type piecewise struct {
	w       http.ResponseWriter
	control *http.ResponseController
	time    time.Duration
	flush   bool
}

func (p piecewise) flushHead() error { return p.write(nil) }

func (p piecewise) write(piece []byte) error {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time)) // fails in tests with a recorder
	if len(piece) > 0 {
		if _, err := p.w.Write(piece); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
	if !p.flush {
		return nil
	}
	if err := p.control.Flush(); err != nil {
		return fmt.Errorf("flush answer: %w", err)
	}
	return nil
}
