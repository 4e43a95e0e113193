package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/testkit"
)

const create = `{"type":"response.create",`

// Each request of a connection is a call of its own: with its own id, log line and row.
func TestSocketServesRequests(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	c := b.connects(t)
	before := b.rows(t, "true")
	for _, tt := range []struct{ frame, want string }{
		{create + `"stream":true,"model":"sandbox","input":"one"}`, "sandbox: one"},
		{create + `"model":"chats/ok","input":"two"}`, "hello <there> &"},
		{`{"input":"three","model":"spare","type":"response.create"}`, "from spare"},
	} {
		c.send(t, tt.frame)
		created := c.until(t, "response.created")
		done := c.until(t, "response.completed")
		if done.Get("response.output.0.content.0.text").Str != tt.want || done.Get("response.id").Str != created.Get("response.id").Str {
			t.Errorf("%s: %s", tt.frame, done.Raw)
		}
		if created.Get("sequence_number").Int() != 0 || done.Get("sequence_number").Int() < 4 || done.Get("stream_id").Exists() {
			t.Errorf("%s: %s", tt.frame, done.Raw)
		}
	}
	if n := b.rows(t, "true") - before; n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(DISTINCT request_id) FROM ledger_entry WHERE request_id LIKE 'req_%'"); n != 3 {
		t.Errorf("%d request ids, want 3", n)
	}
	_ = c.Close(websocket.StatusNormalClosure, "")
	testkit.Wait(t, "the log lines", func() error {
		log := b.log.String()
		calls := strings.Count(log, `"connection":"req-test"`)
		if calls != 3 || !strings.Contains(log, `"websocket_code":1000`) || !strings.Contains(log, `"messages":3`) {
			return fmt.Errorf("%d lines of calls: %s", calls, log)
		}
		return nil
	})
}

// A conversation goes on within the connection though nothing is stored, and from a stored response on any connection.
func TestSocketContinues(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	c := b.connects(t)
	const kept = `"model":"chats/ok","store":false,`
	warm := c.asks(t, create+kept+`"generate":false,"input":[{"role":"developer","content":"be kind"}]}`)
	if usage := warm.Get("response.usage"); usage.Get("total_tokens").Int() != 0 || !usage.Get("input_tokens_details.cached_tokens").Exists() || warm.Get("generate").Raw != "false" {
		t.Errorf("a warm-up: %s", warm.Raw)
	}
	if n := b.rows(t, "true"); n != 0 {
		t.Errorf("a warm-up has %d rows", n)
	}
	first := c.asks(t, create+kept+`"previous_response_id":"`+warm.Get("response.id").Str+`","input":"one"}`).Get("response.id").Str
	second := c.asks(t, create+kept+`"previous_response_id":"`+first+`","input":"two"}`).Get("response.id").Str
	sent := b.vendor.last()
	for _, want := range []string{"be kind", `"one"`, "hello <there> &", `"two"`} {
		at := strings.Index(sent, want)
		if at < 0 {
			t.Fatalf("the vendor got %s, want %s", b.vendor.last(), want)
		}
		sent = sent[at:]
	}
	const unknown = "previous_response_not_found"
	if e := c.refused(t, create+kept+`"previous_response_id":"`+warm.Get("response.id").Str+`","input":"x"}`); e.Get("code").Str != unknown || e.Get("status").Int() != 400 {
		t.Errorf("from an older response: %s", e.Raw)
	}
	if e := b.connects(t).refused(t, create+kept+`"previous_response_id":"`+second+`","input":"x"}`); e.Get("code").Str != unknown {
		t.Errorf("on another connection: %s", e.Raw)
	}
	if e := b.connects(t, "X-Owner-Id", "bob").refused(t, create+`"previous_response_id":"`+second+`","input":"x"}`); e.Get("code").Str != unknown {
		t.Errorf("by another owner: %s", e.Raw)
	}
}

// What a failed turn went on from is forgotten, and what is stored after all is stored with what came before it.
func TestSocketForgetsAndStores(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	c := b.connects(t)
	first := c.asks(t, create+`"model":"sandbox","store":false,"input":"one"}`).Get("response.id").Str
	stored := c.asks(t, create+`"model":"sandbox","previous_response_id":"`+first+`","input":"two"}`)
	if !stored.Get("response.store").Bool() || stored.Get("response.previous_response_id").Str != first {
		t.Fatalf("%s", stored.Raw)
	}
	other := b.connects(t)
	other.asks(t, create+`"model":"chats/ok","previous_response_id":"`+stored.Get("response.id").Str+`","input":"three"}`)
	for _, want := range []string{`"one"`, "sandbox: one", `"two"`, "sandbox: two", `"three"`} {
		if !strings.Contains(b.vendor.last(), want) {
			t.Errorf("the vendor got %s, want %s", b.vendor.last(), want)
		}
	}
	second := c.asks(t, create+`"model":"sandbox","store":false,"input":"one"}`).Get("response.id").Str
	continued := `"store":false,"previous_response_id":"` + second + `","input":"two"}`
	c.send(t, create+`"model":"chats/cut",`+continued)
	c.until(t, "error")
	c.until(t, "response.failed")
	if e := c.refused(t, create+continued); e.Get("code").Str != "previous_response_not_found" {
		t.Errorf("after a failed turn: %s", e.Raw)
	}
}

