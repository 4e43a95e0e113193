package providertest_test

import (
	"errors"
	"io"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

// script is a stream that returns its events, then io.EOF or an error.
type script struct {
	events []provider.Event
	err    error
}

func (s *script) Next() (provider.Event, error) {
	if len(s.events) == 0 {
		return provider.Event{}, s.err
	}
	event := s.events[0]
	s.events = s.events[1:]
	return event, nil
}

func (s *script) Close() error { return nil }

func (*script) Buffered() bool { return true }

func (*script) Size() int { return 0 }

func call(index int, id, name, arguments string) provider.Event {
	return provider.Event{ToolCalls: []provider.ToolCall{{Index: index, ID: id, Name: name, Arguments: arguments}}}
}

// The suite detects only what Collect detects.
func TestCollectNotices(t *testing.T) {
	text, stop := provider.Event{Text: "a"}, provider.Event{FinishReason: provider.FinishStop}
	for name, tt := range map[string]struct {
		events []provider.Event
		err    error
		ok     bool
	}{
		"nothing wrong":          {[]provider.Event{text, call(0, "1", "f", ""), call(1, "2", "g", "{"), call(0, "", "", "{}"), stop, {Usage: &provider.Usage{}}}, io.EOF, true},
		"a failure":              {[]provider.Event{text}, io.ErrUnexpectedEOF, false},
		"text after the end":     {[]provider.Event{stop, text}, io.EOF, false},
		"two ends":               {[]provider.Event{stop, stop}, io.EOF, false},
		"a call without id":      {[]provider.Event{call(0, "", "f", "")}, io.EOF, false},
		"a call without name":    {[]provider.Event{call(0, "1", "", "")}, io.EOF, false},
		"a call that is skipped": {[]provider.Event{call(1, "1", "f", "")}, io.EOF, false},
		"a negative index":       {[]provider.Event{call(-1, "1", "f", "")}, io.EOF, false},
		"an id that comes again": {[]provider.Event{call(0, "1", "f", ""), call(0, "1", "", "{}")}, io.EOF, false},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := providertest.Collect(&script{tt.events, tt.err})
			if (err == nil) != tt.ok || errors.Is(err, io.EOF) {
				t.Errorf("answer %+v, err %v", answer, err)
			}
		})
	}
}
