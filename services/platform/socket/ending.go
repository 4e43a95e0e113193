package socket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// Ending is why a connection ends. Its close frame says it.
type Ending struct {
	Code websocket.StatusCode
	// Reason is for people, at most 123 bytes.
	Reason string
}

// Error implements error.
func (e *Ending) Error() string { return fmt.Sprintf("closed with %d: %s", e.Code, e.Reason) }

// The endings of this package. Clients connect again after 1001 and 1012 (RFC 6455, section 7.4.1).
var (
	// Drained ends the connections of a service that stops.
	Drained = &Ending{websocket.StatusServiceRestart, "the service is stopping; connect again"}
	// Aged ends a connection that is older than Bounds.Life, Unused one without a message for Bounds.Idle.
	Aged   = &Ending{websocket.StatusGoingAway, "the connection is too old; connect again"}
	Unused = &Ending{websocket.StatusGoingAway, "the connection was not used; connect again"}
	// Lost is the ending of a connection that broke without a close frame, or whose peer named no code.
	Lost = &Ending{websocket.StatusGoingAway, "the peer has left"}
	// NotText ends a connection whose peer sends binary messages.
	NotText = &Ending{websocket.StatusUnsupportedData, "messages must be text"}
	// NotJSON ends a connection whose peer sends other text than JSON in UTF-8.
	NotJSON = &Ending{websocket.StatusInvalidFramePayloadData, "messages must be JSON in UTF-8"}
	// TooBig ends a connection whose peer sends a message above Bounds.Message.
	TooBig = &Ending{websocket.StatusMessageTooBig, "the message is too large"}
	// Broken ends a connection after an error of the service's own.
	Broken = &Ending{websocket.StatusInternalError, "internal error"}
)

// endingOf returns the ending for the error of a connection or the cause of an ended context: an Ending and a close frame
// of the peer as they are, a refusal (401, 403) as a violated policy, and an ended service as Drained.
func endingOf(err error) *Ending {
	if e, ok := errors.AsType[*Ending](err); ok {
		return e
	}
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return closed(e)
	}
	e, refused := errors.AsType[*apierr.Error](err)
	switch {
	case refused && (e.Kind == apierr.KindUnauthenticated || e.Kind == apierr.KindForbidden):
		return &Ending{websocket.StatusPolicyViolation, string(e.Reason)}
	case refused:
		return &Ending{websocket.StatusInternalError, string(e.Reason)}
	case errors.Is(err, websocket.ErrMessageTooBig):
		return TooBig
	case errors.Is(err, panics.Err):
		return Broken
	}
	return Lost
}

// closed returns a peer's close frame, with a code that may be sent on (RFC 6455, section 7.4.1).
func closed(e websocket.CloseError) *Ending {
	switch {
	case e.Code == websocket.StatusNoStatusRcvd:
		return Lost
	case strings.ToValidUTF8(e.Reason, "") != e.Reason:
		return &Ending{Code: e.Code}
	}
	return &Ending{e.Code, e.Reason}
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