// Errors are events in both forms, and leave the connection open; what isn't the protocol ends it.
func TestSocketRefuses(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	c := b.connects(t)
	for _, tt := range []struct {
		name, frame string
		status      int
		code, param string
	}{
		{"an unknown type", `{"type":"session.update"}`, 400, "invalid_request", "type"},
		{"no type", `{"input":"x"}`, 400, "invalid_request", "type"},
		{"a type that isn't text", `{"type":7}`, 400, "invalid_request", "type"},
		{"a name twice", `{"type":"response.cancel","type":"response.create"}`, 400, "invalid_request", "body"},
		{"not an object", `["response.create"]`, 400, "invalid_request", "body"},
		{"a bad lane", create + `"stream_id":"a b"}`, 400, "invalid_request", "stream_id"},
		{"in the background", create + `"background":true,"input":"x"}`, 400, "invalid_request", "background"},
		{"a bad field", create + `"temperature":"hot","input":"x"}`, 400, "invalid_request", "temperature"},
		{"an unknown model", create + `"model":"nobody/knows","input":"x"}`, 404, "model_not_found", ""},
		{"another organization", create + `"switchyard":{"organization_id":"bolt"},"input":"x"}`, 403, "organization_mismatch", ""},
		{"too deep", create + `"input":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, 400, "invalid_request", "body"},
	} {
		e := c.refused(t, tt.frame)
		if int(e.Get("status").Int()) != tt.status || e.Get("code").Str != tt.code || e.Get("param").Str != tt.param || strings.Contains(e.Raw, canary) {
			t.Errorf("%s: %s, want %d %s %s", tt.name, e.Raw, tt.status, tt.code, tt.param)
		}
		if e.Get("message").Str == "" || e.Get("error.code").Str != tt.code || e.Get("error.message").Str != e.Get("message").Str || !e.Get("sequence_number").Exists() || e.Get("headers.x-request-id").Str == "" {
			t.Errorf("%s: not in both forms: %s", tt.name, e.Raw)
		}
	}
	c.send(t, `{"type":"response.processed","response_id":"resp_1"}`)
	c.send(t, `{"type":"response.cancel","response_id":"resp_1"}`)
	c.send(t, `{"type":"response.steer","stream_id":"a","previous_response_id":"resp_1","input":[]}`)
	if steer := c.next(t); steer.Get("type").Str != "response.steer.failed" || steer.Get("error.code").Str != "steering_not_supported" || steer.Get("stream_id").Str != "a" {
		t.Errorf("%s", steer.Raw)
	}
	c.asks(t, create+`"model":"sandbox","input":"still here"}`)
}

// A large message for which there is no memory is refused, and leaves the connection open.
func TestSocketRefusesWithoutMemory(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	c := b.connects(t)
	other := b.bodies.Open("acme")
	if err := other.Grow(bodymemory.Free + 1<<20); err != nil {
		t.Fatal(err)
	}
	large := create + `"model":"sandbox","input":"` + strings.Repeat("x", 200<<10) + `"}`
	if e := c.refused(t, large); e.Get("status").Int() != 429 || e.Get("code").Str != "rate_limit_exceeded" {
		t.Errorf("without memory: %s", e.Raw)
	}
	c.asks(t, create+`"model":"sandbox","input":"a small one"}`)
	other.Close()
	c.asks(t, large)
}

func TestSocketClosesOnOtherProtocols(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	for _, tt := range []struct {
		name string
		kind websocket.MessageType
		text string
		want websocket.StatusCode
	}{
		{"binary", websocket.MessageBinary, create + `"input":"x"}`, 1003},
		{"not JSON", websocket.MessageText, `{"type":`, 1007},
		{"not UTF-8", websocket.MessageText, "{\"type\":\"\xff\"}", 1007},
		{"too large", websocket.MessageText, create + `"input":"` + strings.Repeat("x", 1<<20) + `"}`, 1009},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := b.connects(t)
			_ = c.Write(t.Context(), tt.kind, []byte(tt.text))
			if code := c.ends(t); code != tt.want {
				t.Errorf("closed with %d, want %d", code, tt.want)
			}
		})
	}
}

// A refused upgrade is an HTTP error.
func TestSocketUpgrades(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	for _, tt := range []struct {
		name   string
		header []string
		want   int
	}{
		{"an unknown token", []string{"Authorization", "Bearer other"}, http.StatusUnauthorized},
		{"a role that may not", []string{"Authorization", "Bearer sup"}, http.StatusForbidden},
		{"a browser of another site", []string{"Origin", "https://evil.example"}, http.StatusForbidden},
	} {
		if _, refused := b.dial(t, tt.header...); refused.status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, refused.status, refused.body, tt.want)
		}
	}
	if got := b.say(t, http.MethodGet, responsesPath, ""); got.status != http.StatusUpgradeRequired || !strings.Contains(got.body, `"code":"upgrade_required"`) || got.header.Get("Upgrade") != "websocket" {
		t.Errorf("without an upgrade: %d %s", got.status, got.body)
	}
	for range 4 { // Half of the places are for one organization.
		b.connects(t)
	}
	if _, refused := b.dial(t); refused.status != http.StatusTooManyRequests || refused.header.Get("Retry-After") == "" {
		t.Errorf("one more: %+v", refused)
	}
	b.connects(t, "X-Organization-Id", "bolt")
}
