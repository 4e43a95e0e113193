package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/platform/netguard"
)

// Cause is why a server gave no answer.
type Cause string

// The causes.
const (
	// CauseTarget is a URL or an address that the guard refuses.
	CauseTarget Cause = "target_not_allowed"
	// CauseAuthentication is a credential that can't be read.
	CauseAuthentication Cause = "credential_unavailable"
	// CauseUnauthorized is that no access token can be had.
	CauseUnauthorized Cause = "unauthorized"
	// CauseCommand is a local command that the operator doesn't allow, or that can't be started.
	CauseCommand     Cause = "command_unavailable"
	CauseUnreachable Cause = "unreachable"
	CauseTimeout     Cause = "timeout"
	CauseCanceled    Cause = "canceled"
	// CauseRefused is a status that refuses the request without an error of the protocol.
	CauseRefused Cause = "refused"
	// CauseProtocol is an answer that the protocol doesn't allow.
	CauseProtocol Cause = "protocol_error"
	CauseTooLarge Cause = "too_large"
	// CauseMemory is that there is no memory for an answer at the moment.
	CauseMemory Cause = "memory_full"
	// CauseBusy is that too many local commands run, or that too many sessions follow resources.
	CauseBusy Cause = "busy"
)

// Error is why a server gave no answer. The answer that a server does give may be an error of the protocol, which is a
// *wire.Error.
type Error struct {
	Cause Cause
	// Text says what is wrong. It holds nothing of what the server sent, but for scopes that it demands.
	Text string
	// Sent reports whether the server may have done what was asked.
	Sent bool
	// Status is the status of HTTP; 0 if there was none.
	Status int
	// RetryAfter is the server's hint; 0 for none.
	RetryAfter time.Duration
	// Err is the error below, for the log; nil for none.
	Err error
}

// Unauthorized reports whether the server does not take the gateway's credential, or none can be had.
func (e *Error) Unauthorized() bool {
	return e.Cause == CauseUnauthorized || e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// Error returns what is wrong.
func (e *Error) Error() string { return "tool server: " + e.Text }

// Unwrap returns the error below.
func (e *Error) Unwrap() error { return e.Err }

// protocol returns the error of an answer that the protocol doesn't allow.
func protocol(text string) *Error { return &Error{Cause: CauseProtocol, Text: text, Sent: true} }

// errEnded is the error of a session that the server has ended: the request was not carried out.
var errEnded = errors.New("the session has ended")

// errSlowBody is the cause of the end of a body that took too long.
var errSlowBody = errors.New("the body did not arrive in time")

// failed returns the error of a connection. ctx is the request's.
func failed(ctx context.Context, err error, sent bool) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Cause: CauseUnreachable, Text: "the server can't be reached", Sent: sent, Err: err}
	refusal, refused := errors.AsType[*netguard.Refusal](err)
	timeout, timed := errors.AsType[net.Error](err)
	switch {
	case errors.Is(context.Cause(ctx), errSlowBody):
		e.Cause, e.Text = CauseTimeout, errSlowBody.Error()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Cause, e.Text = CauseTimeout, "the server did not answer in time"
	case ctx.Err() != nil:
		e.Cause, e.Text, e.Err = CauseCanceled, "the call was ended", context.Cause(ctx)
	case refused:
		e.Cause, e.Text, e.Sent = CauseTarget, "the address is not allowed ("+refusal.Rule+")", false
	case errors.Is(err, memory.ErrFull):
		e.Cause, e.Text = CauseMemory, memory.ErrFull.Error()
	case errors.Is(err, memory.ErrTooLarge), errors.Is(err, sse.ErrTooLarge), errors.Is(err, sse.ErrEndless):
		e.Cause, e.Text = CauseTooLarge, "the answer is larger than its bound"
	case timed && timeout.Timeout():
		e.Cause, e.Text = CauseTimeout, "the server did not answer in time"
	case sent:
		e.Text = "the connection ended before the answer"
	}
	return e
}
