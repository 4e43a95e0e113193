package provider

import (
	"fmt"

	"switchyard.dev/services/platform/apierr"
)

// Bounds of the tool calls of one answer.
const (
	// MaxToolCalls is the largest number of calls: the number that a message of a request may hold, so that a caller
	// can send them back.
	MaxToolCalls = 512
	// MaxCall bounds the ID, name and arguments of one call, in bytes, and MaxCallName its name. The longest outputs of
	// current models have a few hundred kilobytes.
	MaxCall     = 4 << 20
	MaxCallName = 1 << 10
	// MaxCalls bounds all calls together, with their opaque state and the text that follows the first of them, in
	// bytes: some faces keep that until the end.
	MaxCalls = 16 << 20
)

// CallLimit counts the tool calls of one answer against these bounds. The zero value has counted none. Not safe for
// concurrent use.
type CallLimit struct {
	calls map[int]callSize // by index
	total int
}

type callSize struct{ name, all int }

// Add counts an event of a stream, or a whole answer. An error is a failure of the vendor, and must end the answer.
func (l *CallLimit) Add(text string, calls []ToolCall) error {
	if len(calls) == 0 && l.calls == nil {
		return nil
	}
	if l.calls == nil {
		l.calls = make(map[int]callSize)
	}
	l.total += len(text)
	for i := range calls {
		call := &calls[i]
		size := l.calls[call.Index]
		size.name += len(call.Name)
		size.all += len(call.ID) + len(call.Name) + len(call.Arguments)
		l.calls[call.Index] = size
		l.total += len(call.ID) + len(call.Name) + len(call.Arguments) + len(call.Extra)
		switch {
		case len(l.calls) > MaxToolCalls:
			return TooManyCalls()
		case size.name > MaxCallName:
			return unboundedCalls("the name of a tool call is longer than %d bytes", MaxCallName)
		case size.all > MaxCall:
			return unboundedCalls("a tool call is larger than %d MiB", MaxCall>>20)
		}
	}
	if l.total > MaxCalls {
		return unboundedCalls("the tool calls of the answer are larger than %d MiB", MaxCalls>>20)
	}
	return nil
}

// CheckCalls checks the tool calls of a whole answer, and sets their indexes.
func CheckCalls(calls []ToolCall) error {
	for i := range calls {
		calls[i].Index = i
	}
	return new(CallLimit).Add("", calls)
}

// TooManyCalls returns the error of an answer with more than MaxToolCalls calls.
func TooManyCalls() error {
	return unboundedCalls("the answer holds more than %d tool calls", MaxToolCalls)
}

func unboundedCalls(format string, bound int) error {
	return &Error{Class: apierr.ClassServerError, Text: fmt.Sprintf(format, bound)}
}

// CallDeltas makes events of single deltas of tool calls, many from one allocation. The zero value is ready for use. Not
// safe for concurrent use.
type CallDeltas struct{ free []ToolCall }

// deltasAtOnce is a compromise between few allocations and little waste.
const deltasAtOnce = 16

// Event returns the event of one delta, which is the caller's to keep.
func (d *CallDeltas) Event(delta ToolCall) Event {
	if len(d.free) == 0 {
		d.free = make([]ToolCall, deltasAtOnce)
	}
	one := d.free[:1:1]
	d.free = d.free[1:]
	one[0] = delta
	return Event{ToolCalls: one}
}
