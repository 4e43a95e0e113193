//go:build e2e

package e2e_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// failovers are the failures of the first vendor before any content. Each has models of its own.
var failovers = []struct {
	name   string
	action object
	models map[bool]pair // by whether the answer is streamed
}{
	{"a 503", object{"status": 503}, both("unavailable")},
	{"a 500", object{"status": 500}, both("broken")},
	{"a rate limit", object{"retry_after": "7"}, both("limited")},
	{"a refused key", object{"status": 401}, both("refused")},
	{"a dropped connection", object{"drop": true}, both("dropped")},
	{"a 200 that is an error", object{"status": 200, "headers": object{"Content-Type": "application/json"}, "body": `{"error":{"message":"overloaded","type":"server_error"}}`}, both("lying")},
	{"an error before any content", object{"error_after_chunks": 1, "status": 500}, map[bool]pair{true: addPair("early-stream")}},
	{"an end before any content", object{"after_bytes": 0}, both("cut")},
}

func both(model string) map[bool]pair {
	return map[bool]pair{false: addPair(model), true: addPair(model + "-stream")}
}

func TestChatFailsOver(t *testing.T) {
	t.Parallel()
	h := use(t)
	ai := h.customer(t, unique("org"), "ai", "read")
	for _, tt := range failovers {
		for stream, models := range tt.models {
			t.Run(tt.name+" streamed "+strconv.FormatBool(stream), func(t *testing.T) {
				h.script(t, stack.FakeProvider, rule{Match: models.first.match(), Times: 1, Action: tt.action})
				body := ask(models.first.named(), "hello", object{"provider": models.first.name, "stream": stream})
				var c completion
				if stream {
					all := ai.stream(t, chatRoute, body).read(t)
					if !all.done || all.failed != nil {
						t.Fatalf("done %v, error %+v", all.done, all.failed)
					}
					c = all.completion
				} else {
					a := ai.post(t, chatRoute, body).into(t, http.StatusOK, &c)
					if n := a.header.Get("X-Switchyard-Attempts"); n != "2" {
						t.Errorf("X-Switchyard-Attempts: %q, want 2", n)
					}
				}
				if c.Content != "You said: hello" {
					t.Errorf("answer %q", c.Content)
				}
				u := c.Usage
				if u.ProviderUsed != models.second.name || u.RequestedProvider != models.first.name || !u.Substituted {
					t.Errorf("usage %+v, want %s in place of %s", u, models.second.name, models.first.name)
				}
			})
		}
	}
}

var healthy = addPair("healthy")

func TestChatPrefersTheFirst(t *testing.T) {
	t.Parallel()
	var c completion
	use(t).customer(t, unique("org"), "ai", "read").post(t, chatRoute, ask(healthy.first.named(), "hello")).into(t, http.StatusOK, &c)
	if c.Usage.ProviderUsed != healthy.first.name || c.Usage.Substituted {
		t.Errorf("usage %+v, want %s", c.Usage, healthy.first.name)
	}
}

// interruptions are the failures of a vendor after its first content.
var interruptions = []struct {
	name   string
	action object
	models pair
}{
	{"an error event", object{"error_after_chunks": 3, "status": 500}, addPair("midstream")},
	{"a cut connection", object{"after_bytes": 900}, addPair("midstream-cut")},
	{"a reset connection", object{"after_bytes": 900, "reset": true}, addPair("midstream-reset")},
}

// After the first piece of content no other vendor takes over: the error arrives as an event.
func TestChatErrorAfterContent(t *testing.T) {
	t.Parallel()
	h := use(t)
	ai := h.customer(t, unique("org"), "ai", "read")
	for _, tt := range interruptions {
		t.Run(tt.name, func(t *testing.T) {
			h.script(t, stack.FakeProvider, rule{Match: tt.models.first.match(), Action: tt.action})
			const text = "You said: one two three four five six seven eight nine ten"
			all := ai.stream(t, chatRoute, ask(tt.models.first.named(), strings.TrimPrefix(text, "You said: "), streamed)).read(t)
			if !strings.HasPrefix(text, all.Content) || all.Content == "" || all.Content == text {
				t.Fatalf("content %q, want the first pieces of %q", all.Content, text)
			}
			if all.done || all.failed == nil {
				t.Fatalf("done %t, error %+v, want an error event in place of the end", all.done, all.failed)
			}
			all.failed.complete(t, "error event")
			if all.failed.Error != "stream_interrupted" {
				t.Errorf("error %q", all.failed.Error)
			}
			if calls := h.vendorCalls(t, tt.models.second); len(calls) != 0 {
				t.Errorf("the second vendor got %d calls", len(calls))
			}
		})
	}
}

