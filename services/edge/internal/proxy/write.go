package proxy

import (
	"fmt"
	"net/http"
	"time"
)

// piecewise writes an answer to a customer, who gets some time to take each
// piece; with flush set each leaves at once.
type piecewise struct {
	w       http.ResponseWriter
	control *http.ResponseController
	time    time.Duration
	flush   bool
}

func (p piecewise) flushHead() error { return p.write(nil) }

func (p piecewise) write(piece []byte) error {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time)) // not there in tests with a recorder
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
