package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/trace"
)

const (
	// spoken is the text of a message with everything that others must not read.
	spoken = "mail ada@example.com or +49 171 1234567 about PRJ-17, card 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, 10.0.0.1, sk-proj-abcDEF1234567890abcd, thanks"
	clean  = "mail [email] or [phone] about [project], card [card], [iban], [ip], [api_key], thanks"
)

func chatOf(text string, more ...string) string {
	fields := append([]string{`"model":"sandbox/sandbox"`, `"messages":[{"role":"user","content":` + quote(text) + `}]`}, more...)
	return "{" + strings.Join(fields, ",") + "}"
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func TestListTraces(t *testing.T) {
	b := setup(t)
	body := chatOf(spoken, `"metadata":{"who":"ada@example.com"}`, `"run_id":"run-1"`)
	reply := b.chat(t, body, "X-Request-Id", "req-a", "X-Key-Id", "key-1", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	reply.fields(t, 200)
	b.recorded(t, "req-a", 1)
	got := only(t, b.get(t, "/v1/traces?request_id=req-a&organization_id=acme", "svc").fields(t, 200)["traces"])
	text, _ := json.Marshal(got)
	for _, secret := range []string{"ada@", "171 1234567", "4111 1111", "DE89", "10.0.0", "sk-proj", "PRJ-"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	want := map[string]any{
		"request_id": "req-a", "organization_id": "acme", "run_id": "run-1", "key_id": "key-1", "service": "edge", "operation": "chat",
		"stream": false, "status": "ok", "truncated": false, "error": nil, "first_token_ms": nil, "replay_of": nil,
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
	request, response := got["request"].(map[string]any), got["response"].(map[string]any)
	if content := only(t, request["messages"])["content"]; content != clean || response["content"] != "sandbox: "+clean || request["model"] != "sandbox/sandbox" {
		t.Errorf("request %v, response %v", request, response)
	}
	if fmt.Sprint(got["redactions"]) != "[api_key card email iban ip phone project]" || fmt.Sprint(got["metadata"]) != "map[who:[email]]" {
		t.Errorf("redactions %v, metadata %v", got["redactions"], got["metadata"])
	}
	attempt := only(t, got["attempts"])
	has(t, attempt, map[string]any{"provider": "sandbox", "outcome": "ok", "number": 1.0, "credential": "fleet"})
	if cost := got["usage"].(map[string]any)["cost_cents"].(float64); cost <= 0 {
		t.Errorf("the request cost %v cents", cost)
	}
	b.sealedAtRest(t)

	event := b.get(t, "/v1/lineage/req-a?organization_id=acme", "svc").fields(t, 200)
	sum := sha256.Sum256([]byte(body))
	answered := sha256.Sum256([]byte(reply.body))
	for name, value := range map[string]any{
		"request_digest": hex.EncodeToString(sum[:]), "response_digest": hex.EncodeToString(answered[:]), "provider": "sandbox", "model": "sandbox",
		"requested_model": "sandbox/sandbox", "route": "requested", "status": "ok", "cache_hit": false, "substituted": false, "run_id": "run-1",
		"trace_id": "0af7651916cd43dd8448eb211c80319c", "parent_request_id": nil, "parent_kind": nil, "credential": "fleet",
	} {
		if event[name] != value {
			t.Errorf("lineage: %s is %v, want %v", name, event[name], value)
		}
	}
	if event["price_version"] == nil || len(event["attempts"].([]any)) != 1 {
		t.Errorf("lineage: %v", event)
	}
}

// sealedAtRest searches everything in the database for the text.
func (b *bench) sealedAtRest(t *testing.T) {
	t.Helper()
	for _, kind := range []string{trace.KindRecords, trace.KindContents} {
		dump := b.storedTraces(t, kind)
		for _, word := range []string{"ada@example.com", "thanks"} {
			if dump == "" || strings.Contains(dump, word) {
				t.Errorf("the %s hold %q, or nothing", kind, word)
			}
		}
	}
	if strings.Contains(b.log.String(), "ada@example.com") {
		t.Error("the log holds what was said")
	}
}

// A support trace has no content, whatever the request held and however it ended.
func TestSupportTraceHasNoContent(t *testing.T) {
	b := setup(t)
	secrets := []string{"zebra-said", "zebra-tool", "zebra-label", "zebra-argument"}
	tool := `"tools":[{"type":"function","function":{"name":"zebra-tool","description":"zebra-said","parameters":{"type":"object","properties":{"zebra-argument":{"type":"string"}}}}}]`
	calls := map[string]string{
		"req-whole":  chatOf("zebra-said zebra-tool", tool, `"metadata":{"zebra-label":"zebra-label"}`),
		"req-stream": chatOf("zebra-said", `"stream":true`),
		"req-failed": `{"model":"first/down","allow_substitution":false,"messages":[{"role":"user","content":"zebra-said"}]}`,
		"req-cut":    `{"model":"first/cut","stream":true,"messages":[{"role":"user","content":"zebra-said"}]}`,
		"req-moved":  `{"model":"first/down","messages":[{"role":"user","content":"zebra-said"}]}`,
	}
	for id, body := range calls {
		b.chat(t, body, "X-Request-Id", id)
	}
	for id, status := range map[string]string{"req-whole": "ok", "req-stream": "ok", "req-failed": "failed", "req-cut": "failed", "req-moved": "ok"} {
		b.recorded(t, id, 1)
		for _, path := range []string{"/v1/support/trace/" + id, "/v1/lineage/" + id} {
			reply := b.get(t, path, map[bool]string{true: "sup", false: "ops"}[strings.Contains(path, "support")], "X-Organization-Id", "acme")
			fields := reply.fields(t, 200)
			if fields["status"] != status {
				t.Errorf("%s: status %v, want %s: %s", path, fields["status"], status, reply.body)
			}
			for _, secret := range secrets {
				if strings.Contains(reply.body, secret) {
					t.Errorf("%s holds %s: %s", path, secret, reply.body)
				}
			}
		}
	}
	whole := b.get(t, "/v1/support/trace/req-whole", "sup").fields(t, 200)
	has(t, whole, map[string]any{
		"message_count": 1.0, "tool_count": 1.0, "request_bytes": float64(len(calls["req-whole"])), "captured": true,
	})
	if whole["response_bytes"] == 0.0 {
		t.Error("response_bytes is 0")
	}
	failed := b.get(t, "/v1/support/trace/req-failed", "ops").fields(t, 200)
	if failed["usage"] != nil || failed["error"].(map[string]any)["error"] != "provider_failed" || failed["attempts"].([]any)[0].(map[string]any)["http_status"] != 500.0 {
		t.Errorf("%v", failed)
	}
	moved := b.get(t, "/v1/support/trace/req-moved", "sup").fields(t, 200)
	attempts := moved["attempts"].([]any)
	if len(attempts) != 2 {
		t.Fatalf("%d attempts, want 2: %v", len(attempts), attempts)
	}
	has(t, attempts[0].(map[string]any), map[string]any{"outcome": "failed"})
	has(t, attempts[1].(map[string]any), map[string]any{"provider": "second", "outcome": "ok"})
	streamed := b.get(t, "/v1/support/trace/req-stream", "sup").fields(t, 200)
	if streamed["stream"] != true || streamed["first_token_ms"] == nil {
		t.Errorf("%v", streamed)
	}
	b.get(t, "/v1/support/trace/req-whole", "svc").refused(t, 403, "forbidden", "")
	b.get(t, "/v1/support/trace/absent", "sup").refused(t, 404, "not_found", "trace")
}

// No organization can read or replay another organization's requests, or learn that
// they exist.
func TestTracesAreOfTheirOrganization(t *testing.T) {
	b := setup(t)
	b.chat(t, chatOf("secret of acme"), "X-Request-Id", "req-acme").fields(t, 200)
	b.chat(t, chatOf("secret of bolt"), "X-Request-Id", "req-bolt", "X-Organization-Id", "bolt").fields(t, 200)
	b.recorded(t, "req-acme", 1)
	b.recorded(t, "req-bolt", 1)
	for _, path := range []string{"/v1/lineage/req-acme", "/v1/replay/req-acme"} {
		b.get(t, path, "svc", "X-Organization-Id", "bolt").refused(t, 404, "not_found", "request_id")
		b.get(t, path+"?organization_id=acme", "svc", "X-Organization-Id", "bolt").refused(t, 403, "organization_mismatch", "")
		b.get(t, path, "svc").refused(t, 400, "invalid_request", "organization_id")
		b.get(t, path, "sup").refused(t, 403, "forbidden", "")
		b.get(t, path, "svc", "X-Organization-Id", "acme").fields(t, 200)
	}
	b.post(t, "/v1/replay/req-acme", `{}`, "X-Organization-Id", "bolt").refused(t, 404, "not_found", "request_id")
	b.post(t, "/v1/replay/req-acme", `{"organization_id":"acme"}`, "X-Organization-Id", "bolt").refused(t, 403, "organization_mismatch", "")
	for _, path := range []string{"/v1/traces", "/v1/lineage"} {
		list := b.get(t, path, "svc", "X-Organization-Id", "bolt")
		if list.fields(t, 200); strings.Contains(list.body, "acme") || !strings.Contains(list.body, "req-bolt") {
			t.Errorf("%s: %s", path, list.body)
		}
		b.get(t, path+"?organization_id=acme", "svc", "X-Organization-Id", "bolt").refused(t, 403, "organization_mismatch", "")
		b.get(t, path, "sup").refused(t, 403, "forbidden", "")
	}
}

func TestListTracesFilters(t *testing.T) {
	b := setup(t)
	begun := time.Now()
	for i := range 5 {
		b.chat(t, chatOf(fmt.Sprint("number ", i)), "X-Request-Id", fmt.Sprint("req-", i), "X-Run-Id", fmt.Sprint("run-", i%2)).fields(t, 200)
	}
	b.chat(t, `{"model":"first/down","allow_substitution":false,"messages":[{"role":"user","content":"x"}]}`, "X-Request-Id", "req-5")
	for i := range 6 {
		b.recorded(t, fmt.Sprint("req-", i), 1)
	}
	ids := func(path, list, query string) string {
		var all []string
		for _, item := range b.get(t, path+"?organization_id=acme&"+query, "svc").fields(t, 200)[list].([]any) {
			all = append(all, strings.TrimPrefix(item.(map[string]any)["request_id"].(string), "req-"))
		}
		return strings.Join(all, "")
	}
	before := url.QueryEscape(begun.UTC().Format(time.RFC3339Nano))
	for query, want := range map[string]string{
		"": "543210", "run_id=run-1": "31", "status=failed": "5", "status=ok&provider=sandbox": "43210", "model=none": "", "operation=chat": "543210",
		"operation=images": "", "since=" + before: "543210", "until=" + before: "", "limit=2": "54",
	} {
		if got := ids("/v1/traces", "traces", query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	var pages []string
	cursor := ""
	for len(pages) == 0 || cursor != "" {
		page := b.get(t, "/v1/lineage?limit=4&organization_id=acme&cursor="+cursor, "svc").fields(t, 200)
		for _, e := range page["events"].([]any) {
			pages = append(pages, e.(map[string]any)["request_id"].(string))
		}
		cursor = page["next_cursor"].(string)
	}
	if strings.Join(pages, " ") != "req-5 req-4 req-3 req-2 req-1 req-0" {
		t.Errorf("pages gave %v", pages)
	}
	b.get(t, "/v1/traces?organization_id=acme&cursor=x", "svc").refused(t, 400, "invalid_request", "cursor")
	b.get(t, "/v1/traces?organization_id=acme&limit=201", "svc").refused(t, 400, "invalid_request", "limit")
	b.get(t, "/v1/traces?organization_id=acme&status=lost", "svc").refused(t, 400, "invalid_request", "status")
	b.get(t, "/v1/lineage?organization_id=acme&since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z", "svc").refused(t, 400, "invalid_request", "until")
}

// With recording off nothing is stored, and without sampling no content.
func TestTracesByRule(t *testing.T) {
	b := setup(t)
	off := *b.rule.Load()
	off.Lineage = false
	b.rule.Store(&off)
	b.chat(t, chatOf("unseen"), "X-Request-Id", "req-off").fields(t, 200)
	bare := off
	bare.Lineage, bare.SamplePercent = true, 0
	b.rule.Store(&bare)
	b.chat(t, chatOf("unsampled"), "X-Request-Id", "req-bare").fields(t, 200)
	short := bare
	short.SamplePercent, short.MaxBytes = 100, 1024
	b.rule.Store(&short)
	b.chat(t, chatOf(strings.Repeat("long ", 2000)), "X-Request-Id", "req-long").fields(t, 200)
	for id, times := range map[string]int{"req-bare": 1, "req-long": 1, "req-off": 0} {
		b.recorded(t, id, times)
	}
	acme := []string{"X-Organization-Id", "acme"}
	if got := only(t, b.get(t, "/v1/traces?request_id=req-bare", "svc", acme...).fields(t, 200)["traces"]); got["request"] != nil || got["response"] != nil || got["truncated"] != false {
		t.Errorf("unsampled: %v", got)
	}
	b.get(t, "/v1/replay/req-bare", "svc", acme...).refused(t, 404, "not_found", "not captured")
	got := only(t, b.get(t, "/v1/traces?request_id=req-long", "svc", acme...).fields(t, 200)["traces"])
	content, _ := only(t, got["request"].(map[string]any)["messages"])["content"].(string)
	if got["truncated"] != true || !strings.HasSuffix(content, "[cut]") || len(content) > 1024 {
		t.Errorf("shortened: %v", got)
	}
	b.get(t, "/v1/replay/req-long", "svc", acme...).fields(t, 200)
	b.post(t, "/v1/replay/req-long", `{}`).refused(t, 422, "unprocessable", "longer than what is kept")
}

// Over gRPC it is the same, and the request is recorded as the JSON face would have received it.
func TestTracesOverGRPC(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Join(metadata.Pairs("x-request-id", "req-grpc"), metadata.MD{"authorization": md["authorization"], "x-organization-id": md["x-organization-id"]}))
	if _, err := client.Chat(ctx, &gatewayv1.LlmRequest{Model: "sandbox/sandbox", Temperature: new(0.5), Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"to ada@example.com"`)}}}); err != nil {
		t.Fatal(err)
	}
	b.recorded(t, "req-grpc", 1)
	traces := gatewayv1.NewTraceServiceClient(b.conn)
	own := metadata.NewOutgoingContext(t.Context(), md)
	list, err := traces.ListTraces(own, &gatewayv1.ListTracesRequest{RequestId: "req-grpc"})
	if err != nil || len(list.GetTraces()) != 1 || !strings.Contains(string(list.GetTraces()[0].GetRequest()), "to [email]") {
		t.Fatalf("%v %v", list, err)
	}
	packet, err := traces.GetReplay(own, &gatewayv1.GetReplayRequest{RequestId: "req-grpc"})
	if err != nil || !strings.Contains(string(packet.GetRequest()), "to ada@example.com") {
		t.Fatalf("%v %v", packet, err)
	}
	replayed, err := traces.Replay(own, &gatewayv1.ReplayRequest{RequestId: "req-grpc"})
	if err != nil || replayed.GetReplayOf() != "req-grpc" || !strings.Contains(string(replayed.GetAnswer()), "sandbox: to ada@example.com") {
		t.Fatalf("%v %v", replayed, err)
	}
}

// Expired records and contents are not shown, even before they are deleted.
func TestTracesExpire(t *testing.T) {
	b := setup(t)
	b.chat(t, chatOf("soon gone"), "X-Request-Id", "req-old").fields(t, 200)
	b.recorded(t, "req-old", 1)
	acme := []string{"X-Organization-Id", "acme"}
	store, record := postgres.NewTraces(b.pool), b.traces(t, "req-old")[0]
	sealed, err := store.Sealed(t.Context(), []trace.Record{record})
	if err != nil {
		t.Fatal(err)
	}
	expired := time.Now().Add(-time.Minute)
	record.ID, record.RequestID, record.StartedAt = uuid.New(), "req-content", record.StartedAt.Add(-2*time.Minute)
	record.Content.Sealed, record.Content.ExpiresAt = sealed[b.traces(t, "req-old")[0].ID], expired
	gone := record
	gone.ID, gone.RequestID, gone.Content, gone.ExpiresAt = uuid.New(), "req-gone", nil, expired
	if err := store.Append(t.Context(), []trace.Record{record, gone}); err != nil {
		t.Fatal(err)
	}
	b.get(t, "/v1/replay/req-content", "svc", acme...).refused(t, 404, "not_found", "no longer kept")
	if got := only(t, b.get(t, "/v1/traces?request_id=req-content", "svc", acme...).fields(t, 200)["traces"]); got["request"] != nil {
		t.Errorf("%v", got)
	}
	b.get(t, "/v1/lineage/req-content", "svc", acme...).fields(t, 200)
	b.get(t, "/v1/lineage/req-gone", "svc", acme...).refused(t, 404, "not_found", "trace")
}