var faithful = addPair("faithful")

func TestChatWithoutSubstitution(t *testing.T) {
	t.Parallel()
	h := use(t)
	h.script(t, stack.FakeProvider, rule{Match: faithful.first.match(), Action: object{"status": 503}})
	ai := h.customer(t, unique("org"), "ai", "read")
	for _, stream := range []bool{false, true} {
		body := ask(faithful.first.named(), "hello", object{"provider": faithful.first.name, "allow_substitution": false, "stream": stream})
		ai.post(t, chatRoute, body).refused(t, http.StatusBadGateway, "provider_failed", "The engine is currently overloaded")
	}
	if calls := h.vendorCalls(t, faithful.second); len(calls) != 0 {
		t.Errorf("the second vendor got %d calls", len(calls))
	}
}

var (
	exhausted = addPair("exhausted")
	down      = addPair("down")
)

func TestChatAllFail(t *testing.T) {
	t.Parallel()
	h := use(t)
	ai := h.customer(t, unique("org"), "ai", "read")
	for _, v := range []vendor{exhausted.first, exhausted.second} {
		h.script(t, stack.FakeProvider, rule{Match: v.match(), Action: object{"retry_after": "7"}})
	}
	for _, v := range []vendor{down.first, down.second} {
		h.script(t, stack.FakeProvider, rule{Match: v.match(), Action: object{"status": 503}})
	}
	for _, stream := range []bool{false, true} {
		t.Run("limited, streamed "+strconv.FormatBool(stream), func(t *testing.T) {
			a := ai.post(t, chatRoute, ask(exhausted.first.named(), "hello", object{"stream": stream}))
			f := a.refused(t, http.StatusTooManyRequests, "rate_limited", "")
			if f.Class != "rate_limit" || f.RetryAfter < 1 || a.header.Get("Retry-After") != strconv.Itoa(f.RetryAfter) {
				t.Errorf("class %s, retry_after %d, Retry-After %q", f.Class, f.RetryAfter, a.header.Get("Retry-After"))
			}
		})
		t.Run("down, streamed "+strconv.FormatBool(stream), func(t *testing.T) {
			f := ai.post(t, chatRoute, ask(down.first.named(), "hello", object{"stream": stream})).
				refused(t, http.StatusServiceUnavailable, "all_providers_failed", "")
			if !*f.Retryable {
				t.Error("not retryable")
			}
		})
	}
}

var faulty = addPair("faulty")

// A request that is refused for its own content is not sent to another vendor.
func TestChatCallerFault(t *testing.T) {
	t.Parallel()
	h := use(t)
	overflow := `{"error":{"message":"This model's maximum context length is 8 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`
	h.script(t, stack.FakeProvider, rule{Match: faulty.first.match(), Action: object{"status": 400, "body": overflow}})
	f := h.customer(t, unique("org"), "ai", "read").post(t, chatRoute, ask(faulty.first.named(), "hello")).
		refused(t, http.StatusBadRequest, "context_overflow", "")
	if f.Class != "context_overflow" {
		t.Errorf("class %q", f.Class)
	}
	if calls := h.vendorCalls(t, faulty.second); len(calls) != 0 {
		t.Errorf("the second vendor got %d calls", len(calls))
	}
}

// A client that disconnects cancels the call to the vendor at once, through edge and gateway.
func TestChatClientLeaves(t *testing.T) {
	t.Parallel()
	h := use(t)
	ai := h.customer(t, unique("org"), "ai", "read")
	t.Run("a stream", func(t *testing.T) {
		text := unique("leave")
		call := hangingServer.expect(text)
		stream := ai.stream(t, chatRoute, ask(hangingProvider.model, text, streamed))
		if e, ok := stream.next(t); !ok || !strings.Contains(e.data, "Wait") {
			t.Fatalf("first event %+v", e)
		}
		stream.leave()
		call.ends(t)
	})
	t.Run("a whole answer", func(t *testing.T) {
		text := unique("leave")
		call := hangingServer.expect(text)
		leave := ai.begin(t, chatRoute, ask(hangingProvider.model, text))
		select {
		case <-call.begun:
		case <-soon():
			t.Fatal("the vendor is not called")
		}
		leave()
		call.ends(t)
	})
}

// ends waits until the vendor's caller has disconnected.
func (w *hangingCall) ends(t *testing.T) {
	t.Helper()
	select {
	case <-w.gone:
	case <-soon():
		t.Error("the vendor's connection stays open")
	}
}
