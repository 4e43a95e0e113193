package inference

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// trickle is a transport whose answers begin with head at once, and continue with a piece each second for as long as
// the call lasts.
type trickle struct {
	status           int
	kind, head, more string
	// silent reports whether not even the head is sent.
	silent bool
	open   atomic.Int32
}

func (tr *trickle) RoundTrip(r *http.Request) (*http.Response, error) {
	if tr.silent {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	tr.open.Add(1)
	return &http.Response{
		StatusCode: tr.status, Header: http.Header{"Content-Type": {tr.kind}}, ContentLength: -1, Request: r,
		Body: &trickleBody{of: tr, ctx: r.Context(), left: tr.head},
	}, nil
}

type trickleBody struct {
	of   *trickle
	ctx  context.Context
	left string
}

func (b *trickleBody) Read(p []byte) (int, error) {
	if b.left == "" {
		select {
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		case <-time.After(time.Second):
			b.left = b.of.more
		}
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *trickleBody) Close() error {
	b.of.open.Add(-1)
	return nil
}

// A vendor that sends a little each second holds a request no longer than the clock that such pieces do not restart.
func TestSlowTricklesAreEnded(t *testing.T) {
	const events = "text/event-stream"
	times := Clocks{Answer: 40 * time.Second, FirstToken: 15 * time.Second, Idle: 5 * time.Second, Total: 10 * time.Minute}
	cases := []struct {
		name   string
		vendor trickle
		stream bool
		want   time.Duration
	}{
		{"no head", trickle{silent: true}, false, 2 * times.Answer},
		{"no head of a stream", trickle{silent: true}, true, 2 * times.FirstToken},
		{"a byte of a whole answer", trickle{status: 200, kind: "application/json", head: `{"choices":[`, more: " "}, false, 2 * times.Answer},
		{"a byte of an error", trickle{status: 400, kind: "application/json", head: `{"error":`, more: " "}, false, 2 * times.Answer},
		{"a byte of a stream's error", trickle{status: 400, kind: "application/json", more: " "}, true, 2 * times.FirstToken},
		{"comments", trickle{status: 200, kind: events, more: ": x\n\n"}, true, 2 * times.FirstToken},
		{"blank lines", trickle{status: 200, kind: events, more: "\n"}, true, 2 * times.FirstToken},
		{"empty events", trickle{status: 200, kind: events, more: "data: \n\n"}, true, 2 * times.FirstToken},
		{"events that say nothing", trickle{status: 200, kind: events, more: `data: {"choices":[]}` + "\n\n"}, true, 2 * times.FirstToken},
		{"an event without an end", trickle{status: 200, kind: events, head: "data: ", more: "x"}, true, 2 * times.FirstToken},
		{"usage alone", trickle{status: 200, kind: events, more: `data: {"choices":[],"usage":{"prompt_tokens":1}}` + "\n\n"}, true, 2 * times.FirstToken},
		{"thinking alone", trickle{status: 200, kind: events, more: `data: {"choices":[{"delta":{"reasoning_content":"x"}}]}` + "\n\n"}, true, times.Total},
		{"content, then comments", trickle{status: 200, kind: events, head: `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n", more: ": x\n\n"}, true, times.Idle},
		{"content, then half an event", trickle{status: 200, kind: events, head: `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\ndata: ", more: "x"}, true, times.Idle},
		{"content, then events that say nothing", trickle{status: 200, kind: events, head: `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n", more: "data: {}\n\n"}, true, times.Idle},
		{"content without end", trickle{status: 200, kind: events, more: `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n"}, true, times.Total},
	}
	for i := range cases {
		c := &cases[i]
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vendor, err := openai.New(provider.Settings{Name: "a", BaseURL: "https://vendor.example", Transport: &c.vendor})
				if err != nil {
					t.Fatal(err)
				}
				b := setup(t, nil, &script{name: "a"})
				fleet := *b.Fleet()
				fleet.Planner, fleet.Providers = asNamed{}, map[string]provider.Provider{"a": vendor}
				b.Fleet = func() *Fleet { return &fleet }
				b.Clocks = times
				begun := time.Now()
				text, err := serveWith(t.Context(), b, c.stream)
				took := time.Since(begun)
				if err == nil {
					t.Errorf("it was served: %d bytes", len(text))
				}
				if took < c.want-2*time.Second || took > c.want+2*time.Second {
					t.Errorf("it ended after %s, want %s", took, c.want)
				}
				if open := c.vendor.open.Load(); open != 0 {
					t.Errorf("%d answers are still open", open)
				}
			})
		})
	}
}

// An answer of thousands of tool calls is the vendor's failure, and a stream does not keep them in memory.
func TestToolCallsOfAStreamAreBounded(t *testing.T) {
	vendor := &trickle{status: 200, kind: "text/event-stream", head: strings.Repeat(
		`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}`+"\n\n", provider.MaxToolCalls+10)}
	at, err := openai.New(provider.Settings{Name: "a", BaseURL: "https://vendor.example", Transport: vendor})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := at.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	calls := 0
	for ; err == nil; calls++ {
		_, err = stream.Next()
	}
	if calls > provider.MaxToolCalls+1 || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "too many tool calls") {
		t.Errorf("%d calls, then %v", calls, err)
	}
}
