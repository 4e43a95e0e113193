package socket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// ClosedError is why a connection ends. Its close frame says it.
type ClosedError struct {
	Code websocket.StatusCode
	// Reason is for people, at most 123 bytes.
	Reason string
}

// Error implements error.
func (e *ClosedError) Error() string { return fmt.Sprintf("closed with %d: %s", e.Code, e.Reason) }

// The endings of this package. Clients connect again after 1001 and 1012 (RFC 6455, section 7.4.1).
var (
	// ErrDrained ends the connections of a service that stops.
	ErrDrained = &ClosedError{websocket.StatusServiceRestart, "the service is stopping; connect again"}
	// ErrStale ends a connection whose caller's rights or limits have changed since it was opened.
	ErrStale = &ClosedError{websocket.StatusServiceRestart, "the connection was opened with other terms; connect again"}
	// ErrAged ends a connection that is older than Bounds.Life, ErrUnused one without a message for Bounds.Idle.
	ErrAged   = &ClosedError{websocket.StatusGoingAway, "the connection is too old; connect again"}
	ErrUnused = &ClosedError{websocket.StatusGoingAway, "the connection was not used; connect again"}
	// ErrLost is the ending of a connection that broke without a close frame, or whose peer named no code.
	ErrLost = &ClosedError{websocket.StatusGoingAway, "the peer has left"}
	// ErrNotText ends a connection whose peer sends binary messages.
	ErrNotText = &ClosedError{websocket.StatusUnsupportedData, "messages must be text"}
	// ErrNotJSON ends a connection whose peer sends other text than JSON in UTF-8.
	ErrNotJSON = &ClosedError{websocket.StatusInvalidFramePayloadData, "messages must be JSON in UTF-8"}
	// ErrTooBig ends a connection whose peer sends a message above Bounds.Message.
	ErrTooBig = &ClosedError{websocket.StatusMessageTooBig, "the message is too large"}
	// ErrBroken ends a connection after an error of the service's own.
	ErrBroken = &ClosedError{websocket.StatusInternalError, "internal error"}
)

// endingOf returns the ending for the error of a connection or the cause of an ended context: a ClosedError and a close
// frame of the peer as they are, and a refusal (401, 403) as a violated policy.
func endingOf(err error) *ClosedError {
	if e, ok := errors.AsType[*ClosedError](err); ok {
		return e
	}
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return closed(e)
	}
	e, refused := errors.AsType[*apierr.Error](err)
	switch {
	case refused && (e.Kind == apierr.KindUnauthenticated || e.Kind == apierr.KindForbidden):
		return &ClosedError{websocket.StatusPolicyViolation, string(e.Reason)}
	case refused:
		return &ClosedError{websocket.StatusInternalError, string(e.Reason)}
	case errors.Is(err, websocket.ErrMessageTooBig):
		return ErrTooBig
	case errors.Is(err, panics.Err):
		return ErrBroken
	}
	return ErrLost
}

// closed returns a peer's close frame, with a code that may be sent on (RFC 6455, section 7.4.1).
func closed(e websocket.CloseError) *ClosedError {
	switch {
	case e.Code == websocket.StatusNoStatusRcvd:
		return ErrLost
	case strings.ToValidUTF8(e.Reason, "") != e.Reason:
		return &ClosedError{Code: e.Code}
	}
	return &ClosedError{e.Code, e.Reason}
}

// RefusedError is the response of a service that refuses a connection.
type RefusedError struct {
	Status int
	Header http.Header
	// Body is the beginning of the body, at most MaxRefusal bytes.
	Body []byte
}

// MaxRefusal is how much of the body of a refusal is known, in bytes.
const MaxRefusal = 1024

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the connection was refused with %d", e.Status)
}

// Drain tells connections that the service stops.
type Drain struct {
	begun chan struct{}
	once  sync.Once
}

// NewDrain returns a Drain that has not begun.
func NewDrain() *Drain { return &Drain{begun: make(chan struct{})} }

// Begin begins the drain: connections take no request any more, and end when those in flight have ended. It doesn't wait
// for them. It is a step for lifecycle.Runner.OnDrain.
func (d *Drain) Begin(context.Context) error {
	d.once.Do(func() { close(d.begun) })
	return nil
}

// Begun reports whether the drain has begun.
func (d *Drain) Begun() bool {
	select {
	case <-d.begun:
		return true
	default:
		return false
	}
}
