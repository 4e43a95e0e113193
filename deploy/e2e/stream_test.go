//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// event is one server-sent event.
type event struct{ name, data string }

// eventStream is a streamed answer that may still be arriving.
type eventStream struct {
	label  string
	header http.Header
	lines  *bufio.Scanner
	seen   strings.Builder

	// leave closes the connection, as a customer's browser does when its window is closed.
	leave context.CancelFunc
}

// stream makes a POST call that must be answered with a stream of events.
func (c client) stream(t *testing.T, path string, body any) *eventStream {
	t.Helper()
	return c.events(t, http.MethodPost, path, body)
}

// events makes a call that must be answered with a stream of events.
func (c client) events(t *testing.T, method, path string, body any) *eventStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, reader(t, body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = c.header.Clone()
	request.Header.Set("Content-Type", "application/json")
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	s := &eventStream{label: method + " " + path + " (stream)", header: response.Header, lines: bufio.NewScanner(response.Body), leave: cancel}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s answered %d %q, want events: %s", s.label, response.StatusCode, kind, shorten(text))
	}
	t.Cleanup(func() { responses.add(answer{s.label, http.StatusOK, s.header, []byte(s.seen.String())}) })
	return s
}

// next waits for an event; ok is false at the end of the stream.
func (s *eventStream) next(t *testing.T) (e event, ok bool) {
	t.Helper()
	for s.lines.Scan() {
		line := s.lines.Text()
		s.seen.WriteString(line + "\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			e.data += value
		case "":
			if line == "" && e != (event{}) {
				return e, true
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		t.Fatalf("%s broke off: %v", s.label, err)
	}
	return e, false
}

// transcript is a whole streamed completion.
type transcript struct {
	completion

	deltas int
	done   bool     // it ended with [DONE]
	failed *failure // or with an error event
}

// read reads a stream to its end and checks the order of its events: pieces, then one with finish reason and usage, and
// [DONE]; or an error; then nothing.
func (s *eventStream) read(t *testing.T) transcript {
	t.Helper()
	var all transcript
	for {
		e, ok := s.next(t)
		if !ok {
			return all
		}
		if all.done || all.failed != nil {
			t.Fatalf("%s: %+v after the end", s.label, e)
		}
		s.take(t, e, &all)
	}
}

func (s *eventStream) take(t *testing.T, e event, all *transcript) {
	t.Helper()
	switch {
	case e.name == "error":
		all.failed = &failure{}
		if err := json.Unmarshal([]byte(e.data), all.failed); err != nil {
			t.Fatalf("%s: the error event is no JSON: %v: %s", s.label, err, e.data)
		}
	case e.name != "":
		t.Fatalf("%s: event %q", s.label, e.name)
	case e.data == "[DONE]":
		all.done = true
		if all.Usage == nil || all.FinishReason == "" {
			t.Errorf("%s: [DONE] without usage and finish reason before", s.label)
		}
	case all.Usage != nil:
		t.Errorf("%s: %s after the usage", s.label, e.data)
	default:
		var piece chunk
		if err := json.Unmarshal([]byte(e.data), &piece); err != nil {
			t.Fatalf("%s: an event is no JSON: %v: %s", s.label, err, e.data)
		}
		all.append(piece)
	}
}

// chunk is a piece of a streamed completion.
type chunk struct {
	Content      string     `json:"content"`
	ToolCalls    []toolCall `json:"tool_calls"`
	FinishReason string     `json:"finish_reason"`
	Usage        *usage     `json:"usage"`
}

func (all *transcript) append(piece chunk) {
	all.deltas++
	all.Content += piece.Content
	for _, call := range piece.ToolCalls {
		for len(all.ToolCalls) <= call.Index {
			all.ToolCalls = append(all.ToolCalls, toolCall{Index: len(all.ToolCalls)})
		}
		to := &all.ToolCalls[call.Index]
		to.ID += call.ID
		to.Function.Name += call.Function.Name
		to.Function.Arguments += call.Function.Arguments
	}
	all.FinishReason, all.Usage = piece.FinishReason, piece.Usage
	if piece.Usage != nil {
		all.deltas--
	}
}

// soon returns a channel that bounds a wait inside a select.
func soon() <-chan time.Time { return time.After(waitTimeout) }
