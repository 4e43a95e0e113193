//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

const (
	deepBody   = 200 << 10 // bytes of nested arrays, not enough to be refused for their size
	deepestAny = 6 << 20   // bytes, the most that is sent through the edge
	toolRounds = 12_000    // of a conversation of nearly 8 MB
)

// hostileRequest is a hostile caller's request, and the client and path that it goes to.
type hostileRequest struct {
	name string
	to   client
	path string
	body any
	// served marks a request that is only unusual: it may be answered with 2xx.
	served bool
}

// nestedArrays returns JSON of that many bytes, in arrays nested half as deep.
func nestedArrays(bytes int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", bytes/2) + strings.Repeat("]", bytes/2))
}

// nestedObjects returns JSON of about that many bytes, in nested objects.
func nestedObjects(bytes int) json.RawMessage {
	n := bytes / len(`{"a":}`)
	return json.RawMessage(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
}

// callers sends deep, wide and long requests to every face that takes a body. Each must be answered, and not with a
// failure of the service.
func (ht *hostileTraffic) callers(t *testing.T) {
	t.Helper()
	for _, r := range ht.hostileRequests(t) {
		t.Run(r.name, func(t *testing.T) {
			a, err := r.to.within(t, r.path, r.body)
			switch {
			case err != nil:
				t.Errorf("no answer: %v", err)
			case a.status >= http.StatusInternalServerError:
				t.Errorf("answered %d: %s", a.status, shorten(a.body))
			case a.status < http.StatusBadRequest && !r.served:
				t.Errorf("taken: %d %s", a.status, shorten(a.body))
			case len(a.body) > hostileAnswer/64:
				t.Errorf("answered %d bytes", len(a.body))
			}
			ht.monitor.check(t, r.name)
		})
	}
}

func (ht *hostileTraffic) hostileRequests(t *testing.T) (all []hostileRequest) {
	t.Helper()
	organization := unique("org")
	gateway, egress, notify := ht.service(stack.Gateway, organization), ht.service(stack.WebhookEgress, organization), ht.service(stack.Notify, organization)
	ai, webhooks := ht.customer(t, organization, "ai", "read"), ht.customer(t, organization, "webhooks", "write")
	notifications := ht.customer(t, organization, "notifications", "write")
	model := quietVendors[0].model
	for _, path := range []string{byokPath, byokPath + "/quiet-openai/rotate", byokPath + "/quiet-openai/transfer", "/v1/byok/purge"} {
		all = append(all,
			hostileRequest{"deep arrays to " + path, gateway, path, string(nestedArrays(deepBody)), false},
			hostileRequest{"deep objects to " + path, gateway, path, rawObject("provider", "quiet-openai", "sealed", nestedObjects(deepBody)), false})
	}
	for _, deep := range []struct {
		name  string
		value json.RawMessage
	}{{"200 KB of arrays", nestedArrays(deepBody)}, {"200 KB of objects", nestedObjects(deepBody)}, {"6 MB of arrays", nestedArrays(deepestAny)}, {"6 MB unclosed", json.RawMessage(strings.Repeat("[", deepestAny))}} {
		for face, path := range map[string]string{"own": chatRoute, "openai": "/product/v1/ai/openai/v1/chat/completions", "anthropic": "/product/v1/ai/anthropic/v1/messages"} {
			all = append(all,
				hostileRequest{deep.name + " as messages of " + face, ai, path, rawObject("model", model, "max_tokens", 8, "messages", deep.value), false},
				hostileRequest{deep.name + " as content of " + face, ai, path, rawObject("model", model, "max_tokens", 8, "messages", json.RawMessage(`[{"role":"user","content":`+string(deep.value)+`}]`)), false},
				hostileRequest{deep.name + " as tools of " + face, ai, path, rawObject("model", model, "max_tokens", 8, "messages", say("hello"), "tools", deep.value), false})
		}
		all = append(all,
			hostileRequest{deep.name + " as input", ai, embeddingsRoute, rawObject("model", model, "input", deep.value), false},
			hostileRequest{deep.name + " as a payload", webhooks, deliveryRoute, rawObject("url", "http://192.0.2.1/", "event_type", "a.b", "payload", deep.value), false},
			hostileRequest{deep.name + " as an event's payload", egress, eventPath, rawObject("event_type", "a.b", "payload", deep.value), len(deep.value) <= deepBody*2},
			hostileRequest{deep.name + " as a notification's data", notifications, sendRoute, rawObject("channels", []string{"in_app"}, "message", "m", "target", object{"user_id": "ann"}, "data", deep.value), len(deep.value) <= deepBody*2},
			hostileRequest{deep.name + " as a target", notify, notifyPath, rawObject("channels", []string{"in_app"}, "message", "m", "target", deep.value), false})
	}
	all = append(all,
		hostileRequest{"a conversation of thousands of calls to openai", ai, "/product/v1/ai/openai/v1/chat/completions", openAIConversation(unread("openai")), true},
		hostileRequest{"the same for another dialect", ai, "/product/v1/ai/openai/v1/chat/completions", openAIConversation(unread("anthropic")), true},
		hostileRequest{"a conversation of thousands of calls to anthropic", ai, "/product/v1/ai/anthropic/v1/messages", anthropicConversation(unread("anthropic")), true},
		hostileRequest{"every key twice", ai, chatRoute, `{"model":"nobody","model":"` + model + `","messages":[],"messages":[{"role":"user","role":"user","content":"a","content":"b"}]}`, true},
		hostileRequest{"100,000 unknown fields", ai, chatRoute, manyFields(model), true},
		hostileRequest{"100,000 recipients", notify, notifyPath, object{"channels": strings.Split(strings.Repeat("in_app,", 100_000), ","), "message": "m"}, false},
		hostileRequest{"headers of a thousand names", manyHeaders(ai), chatRoute, ask(model, "hello"), true},
		hostileRequest{"NULs and broken UTF-8", ai, chatRoute, "{\"model\":\"" + model + "\",\"messages\":[{\"role\":\"user\",\"content\":\"\x00\xff\xfe\"}]}", true},
		hostileRequest{"a number of 1 MB", ai, chatRoute, `{"model":"` + model + `","max_tokens":` + strings.Repeat("9", 1<<20) + `,"messages":[{"role":"user","content":"a"}]}`, false},
	)
	for _, n := range []string{"1e2", "100.0", `"100"`, "18446744073709551716", "-1", "[1]"} {
		all = append(all, hostileRequest{"n of " + n, ai, "/product/v1/ai/openai/v1/chat/completions", `{"model":"` + model + `","n":` + n + `,"messages":[{"role":"user","content":"a"}]}`, false})
	}
	return all
}

// rawObject returns a JSON object of alternating names and values.
func rawObject(pairs ...any) string {
	var fields []string
	for i := 0; i+1 < len(pairs); i += 2 {
		value, isRaw := pairs[i+1].(json.RawMessage)
		if !isRaw {
			value, _ = json.Marshal(pairs[i+1]) // texts and small objects
		}
		fields = append(fields, fmt.Sprintf("%q:%s", pairs[i], value))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// unread returns the model of a vendor that doesn't read requests, so that a call takes only the gateway's own time.
func unread(dialect string) string { return hostileVendor(dialect, "usage_fraction").model }

// openAIConversation returns a conversation with a tool call and its result in each round, under an id that another
// vendor issued.
func openAIConversation(model string) string {
	var turns strings.Builder
	for i := range toolRounds {
		fmt.Fprintf(&turns, `{"role":"assistant","content":null,"tool_calls":[{"id":"toolu/%d/%s","type":"function","function":{"name":"look","arguments":"{\"a\":\"%s\"}"}}]},`, i, strings.Repeat("x", 60), strings.Repeat("y", 250))
		fmt.Fprintf(&turns, `{"role":"tool","tool_call_id":"toolu/%d/%s","content":"ok"},`, i, strings.Repeat("x", 60))
	}
	return `{"model":"` + model + `","max_tokens":8,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}],"messages":[{"role":"user","content":"go"},` + turns.String() + `{"role":"user","content":"and?"}]}`
}

// anthropicConversation returns the same conversation for the other face.
func anthropicConversation(model string) string {
	var turns strings.Builder
	for i := range toolRounds {
		fmt.Fprintf(&turns, `{"role":"assistant","content":[{"type":"tool_use","id":"call.%d.%s","name":"look","input":{"a":"%s"}}]},`, i, strings.Repeat("x", 60), strings.Repeat("y", 250))
		fmt.Fprintf(&turns, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call.%d.%s","content":"ok"}]},`, i, strings.Repeat("x", 60))
	}
	return `{"model":"` + model + `","max_tokens":8,"tools":[{"name":"look","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"go"},` + strings.TrimSuffix(turns.String(), ",") + `]}`
}

func manyFields(model string) string {
	var fields strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&fields, `"field_%d":%d,`, i, i)
	}
	return "{" + fields.String() + `"model":"` + model + `","messages":[{"role":"user","content":"a"}]}`
}

func manyHeaders(c client) client {
	var pairs []string
	for i := range 1000 {
		pairs = append(pairs, fmt.Sprint("X-Hostile-", i), "v")
	}
	return c.with(pairs...)
}

// slowCustomers is how many connections of one organization never finish sending their body.
const slowCustomers = 24

// slowCallers holds more chunked requests open than the edge has memory for whole ones, all of one organization. The
// others must not be refused meanwhile.
func (ht *hostileTraffic) slowCallers(t *testing.T) {
	t.Helper()
	k := ht.key(t, unique("org"), "ai", "read")
	head := "POST " + chatRoute + " HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer " + k.Key +
		"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	var held sync.WaitGroup
	for range slowCustomers {
		conn := ht.dialEdge(t, head+"9\r\n{\"model\":\r\n")
		held.Go(func() { sendSlowly(conn) })
	}
	held.Wait()
	ht.monitor.check(t, "slow callers")
	// Callers that disconnect in the middle of a body, and while the answer is generated.
	for range slowCustomers {
		_ = ht.dialEdge(t, head+"9\r\n{\"model\":\r\n").Close()
	}
	ai := ht.anonymous(stack.Edge).bearer(k.Key)
	for _, v := range quietVendors {
		ai.begin(t, chatRoute, ask(v.model, "hello", streamed))()
	}
	ht.monitor.check(t, "callers who leave")
}

// sendSlowly sends a byte now and then until the edge has had enough.
func sendSlowly(conn net.Conn) {
	const drops = 80
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = io.Copy(io.Discard, conn) // until the edge closes it
	}()
	for range drops {
		if _, err := io.WriteString(conn, "1\r\n \r\n"); err != nil {
			break
		}
		select {
		case <-answered:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	_ = conn.Close()
	<-answered
}
