package api_test

import (
	"net/http"
	"strings"
	"testing"
)

const endlessPolicy = `
default_model: sandbox/sandbox
providers:
  - {name: sandbox, dialect: sandbox, models: [sandbox]}
  - {name: chats, dialect: openai, base_url: %[1]s, key_file: first.key, models: [endless, silent, ok]}
`

// Lanes run beside each other, each in its order, and their events name them.
func TestSocketLanes(t *testing.T) {
	b := setupWith(t, endlessPolicy)
	c := b.connects(t)
	c.send(t, create+`"stream_id":"slow","model":"chats/endless","input":"x"}`)
	c.send(t, create+`"stream_id":"slow","model":"chats/ok","input":"behind"}`)
	if e := c.until(t, "response.output_text.delta"); e.Get("stream_id").Str != "slow" {
		t.Errorf("%s", e.Raw)
	}
	done := c.asks(t, create+`"stream_id":"fast","model":"sandbox","input":"beside"}`)
	if done.Get("stream_id").Str != "fast" || done.Get("response.output.0.content.0.text").Str != "sandbox: beside" {
		t.Errorf("%s", done.Raw)
	}
	c.send(t, `{"type":"response.cancel","stream_id":"slow"}`)
	if e := c.next(t); e.Get("type").Str != "error" || e.Get("status").Exists() || e.Get("code").Str != "response_cancelled" {
		t.Errorf("%s", e.Raw)
	}
	if e := c.next(t); e.Get("type").Str != "response.failed" || e.Get("response.error.code").Str != "response_cancelled" || e.Get("stream_id").Str != "slow" {
		t.Errorf("%s", e.Raw)
	}
	if done := c.until(t, "response.completed"); done.Get("stream_id").Str != "slow" || !strings.Contains(done.Raw, "hello <there> &") {
		t.Errorf("the next in the lane: %s", done.Raw)
	}
}

// A response can be canceled before its first event, by its lane.
func TestSocketCancelsEarly(t *testing.T) {
	b := setupWith(t, endlessPolicy)
	c := b.connects(t)
	c.send(t, create+`"model":"chats/silent","input":"x"}`)
	<-b.vendor.reached
	c.send(t, `{"type":"response.cancel"}`)
	c.until(t, "response.created")
	c.until(t, "response.in_progress")
	if e := c.next(t); e.Get("code").Str != "response_cancelled" {
		t.Errorf("%s", e.Raw)
	}
	c.until(t, "response.failed")
	<-b.vendor.left
	c.asks(t, create+`"model":"sandbox","input":"next"}`)
}

// A lane that is full refuses a request, and nothing else.
func TestSocketBounds(t *testing.T) {
	b := setupWith(t, endlessPolicy)
	c := b.connects(t)
	c.send(t, create+`"model":"chats/endless","input":"x"}`)
	c.until(t, "response.output_text.delta")
	for range 16 {
		c.send(t, create+`"model":"sandbox","input":"waits"}`)
	}
	if e := c.refused(t, create+`"model":"sandbox","input":"one too many"}`); e.Get("status").Int() != 429 || e.Get("headers.retry-after").Str == "" || !strings.Contains(e.Get("message").Str, "try again in 1s") {
		t.Errorf("%s", e.Raw)
	}
}

// A client that leaves ends what it requested, which is billed as far as it went.
func TestSocketClientLeaves(t *testing.T) {
	b := setupWith(t, endlessPolicy)
	c := b.connects(t)
	c.send(t, create+`"model":"chats/endless","input":"x"}`)
	c.until(t, "response.output_text.delta")
	_ = c.CloseNow()
	<-b.vendor.left
	until(t, func() string {
		if b.rows(t, "outcome = 'cancelled' AND usage_state = 'estimated'") != 1 {
			return "no row yet"
		}
		return ""
	})
}

// Suspending the organization ends its connections, idle or not, and refuses new ones.
func TestSocketOfSuspendedOrganization(t *testing.T) {
	b := setupWith(t, endlessPolicy)
	idle, busy, other := b.connects(t), b.connects(t), b.connects(t, "X-Organization-Id", "bolt")
	busy.send(t, create+`"model":"chats/endless","input":"x"}`)
	busy.until(t, "response.output_text.delta")
	b.operate(t, suspendPath, `{"reason":"abuse"}`).fields(t, http.StatusOK)
	if code := idle.ends(t); code != 1008 {
		t.Errorf("the idle one closed with %d, want 1008", code)
	}
	if code := busy.ends(t); code != 1008 {
		t.Errorf("the busy one closed with %d, want 1008", code)
	}
	<-b.vendor.left
	if _, refused := b.dial(t); refused.status != http.StatusForbidden {
		t.Errorf("a new one: %+v", refused)
	}
	other.asks(t, create+`"model":"sandbox","input":"x"}`)
}

// The drain lets what is in flight finish, and takes nothing new.
func TestSocketDrains(t *testing.T) {
	b := setupWith(t, endlessPolicy)
	idle, busy := b.connects(t), b.connects(t)
	busy.send(t, create+`"model":"chats/endless","input":"x"}`)
	busy.until(t, "response.output_text.delta")
	_ = b.drain.Begin(t.Context())
	if code := idle.ends(t); code != 1012 {
		t.Errorf("the idle one closed with %d, want 1012", code)
	}
	if e := busy.refused(t, create+`"stream_id":"new","model":"sandbox","input":"x"}`); e.Get("status").Int() != 503 || e.Get("stream_id").Str != "new" {
		t.Errorf("a new request: %s", e.Raw)
	}
	if _, refused := b.dial(t); refused.status != http.StatusServiceUnavailable {
		t.Errorf("a new connection: %+v", refused)
	}
	busy.send(t, `{"type":"response.cancel"}`)
	busy.until(t, "error")
	busy.until(t, "response.failed")
	if code := busy.ends(t); code != 1012 {
		t.Errorf("the busy one closed with %d, want 1012", code)
	}
}
