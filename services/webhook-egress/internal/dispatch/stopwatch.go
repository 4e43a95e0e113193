package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// stopwatch records when the phases of a request happen. A dial may outlive its request and still report, hence the
// lock.
type stopwatch struct {
	mu                sync.Mutex
	start             time.Time
	dns, connect, tls span
	firstByte         time.Time
	remote            string
	secured           bool
}

type span struct{ from, to time.Time }

func (s span) length() time.Duration {
	if s.from.IsZero() || s.to.IsZero() {
		return 0
	}
	return s.to.Sub(s.from)
}

func newStopwatch() *stopwatch { return &stopwatch{start: time.Now()} }

// attach returns a context whose requests report to w.
func (w *stopwatch) attach(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { w.note(func(now time.Time) { w.dns.from = now }) },
		DNSDone:      func(httptrace.DNSDoneInfo) { w.note(func(now time.Time) { w.dns.to = now }) },
		ConnectStart: func(string, string) { w.note(w.dialling) },
		ConnectDone: func(_, _ string, err error) {
			w.note(func(now time.Time) {
				if err == nil {
					w.connect.to = now
				}
			})
		},
		TLSHandshakeStart: func() { w.note(func(now time.Time) { w.tls.from = now }) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			w.note(func(now time.Time) { w.tls.to, w.secured = now, err == nil })
		},
		GotConn: func(info httptrace.GotConnInfo) {
			w.note(func(time.Time) {
				w.remote = addressOf(info.Conn)
				if info.Reused { // The phases of a dial that was started for this request but serves another one do not count.
					w.dns, w.connect, w.tls = span{}, span{}, span{}
				}
			})
		},
		GotFirstResponseByte: func() { w.note(func(now time.Time) { w.firstByte = now }) },
	})
}

func (w *stopwatch) note(what func(now time.Time)) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	what(now)
}

// dialling records the first of several addresses tried.
func (w *stopwatch) dialling(now time.Time) {
	if w.connect.from.IsZero() {
		w.connect.from = now
	}
}

// result returns what has been recorded so far.
func (w *stopwatch) result() (delivery.Timing, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	timing := delivery.Timing{
		DNS: w.dns.length(), Connect: w.connect.length(), TLS: w.tls.length(), Total: time.Since(w.start),
	}
	if !w.firstByte.IsZero() {
		timing.FirstByte = w.firstByte.Sub(w.start)
	}
	return timing, w.remote
}

// fault returns a code that shows the customer which phase failed, and nothing about what lies behind the target.
func (w *stopwatch) fault(err error) delivery.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, refused := errors.AsType[*netguard.Refusal](err); refused {
		return delivery.FaultTarget
	}
	if _, lookup := errors.AsType[*net.DNSError](err); lookup {
		return delivery.FaultDNS
	}
	timeout, _ := errors.AsType[net.Error](err)
	op, _ := errors.AsType[*net.OpError](err)
	switch {
	case timeout != nil && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return delivery.FaultTimeout
	case !w.tls.from.IsZero() && !w.secured:
		return delivery.FaultTLS
	case op != nil && op.Op == "dial":
		return delivery.FaultConnect
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return delivery.FaultReset
	}
	return delivery.FaultResponse
}
