package inference

import (
	"unsafe"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// callStream wraps a vendor's stream: it fails when tool calls exceed their bounds, and gives calls the caller's
// function names. hold is charged for what others keep of the stream until its end: dialects keep the ids of calls, and
// faces that encode the events anew keep all that follows the first call, or all of it.
type callStream struct {
	provider.Stream
	asked *provider.Fitted
	limit provider.CallLimit
	hold  *memory.Hold
	calls bool // a call has begun
	kept  bool // the face keeps all of the answer
}

// Next returns the next event.
func (s *callStream) Next() (provider.Event, error) {
	event, err := s.Stream.Next()
	if err == nil {
		err = s.limit.Add(event.Text, event.ToolCalls)
	}
	if err == nil {
		err = s.charge(&event)
	}
	if err != nil {
		return provider.Event{}, err
	}
	s.asked.Restore(event.ToolCalls)
	return event, nil
}

func (s *callStream) charge(e *provider.Event) error {
	s.calls = s.calls || len(e.ToolCalls) > 0
	n := 0
	// Faces keep sources, and some keep images, until the end.
	if e.Native == nil && (len(e.Citations) > 0 || len(e.Images) > 0) {
		n = provider.CitationBytes(e.Citations) + pictureBytes(e.Images)
	}
	if !s.calls && !s.kept && n == 0 {
		return nil
	}
	if e.Native == nil && (s.calls || s.kept) {
		n += len(e.Text) + callBytes(e.ToolCalls)
	}
	if s.kept && e.Native == nil {
		n += len(e.Reasoning)
	}
	for i := range e.ToolCalls {
		n += len(e.ToolCalls[i].ID)
	}
	if err := s.hold.Charge(n); err != nil {
		return &provider.Error{Class: apierr.ClassTransient, Text: err.Error(), Cause: err}
	}
	return nil
}

// heldSize returns about how many bytes an event takes in memory: its texts, and the event itself, which may be empty.
func heldSize(e provider.Event) int {
	n := int(unsafe.Sizeof(e)) + len(e.Text) + len(e.Reasoning) + len(e.Other) + len(e.Native) + len(e.NativeType)
	n += provider.CitationBytes(e.Citations) + pictureBytes(e.Images)
	for i := range e.ToolCalls {
		call := &e.ToolCalls[i]
		n += int(unsafe.Sizeof(*call)) + len(call.ID) + len(call.Name) + len(call.Arguments) + len(call.Extra)
	}
	return n
}

// pictureBytes returns how many bytes an answer's images take.
func pictureBytes(images []string) (n int) {
	for _, uri := range images {
		n += len(uri)
	}
	return n
}

// callJoiner joins the deltas of a stream's calls, in time proportional to their size. The zero value has no calls.
type callJoiner struct {
	calls     []provider.ToolCall
	arguments [][]byte // by index in calls
	places    map[int]int
}

// add appends a delta to its call. The first delta of a call has its name.
func (j *callJoiner) add(delta provider.ToolCall) {
	place, known := j.places[delta.Index]
	if !known {
		if j.places == nil {
			j.places = make(map[int]int)
		}
		j.places[delta.Index] = len(j.calls)
		j.calls = append(j.calls, delta)
		j.arguments = append(j.arguments, nil)
		return
	}
	if delta.Extra != nil {
		j.calls[place].Extra = delta.Extra
	}
	if delta.Arguments != "" {
		if j.arguments[place] == nil {
			j.arguments[place] = []byte(j.calls[place].Arguments)
		}
		j.arguments[place] = append(j.arguments[place], delta.Arguments...)
	}
}

// join returns the calls so far.
func (j *callJoiner) join() []provider.ToolCall {
	for place, arguments := range j.arguments {
		if arguments != nil {
			j.calls[place].Arguments = string(arguments)
		}
	}
	return j.calls
}
