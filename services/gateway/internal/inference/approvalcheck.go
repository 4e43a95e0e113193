package inference

import (
	"bytes"
	"context"

	"switchyard.dev/services/gateway/internal/provider"
)

// gate lets a stream's events pass, but for calls of tools that need an approval.
// Nothing of a call passes before it may: where the approval is of certain
// arguments, or a call has no name yet, it is held with all that follows.
type gate struct {
	x     *execution
	calls map[int]*gatedCall // by index
	// shut are those of them that may not pass yet.
	shut int
	held []provider.Event
	// size is about what held takes, and what is kept of calls, in bytes. charged is
	// what the memory for answers was charged for, with what has been let out and is
	// not read yet.
	size, charged int
}

// gatedCall is what is known of a call. Its arguments are kept until it may pass.
type gatedCall struct {
	name      string
	arguments []byte
	state     gateState
	// passed tells that some of its arguments went out already.
	passed bool
}

// gateState is what may be done with a call.
type gateState int

const (
	unnamed  gateState = iota // nobody knows which tool it is of
	open                      // it may pass
	compared                  // its arguments are still to be compared
)

// maxGated bounds what is held of a stream, in bytes: its events as they are in
// memory, and the arguments of calls beside them.
const maxGated = 4 << 20

// newGate is nil where no tool needs an approval.
func (x *execution) newGate() *gate {
	if x.fleet.NeedsApproval == nil {
		return nil
	}
	return &gate{x: x, calls: make(map[int]*gatedCall)}
}

// pass takes an event and gives those that may go out now. An error ends the
// stream: the event holds what must not.
func (g *gate) pass(ctx context.Context, event provider.Event) ([]provider.Event, error) {
	for _, delta := range event.ToolCalls {
		if err := g.add(ctx, delta); err != nil {
			return g.before(event), err
		}
	}
	if err := g.x.approveNative(ctx, event.ToolCalls, event.Native); err != nil {
		return g.before(event), err
	}
	if g.shut == 0 && len(g.held) == 0 {
		return []provider.Event{event}, nil
	}
	event.Native = bytes.Clone(event.Native) // Its own only until the next event.
	g.held = append(g.held, event)
	if g.shut == 0 {
		return g.release(), nil
	}
	if g.size += heldSize(event); g.size > maxGated {
		return nil, errOtherArguments(g.waiting())
	}
	if err := g.x.hold.Charge(g.size - g.charged); err != nil {
		return nil, errMemoryFull.Wrap(err)
	}
	g.charged = max(g.charged, g.size)
	return nil, nil
}

// settle gives back what was charged for events that have been let out, once left of
// them are still to be read: all at once. What is charged at the end of the stream is
// given back with all that its request holds.
func (g *gate) settle(left int) {
	if g != nil && left == 0 && g.charged > g.size {
		g.x.hold.Return(g.charged - g.size)
		g.charged = g.size
	}
}

// before is what an event says besides the call that it may not.
func (g *gate) before(event provider.Event) []provider.Event {
	if event.Text == "" || event.Native != nil || len(g.held) > 0 {
		return nil
	}
	return []provider.Event{{Text: event.Text}}
}

// add notes a delta, and looks for the approval once the tool is known.
func (g *gate) add(ctx context.Context, delta provider.ToolCall) error {
	call := g.calls[delta.Index]
	if call == nil {
		call = &gatedCall{}
		g.calls[delta.Index] = call
		g.shut++
	}
	if call.state != open {
		call.arguments = append(call.arguments, delta.Arguments...)
		g.size += len(delta.Arguments)
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
	case g.x.needsApproval(call.name):
	case g.x.needsApproval(delta.Name):
		tool = delta.Name
	default:
		g.set(call, open)
		return nil
	}
	found, err := g.x.approve(ctx, tool)
	if err != nil {
		return err
	}
	switch {
	case found.AnyArguments():
		g.set(call, open)
	case call.passed: // Under another name: they can't be compared any more.
		return errOtherArguments(tool)
	default:
		g.set(call, compared)
	}
	return nil
}

// set moves a call on.
func (g *gate) set(call *gatedCall, state gateState) {
	if call.state != open {
		g.shut--
	}
	if state != open {
		g.shut++
	}
	if call.state = state; state == open {
		g.size -= len(call.arguments)
		call.arguments = nil
	}
}

// end takes the end of the stream: now every call is whole.
func (g *gate) end(ctx context.Context) ([]provider.Event, error) {
	for _, call := range g.calls {
		if call.state != compared {
			continue
		}
		if err := g.x.approveCall(ctx, call.name, string(call.arguments)); err != nil {
			return nil, err
		}
	}
	return g.release(), nil
}

func (g *gate) release() []provider.Event {
	held := g.held
	g.held, g.size = nil, 0 // Calls that are still compared are whole.
	return held
}

// waiting is a tool whose call is held.
func (g *gate) waiting() string {
	for _, call := range g.calls {
		if call.state != open {
			return call.name
		}
	}
	return ""
}
