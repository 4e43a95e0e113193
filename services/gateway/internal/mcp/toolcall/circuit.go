package toolcall

import (
	"context"
	"errors"
	"net/http"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/apierr"
)

// ReasonCircuitOpen is the reason of a call that was not made, since the server has failed too often lately.
const ReasonCircuitOpen apierr.Reason = "circuit_open"

// CircuitOf returns the circuit of an organization's calls of a server. Its own server and one of all organizations have
// different ones.
func CircuitOf(organization string, server toolserver.Key) health.Circuit {
	family := server.ID
	if server.Organization == "" {
		family += " of all"
	}
	return health.Circuit{Provider: organization, Family: family}
}

// acquire lets the call through the circuit of its server.
func (x *execution) acquire(ctx context.Context) error {
	done, refused := x.caller.Circuits.Acquire(ctx, CircuitOf(x.request.Organization, x.server.Key()))
	if refused == nil {
		x.done = done
		return nil
	}
	e := apierr.Unavailable("the server has failed too often lately; nothing was sent to it", nil)
	e.Reason, e.RetryAfter = ReasonCircuitOpen, refused.RetryAfter
	return e
}

// release reports to the circuit how the call ended.
func (x *execution) release(ctx context.Context) {
	if x.done != nil {
		x.done(context.WithoutCancel(ctx), x.verdict)
	}
}

// verdictOf returns what the end of a call shows of its server. What a tool itself says, and an error of the protocol, are
// answers.
func verdictOf(err error) health.Verdict {
	if err == nil {
		return health.Verdict{Outcome: health.Good}
	}
	if _, answered := errors.AsType[*wire.Error](err); answered {
		return health.Verdict{Outcome: health.Answered}
	}
	failed, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		return health.Verdict{} // The gateway's own fault.
	}
	bad := health.Verdict{Outcome: health.Bad, Cause: failed.Text, RetryAfter: failed.RetryAfter}
	switch failed.Cause {
	case upstream.CauseUnreachable, upstream.CauseTimeout, upstream.CauseProtocol, upstream.CauseTooLarge:
		return bad
	case upstream.CauseRefused:
		if failed.Status >= http.StatusInternalServerError {
			return bad
		}
		return health.Verdict{Outcome: health.Answered}
	case upstream.CauseTarget, upstream.CauseAuthentication, upstream.CauseUnauthorized, upstream.CauseCommand,
		upstream.CauseCanceled, upstream.CauseMemory, upstream.CauseBusy:
	}
	return health.Verdict{}
}
