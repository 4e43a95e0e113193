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
	held  []provider.Event
	size  int
}

// gatedCall is what is known of a call.
type gatedCall struct {
	name, arguments string
	state           gateState
}

// gateState is what may be done with a call.
type gateState int

const (
	unnamed  gateState = iota // nobody knows which tool it is of
	open                      // it may pass
	compared                  // its arguments are still to be compared
)

// maxGated bounds what is held of a stream, in bytes.
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
	wait := false
	for _, delta := range event.ToolCalls {
		if err := g.add(ctx, delta); err != nil {
			return g.before(event), err
		}
	}
	if err := g.x.approveNative(ctx, event.ToolCalls, event.Native); err != nil {
		return g.before(event), err
	}
	for _, call := range g.calls {
		wait = wait || call.state != open
	}
	if !wait && len(g.held) == 0 {
		return []provider.Event{event}, nil
	}
	event.Native = bytes.Clone(event.Native) // Its own only until the next event.
	g.held = append(g.held, event)
	if !wait {
		return g.release(), nil
	}
	for _, delta := range event.ToolCalls {
		g.size += len(delta.Arguments) + len(delta.Extra)
	}
	if g.size += len(event.Text) + len(event.Native); g.size > maxGated {
		return nil, errOtherArguments(g.waiting())
	}
	return nil, nil
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
	}
	call.arguments += delta.Arguments
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
		call.state = open
		return nil
	}
	found, err := g.x.approve(ctx, tool)
	if err != nil {
		return err
	}
	call.state = compared
	if found.AnyArguments() {
		call.state = open
	}
	return nil
}

// end takes the end of the stream: now every call is whole.
func (g *gate) end(ctx context.Context) ([]provider.Event, error) {
	for _, call := range g.calls {
		if call.state != compared {
			continue
		}
		if err := g.x.approveCall(ctx, call.name, call.arguments); err != nil {
			return nil, err
		}
	}
	return g.release(), nil
}

func (g *gate) release() []provider.Event {
	held := g.held
	g.held, g.size = nil, 0
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
