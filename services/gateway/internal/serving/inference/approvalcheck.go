package inference

import (
	"bytes"
	"context"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// approvalCheck lets a stream's events pass, but for calls of tools that need an approval.
// Nothing of a call passes before it may: where the approval is of certain
// arguments, or a call has no name yet, it is held with all that follows.
type approvalCheck struct {
	approvals *toolApprovals
	hold      *memory.Hold
	calls     map[int]*checkedCall // by index
	// shut are those of them that may not pass yet.
	shut int
	held []provider.Event
	// size is about what held takes, and what is kept of calls, in bytes. charged is
	// what the memory for answers was charged for, with what has been let out and is
	// not read yet.
	size, charged int
}

// checkedCall is what is known of a call. Its arguments are kept until it may pass.
type checkedCall struct {
	name      string
	arguments []byte
	state     callState
	// passed reports that some of its arguments went out already.
	passed bool
}

// callState is what may be done with a call.
type callState int

const (
	unnamed  callState = iota // the tool is not known yet
	open                      // it may pass
	compared                  // its arguments are still to be compared
)

// maxWithheld bounds what is held of a stream, in bytes: its events as they are in
// memory, and the arguments of calls beside them.
const maxWithheld = 4 << 20

// newCheck returns the check of a stream, nil where no tool needs an approval. What it withholds is charged to hold.
func (a *toolApprovals) newCheck(hold *memory.Hold) *approvalCheck {
	if a.needs == nil {
		return nil
	}
	return &approvalCheck{approvals: a, hold: hold, calls: make(map[int]*checkedCall)}
}

// pass takes an event and gives those that may go out now. An error ends the
// stream: the event holds what must not.
func (a *approvalCheck) pass(ctx context.Context, event provider.Event) ([]provider.Event, error) {
	for _, delta := range event.ToolCalls {
		if err := a.add(ctx, delta); err != nil {
			return a.before(event), err
		}
	}
	if err := a.approvals.approveNative(ctx, event.ToolCalls, event.Native); err != nil {
		return a.before(event), err
	}
	if a.shut == 0 && len(a.held) == 0 {
		return []provider.Event{event}, nil
	}
	event.Native = bytes.Clone(event.Native) // Its own only until the next event.
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

// settle gives back what was charged for events that have been let out, once left of
// them are still to be read: all at once. What is charged at the end of the stream is
// given back with all that its request holds.
func (a *approvalCheck) settle(left int) {
	if a != nil && left == 0 && a.charged > a.size {
		a.hold.Return(a.charged - a.size)
		a.charged = a.size
	}
}

// before is what an event says besides the call that it may not.
func (a *approvalCheck) before(event provider.Event) []provider.Event {
	if event.Text == "" || event.Native != nil || len(a.held) > 0 {
		return nil
	}
	return []provider.Event{{Text: event.Text}}
}

// add notes a delta, and looks for the approval once the tool is known.
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
	if delta.Name != call.name { // Some servers say it with each delta, some in pieces.
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
	case call.passed: // Under another name: they can't be compared any more.
		return errOtherArguments(tool)
	default:
		a.set(call, compared)
	}
	return nil
}

// set moves a call on.
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

// end takes the end of the stream: now every call is whole.
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
	a.held, a.size = nil, 0 // Calls that are still compared are whole.
	return held
}

// waiting is a tool whose call is held.
func (a *approvalCheck) waiting() string {
	for _, call := range a.calls {
		if call.state != open {
			return call.name
		}
	}
	return ""
}
