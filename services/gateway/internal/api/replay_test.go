package api_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// A replay is a request of its own: served again, billed again, linked both ways.
func TestReplay(t *testing.T) {
	b := setup(t)
	body := `{ "model" : "first/ok", "messages" : [{"role":"user","content":"again <&>"}], "metadata":{"a":"b"}, "run_id":"run-old" }`
	b.chat(t, body, "X-Request-Id", "req-first").fields(t, 200)
	b.recorded(t, "req-first", 1)
	acme := []string{"X-Organization-Id", "acme"}

	got := b.post(t, "/v1/replay/req-first", `{"run_id":"run-new"}`, "X-Request-Id", "req-again").fields(t, 200)
	answer := got["answer"].(map[string]any)
	has(t, got, fields{"request_id": "req-again", "replay_of": "req-first", "operation": "chat"})
	if answer["request_id"] != "req-again" || answer["content"] == "" {
		t.Errorf("the answer to %v is %v, want some content for req-again", answer["request_id"], answer["content"])
	}
	if cost := got["usage"].(fields)["cost_cents"].(float64); cost <= 0 {
		t.Errorf("the replay cost %v cents", cost)
	}
	b.recorded(t, "req-again", 1)
	if b.rows(t, "request_id = 'req-again' AND run_id = 'run-new' AND organization_id = 'acme' AND operation = 'chat'") != 1 {
		t.Error("the replay is not billed as a request of its own")
	}
	event := b.get(t, "/v1/lineage/req-again", "svc", acme...).fields(t, 200)
	if event["parent_request_id"] != "req-first" || event["parent_kind"] != "replay" || event["run_id"] != "run-new" {
		t.Errorf("%v", event)
	}
	b.vendor.mu.Lock()
	sent := b.vendor.requests
	b.vendor.mu.Unlock()
	if len(sent) != 2 || sent[0] != sent[1] {
		t.Errorf("the vendor got %q", sent)
	}

	reply := b.get(t, "/v1/replay/req-first", "svc", acme...)
	packet := reply.fields(t, 200)
	if !strings.Contains(reply.body, `"request":`+body) {
		t.Errorf("the request is not as it was sent: %s", reply.body)
	}
	has(t, packet, fields{"operation": "chat", "error": nil})
	if packet["captured_at"] == nil || packet["expires_at"] == nil {
		t.Errorf("captured at %v until %v, want both", packet["captured_at"], packet["expires_at"])
	}
	if packet["response"].(fields)["content"] == "" {
		t.Error("the response has no content")
	}
	if replays := packet["replays"].([]any); len(replays) != 1 || replays[0] != "req-again" || packet["lineage"].(map[string]any)["provider"] != "first" {
		t.Errorf("%v", packet)
	}
	if strings.Contains(reply.body, canary) || strings.Contains(reply.body, "Bearer") {
		t.Errorf("a credential is in %s", reply.body)
	}

	// A replay of a replay is one too; the same id twice would be ambiguous.
	b.post(t, "/v1/replay/req-again", `{}`, "X-Request-Id", "req-third").fields(t, 200)
	if same := b.post(t, "/v1/replay/req-first", `{}`, "X-Request-Id", "req-first"); same.status != 400 || !strings.Contains(same.body, "X-Request-Id") {
		t.Errorf("%d %s", same.status, same.body)
	}
	b.post(t, "/v1/replay/req-test", `{}`).refused(t, 404, "not_found", "captured")
	b.post(t, "/v1/replay/req-first", `{"run_id":"a"}`, "X-Run-Id", "b").refused(t, 400, "identity_mismatch", "run_id")
}

// A request of every face and operation can be sent again.
func TestReplayOfEveryForm(t *testing.T) {
	b := setup(t)
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	for id, c := range map[string]struct{ path, body, operation, field string }{
		"r-chat":       {"/v1/llm/chat", chatOf("hello", `"stream":true`), "chat", "content"},
		"r-embed":      {"/v1/embeddings", `{"organization_id":"acme","model":"sandbox/sandbox","input":["one","two"]}`, "embeddings", "data"},
		"r-openai-emb": {"/v1/embeddings", `{"model":"sandbox/sandbox","input":"one","encoding_format":"base64","switchyard":{"run_id":"old"}}`, "embeddings", "data"},
		"r-tokens":     {"/v1/embeddings", `{"model":"sandbox/sandbox","input":[[100257,7],[11]],"encoding_format":"float"}`, "embeddings", "data"},
		"r-gemini":     {"/v1beta/models/sandbox/sandbox:streamGenerateContent?alt=sse", `{"model":"models/sandbox/sandbox","contents":[{"parts":[{"text":"hello"}]}],"switchyard":{"run_id":"old"}}`, "chat", "content"},
		"r-gemini-emb": {"/v1beta/models/sandbox%2Fsandbox:batchEmbedContents", `{"model":"models/sandbox/sandbox","requests":[{"content":{"parts":[{"text":"hello"}]}}]}`, "embeddings", "data"},
		"r-vision":     {"/v1/vision", `{"model":"sandbox/sandbox","prompt":"what","image":{"base64":"` + pixel + `","mime_type":"image/png"}}`, "vision", "content"},
		"r-images":     {"/v1/images/generations", `{"model":"sandbox/sandbox","prompt":"a cat","size":"16x16"}`, "images", "data"},
		"r-openai":     {"/v1/chat/completions", `{"model":"sandbox/sandbox","messages":[{"role":"user","content":"hello"}],"switchyard":{"run_id":"old","metadata":{"a":"b"}}}`, "chat", "content"},
		"r-anthropic":  {"/v1/messages", `{"model":"sandbox/sandbox","max_tokens":32,"stream":true,"messages":[{"role":"user","content":"hello"}]}`, "chat", "content"},
		"r-native":     {"/v1/chat/completions", `{"model":"first/ok","messages":[{"role":"user","content":"hello"}],"seed":7}`, "chat", "content"},
	} {
		t.Run(id, func(t *testing.T) {
			first := b.post(t, c.path, c.body, "X-Request-Id", id, "X-Switchyard-Goal", map[bool]string{true: "cost"}[id == "r-openai"], "X-Run-Id", "")
			if first.status != 200 {
				t.Fatalf("%d %s", first.status, first.body)
			}
			b.recorded(t, id, 1)
			got := b.post(t, "/v1/replay/"+id, `{"run_id":"new"}`, "X-Request-Id", id+"-2").fields(t, 200)
			if got["operation"] != c.operation || got["answer"].(map[string]any)[c.field] == nil {
				t.Errorf("%v", got)
			}
			b.recorded(t, id+"-2", 1)
			event := b.get(t, "/v1/lineage/"+id+"-2", "svc", "X-Organization-Id", "acme").fields(t, 200)
			before := b.get(t, "/v1/lineage/"+id, "svc", "X-Organization-Id", "acme").fields(t, 200)
			has(t, event, fields{
				"run_id": "new", "parent_request_id": id, "request_digest": before["request_digest"], "requested_goal": before["requested_goal"],
			})
			packet := b.get(t, "/v1/replay/"+id, "svc", "X-Organization-Id", "acme").fields(t, 200)
			request, _ := json.Marshal(packet["request"])
			var want any
			_ = json.Unmarshal([]byte(c.body), &want)
			if wanted, _ := json.Marshal(want); string(request) != string(wanted) || packet["response"] == nil {
				t.Errorf("%s, want %s; response %v", request, wanted, packet["response"])
			}
		})
	}
}
