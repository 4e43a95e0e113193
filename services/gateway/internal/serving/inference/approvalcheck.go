package inference

import (
	"bytes"
	"context"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// approvalCheck passes a stream's events on, but withholds calls of tools that need an approval until they are
// approved. Where the approval is of certain arguments, or a call has no name yet, the call is withheld together with
// all that follows it.
type approvalCheck struct {
	approvals *toolApprovals
	hold      *memory.Hold
	calls     map[int]*checkedCall // by index
	// shut is the number of calls that may not pass yet.
	shut int
	held []provider.Event
	// size is about how many bytes held takes, and what is kept of calls. charged is what was charged to the memory for
	// answers; it includes events that were passed on and are not read yet.
	size, charged int
}

// checkedCall is what is known of a call. Its arguments are kept until it may pass.
type checkedCall struct {
	name      string
	arguments []byte
	state     callState
	// passed reports whether some of its arguments were passed on already.
	passed bool
}

// callState is the state of a call in the check.
type callState int

const (
	unnamed  callState = iota // the tool is not known yet
	open                      // it may pass
	compared                  // its arguments are still to be compared
)

// maxWithheld bounds what is withheld of a stream, in bytes: its events as they are in memory, and the arguments of
// calls beside them.
const maxWithheld = 4 << 20

// newCheck returns the check of a stream; nil where no tool needs an approval. What it withholds is charged to hold.
func (a *toolApprovals) newCheck(hold *memory.Hold) *approvalCheck {
	if a.needs == nil {
		return nil
	}
	return &approvalCheck{approvals: a, hold: hold, calls: make(map[int]*checkedCall)}
}

// pass takes an event and returns those that may be passed on now. An error ends the stream: the event holds a call
// that is not approved.
func (a *approvalCheck) pass(ctx context.Context, event provider.Event) ([]provider.Event, error) {
	for _, delta := range event.ToolCalls {
		if err := a.add(ctx, delta); err != nil {
			return a.before(event), err
		}
	}
	if err := a.approvals.approveNative(ctx, event.ToolCalls, event.Repeated, event.Native); err != nil {
		return a.before(event), err
	}
	if a.shut == 0 && len(a.held) == 0 {
		return []provider.Event{event}, nil
	}
	event.Native = bytes.Clone(event.Native) // The frame is valid only until the next event.
	a.held = append(a.held, event)
	if a.shut == 0 {
		return a.release(), nil
	}
	if a.size += heldSize(event); a.size > maxWithheld {
		return nil, errOtherArguments(a.waiting())
	}
	if err := a.hold.Charge(a.size - a.charged); err != nil {
		return nil, errMemoryFull.Wrap(err)
	}
	a.charged = max(a.charged, a.size)
	return nil, nil
}

// settle releases the charge for events that were passed on, all at once, and keeps that for the left events still to
// be read. The charge that remains at the end of the stream is released with the request's hold.
func (a *approvalCheck) settle(left int) {
	if a != nil && left == 0 && a.charged > a.size {
		a.hold.Return(a.charged - a.size)
		a.charged = a.size
	}
}

// before returns the text of an event whose call is withheld.
func (a *approvalCheck) before(event provider.Event) []provider.Event {
	if event.Text == "" || event.Native != nil || len(a.held) > 0 {
		return nil
	}
	return []provider.Event{{Text: event.Text}}
}

// add records a delta, and looks for the approval once the tool is known.
func (a *approvalCheck) add(ctx context.Context, delta provider.ToolCall) error {
	call := a.calls[delta.Index]
	if call == nil {
		call = &checkedCall{}
		a.calls[delta.Index] = call
		a.shut++
	}
	if call.state != open {
		call.arguments = append(call.arguments, delta.Arguments...)
		a.size += len(delta.Arguments)
	} else {
		call.passed = call.passed || delta.Arguments != ""
	}
	if delta.Name == "" {
		return nil
	}
	if delta.Name != call.name { // Some servers repeat the name in each delta, some send it in pieces.
		call.name += delta.Name
	}
	tool := call.name
	switch {
	case a.approvals.needsApproval(call.name):
	case a.approvals.needsApproval(delta.Name):
		tool = delta.Name
	default:
		a.set(call, open)
		return nil
	}
	found, err := a.approvals.approve(ctx, tool)
	if err != nil {
		return err
	}
	switch {
	case found.AnyArguments():
		a.set(call, open)
	case call.passed: // The call was passed on under another name, so that its arguments can't be compared any more.
		return errOtherArguments(tool)
	default:
		a.set(call, compared)
	}
	return nil
}

// set changes the state of a call.
func (a *approvalCheck) set(call *checkedCall, state callState) {
	if call.state != open {
		a.shut--
	}
	if state != open {
		a.shut++
	}
	if call.state = state; state == open {
		a.size -= len(call.arguments)
		call.arguments = nil
	}
}

// end is called at the end of the stream, when every call is whole.
func (a *approvalCheck) end(ctx context.Context) ([]provider.Event, error) {
	for _, call := range a.calls {
		if call.state != compared {
			continue
		}
		if err := a.approvals.approveCall(ctx, call.name, string(call.arguments)); err != nil {
			return nil, err
		}
	}
	return a.release(), nil
}

func (a *approvalCheck) release() []provider.Event {
	held := a.held
	a.held, a.size = nil, 0 // Calls whose arguments were still to be compared are whole now.
	return held
}

// waiting returns the tool of a call that is withheld.
func (a *approvalCheck) waiting() string {
	for _, call := range a.calls {
		if call.state != open {
			return call.name
		}
	}
	return ""
}
