package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/platform/testkit"
)

const approvalsPath = "/v1/approvals"

func expressions(tb testing.TB) *approval.Expressions {
	tb.Helper()
	of, err := approval.NewExpressions()
	if err != nil {
		tb.Fatal(err)
	}
	return of
}

// asks creates an approval of the tool deploy and returns its ref.
func (b *bench) asks(tb testing.TB, more string) string {
	tb.Helper()
	made := b.post(tb, approvalsPath, `{"tool":"deploy","requested_by":"agent"`+more+`}`).fields(tb, http.StatusCreated)
	return made["ref"].(string)
}

func (b *bench) trail(tb testing.TB, query string) []map[string]any {
	tb.Helper()
	var page struct{ Entries []map[string]any }
	a := b.get(tb, "/v1/admin/audit?"+query, "ops")
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != http.StatusOK {
		tb.Fatalf("%d %s", a.status, a.body)
	}
	return page.Entries
}

func TestApproval(t *testing.T) {
	b := setup(t)
	a := b.post(t, approvalsPath, `{"tool":"deploy","arguments":{"b": 1.0, "a":[2]},"requested_by":"agent","server_id":"s","description":"d"}`, "X-Run-Id", "r1")
	made := a.fields(t, http.StatusCreated)
	ref := made["ref"].(string)
	created, _ := time.Parse(time.RFC3339Nano, made["created_at"].(string))
	expires, _ := time.Parse(time.RFC3339Nano, made["expires_at"].(string))
	has(t, made, map[string]any{"status": "pending", "run_id": "r1", "decided_by": nil})
	if lasts := expires.Sub(created); lasts != 15*time.Minute {
		t.Errorf("the approval expires after %s, want 15m", lasts)
	}
	if len(ref) < 26 {
		t.Errorf("the ref %s can be guessed", ref)
	}
	if !strings.Contains(a.body, `"arguments":{"b":1.0,"a":[2]}`) && !strings.Contains(a.body, `"arguments":{"b": 1.0, "a":[2]}`) {
		t.Errorf("the arguments are others: %s", a.body)
	}
	if got := b.get(t, approvalsPath+"/"+ref, "svc", "X-Organization-Id", "acme"); got.body != a.body || got.status != http.StatusOK {
		t.Errorf("read %s\nmade %s", got.body, a.body)
	}
	for _, same := range []string{`"decided_by":"agent"`, `"decided_by":"AGENT"`, `"decided_by":" agent\u00a0"`, `"decided_by":"\uff21gent"`} {
		for _, path := range []string{"/approve", "/deny"} {
			b.post(t, approvalsPath+"/"+ref+path, `{`+same+`}`).refused(t, 403, "reviewer_not_independent", "decided_by: must be another principal")
		}
	}
	b.post(t, approvalsPath+"/"+ref+"/approve", `{"decided_by":"ada"}`, "X-User-Id", "Agent").refused(t, 403, "reviewer_not_independent", "decided_by")
	decided := b.post(t, approvalsPath+"/"+ref+"/approve", `{"decided_by":"ada","reason":"fine"}`, "X-User-Id", "ada").fields(t, http.StatusOK)
	has(t, decided, map[string]any{"status": "approved", "decided_by": "ada", "reason": "fine"})
	if decided["decided_at"] == nil {
		t.Error("decided_at is not set")
	}
	b.post(t, approvalsPath+"/"+ref+"/deny", `{"decided_by":"bob"}`).refused(t, 409, "approval_decided", "final")
	entries := b.trail(t, "subject="+ref)
	if len(entries) != 2 {
		t.Fatalf("%d audit entries, want 2: %v", len(entries), entries)
	}
	has(t, entries[0], map[string]any{"action": "approval.approve", "actor": "ada", "reason": "fine", "request_id": "req-test"})
	has(t, entries[1], map[string]any{"action": "approval.create", "actor": "edge", "organization_id": "acme"})
}

func TestApprovalRefusals(t *testing.T) {
	b := setup(t)
	ref := b.asks(t, "")
	decide := approvalsPath + "/" + ref + "/approve"
	for name, test := range map[string]struct {
		path, body string
		header     []string
		status     int
		reason     string
		text       string
	}{
		"no tool":               {approvalsPath, `{"requested_by":"x"}`, nil, 400, "invalid_request", "tool"},
		"a blank tool":          {approvalsPath, `{"tool":" ","requested_by":"x"}`, nil, 400, "invalid_request", "tool: must not be blank"},
		"nobody asks":           {approvalsPath, `{"tool":"deploy"}`, nil, 400, "invalid_request", "requested_by"},
		"a ttl too long":        {approvalsPath, `{"tool":"deploy","requested_by":"x","ttl_seconds":604801}`, nil, 400, "invalid_request", "ttl_seconds"},
		"two runs":              {approvalsPath, `{"tool":"deploy","requested_by":"x","run_id":"a"}`, []string{"X-Run-Id", "b"}, 400, "identity_mismatch", "run_id"},
		"a zero byte":           {approvalsPath, `{"tool":"a\u0000b","requested_by":"x"}`, nil, 400, "invalid_request", "tool: must not hold a zero byte"},
		"another organization":  {approvalsPath, `{"tool":"deploy","requested_by":"x","organization_id":"bolt"}`, nil, 403, "organization_mismatch", ""},
		"no organization":       {approvalsPath, `{"tool":"deploy","requested_by":"x"}`, []string{"X-Organization-Id", ""}, 400, "invalid_request", "organization_id"},
		"a role":                {approvalsPath, `{"tool":"deploy","requested_by":"x"}`, []string{"Authorization", "Bearer sup"}, 403, "forbidden", ""},
		"nobody decides":        {decide, `{}`, nil, 400, "invalid_request", "decided_by"},
		"an invisible decider":  {decide, `{"decided_by":"\u3164"}`, nil, 400, "invalid_request", "decided_by: must not be blank"},
		"turned round":          {decide, `{"decided_by":"\u202eeve"}`, nil, 400, "invalid_request", "decided_by: must not hold control"},
		"a name with a control": {approvalsPath, `{"tool":"t","requested_by":"a\u0007"}`, nil, 400, "invalid_request", "requested_by: must not hold control"},
		"a blank decides":       {decide, `{"decided_by":"  "}`, nil, 400, "invalid_request", "decided_by: must not be blank"},
		"decided by others":     {decide, `{"decided_by":"eve"}`, []string{"X-Organization-Id", "bolt"}, 404, "not_found", "approval"},
		"of no such ref":        {approvalsPath + "/apr_none/deny", `{"decided_by":"eve"}`, nil, 404, "not_found", "approval"},
		"decided by a support":  {decide, `{"decided_by":"eve"}`, []string{"Authorization", "Bearer sup"}, 403, "forbidden", ""},
		"a field that is not":   {decide, `{"decided_by":"eve","why":"x"}`, nil, 400, "invalid_request", "why"},
		"nobody may without it": {decide, `{"decided_by":"eve"}`, []string{"Authorization", "Bearer x"}, 401, "unauthenticated", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b.post(t, test.path, test.body, test.header...).refused(t, test.status, test.reason, test.text)
		})
	}
	b.get(t, approvalsPath+"/"+ref, "svc", "X-Organization-Id", "bolt").refused(t, 404, "not_found", "approval")
	b.get(t, approvalsPath+"?status=lost", "svc", "X-Organization-Id", "acme").refused(t, 400, "invalid_request", "status")
	b.get(t, approvalsPath+"?cursor=AAAA", "svc", "X-Organization-Id", "acme").refused(t, 400, "invalid_request", "cursor")
	if got := b.get(t, approvalsPath+"/"+ref, "svc", "X-Organization-Id", "acme").fields(t, 200); got["status"] != "pending" {
		t.Errorf("after all refusals: %v", got)
	}
}

func TestApprovalExpires(t *testing.T) {
	b := setup(t)
	ref := b.asks(t, `,"ttl_seconds":60`)
	testkit.Exec(t, b.pool, "UPDATE approval SET created_at = created_at - interval '1 minute', expires_at = expires_at - interval '1 minute'")
	b.post(t, approvalsPath+"/"+ref+"/approve", `{"decided_by":"ada"}`).refused(t, 409, "approval_expired", "")
	if got := b.get(t, approvalsPath+"/"+ref, "svc", "X-Organization-Id", "acme").fields(t, 200); got["status"] != "expired" || got["decided_at"] != nil {
		t.Errorf("%v", got)
	}
	if got := b.get(t, approvalsPath+"?status=expired", "svc", "X-Organization-Id", "acme"); !strings.Contains(got.body, ref) {
		t.Errorf("not listed as expired: %s", got.body)
	}
}

func TestListApprovals(t *testing.T) {
	b := setup(t)
	want := make([]string, 5)
	for i := range want {
		want[len(want)-1-i] = b.asks(t, "")
	}
	var got []string
	cursor := ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		page := b.get(t, approvalsPath+"?limit=2&status=pending&cursor="+cursor, "svc", "X-Organization-Id", "acme").fields(t, 200)
		for _, a := range page["approvals"].([]any) {
			got = append(got, a.(map[string]any)["ref"].(string))
		}
		cursor = page["next_cursor"].(string)
		if cursor != "" {
			b.get(t, approvalsPath+"?limit=2&cursor="+cursor, "svc", "X-Organization-Id", "acme").refused(t, 400, "invalid_request", "cursor")
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if page := b.get(t, approvalsPath, "svc", "X-Organization-Id", "bolt"); page.body != `{"approvals":[],"next_cursor":""}` {
		t.Errorf("of another organization: %s", page.body)
	}
}

// Of concurrent decisions on both faces, one takes effect.
func TestConcurrentDecisions(t *testing.T) {
	b := setup(t)
	ref := b.asks(t, "")
	client := gatewayv1.NewApprovalServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer svc", "x-organization-id", "acme"))
	var settled atomic.Int64
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			if i%2 == 0 {
				approve := func() answer {
					return b.post(t, approvalsPath+"/"+ref+"/approve", fmt.Sprintf(`{"decided_by":"http-%d"}`, i))
				}
				a := approve()
				for a.status == http.StatusTooManyRequests { // On a slow machine it waits too long for a connection.
					a = approve()
				}
				if a.status == http.StatusOK {
					settled.Add(1)
				} else {
					a.refused(t, 409, "approval_decided", "")
				}
				return
			}
			_, err := client.Deny(ctx, &gatewayv1.DenyRequest{Ref: ref, DecidedBy: fmt.Sprint("grpc-", i)})
			for status.Code(err) == codes.ResourceExhausted {
				_, err = client.Deny(ctx, &gatewayv1.DenyRequest{Ref: ref, DecidedBy: fmt.Sprint("grpc-", i)})
			}
			if err == nil {
				settled.Add(1)
			} else if status.Code(err) != codes.Aborted {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := len(b.trail(t, "subject="+ref)); settled.Load() != 1 || n != 2 {
		t.Errorf("%d decisions settled it, %d audit entries", settled.Load(), n)
	}
}

const deployTool = `"tools":[{"type":"function","function":{"name":"deploy","parameters":{"type":"object"}}}]`

func deploy(more string) string {
	return `{"model":"sandbox","messages":[{"role":"user","content":"deploy it"}],` + deployTool + more + `}`
}

// The gateway withholds a tool call from its caller until an approver approves it.
func TestToolCallNeedsApproval(t *testing.T) {
	b := setup(t)
	ref := b.asks(t, "")
	withRef := `,"approval_ref":"` + ref + `"`
	b.chat(t, deploy("")).refused(t, 403, "approval_required", `"deploy"`)
	b.chat(t, deploy(withRef)).refused(t, 403, "approval_required", "pending")
	stream := b.chat(t, deploy(withRef+`,"stream":true`))
	stream.contains(t, 200, "event: error", "approval_required")
	if strings.Contains(stream.body, "tool_calls") {
		t.Errorf("the stream has the tool call: %s", stream.body)
	}
	if n := b.rows(t, "outcome = 'aborted' AND output_tokens > 0"); n != 3 {
		t.Errorf("%d rows, want one for each: the provider was paid", n)
	}
	b.post(t, approvalsPath+"/"+ref+"/approve", `{"decided_by":"ada"}`).fields(t, 200)
	if a := b.chat(t, deploy(withRef)); a.status != 200 || !strings.Contains(a.body, `"name":"deploy"`) {
		t.Errorf("approved: %d %s", a.status, a.body)
	}
	if a := b.chat(t, deploy(withRef+`,"stream":true`)); !strings.Contains(a.body, `"name":"deploy"`) || !strings.Contains(a.body, "[DONE]") {
		t.Errorf("approved stream: %s", a.body)
	}
	b.chat(t, deploy(withRef), "X-Organization-Id", "bolt").refused(t, 403, "approval_required", "there is none")

	denied := b.asks(t, "")
	b.post(t, approvalsPath+"/"+denied+"/deny", `{"decided_by":"ada"}`).fields(t, 200)
	b.chat(t, deploy(`,"approval_ref":"`+denied+`"`)).refused(t, 403, "approval_denied", `"deploy"`)

	other := b.asks(t, `,"run_id":"r1"`)
	b.post(t, approvalsPath+"/"+other+"/approve", `{"decided_by":"ada"}`).fields(t, 200)
	b.chat(t, deploy(`,"approval_ref":"`+other+`"`)).refused(t, 403, "approval_required", "another tool or run")
	if a := b.chat(t, deploy(`,"approval_ref":"`+other+`"`), "X-Run-Id", "r1"); a.status != 200 {
		t.Errorf("in its run: %d %s", a.status, a.body)
	}
	exact := b.asks(t, `,"arguments":{"env":"prod"}`)
	b.post(t, approvalsPath+"/"+exact+"/approve", `{"decided_by":"ada"}`).fields(t, 200)
	b.chat(t, deploy(`,"approval_ref":"`+exact+`"`)).refused(t, 403, "approval_required", "other arguments")

	plain := `{"model":"sandbox","messages":[{"role":"user","content":"hello"}],` + deployTool + `}`
	if a := b.chat(t, plain); a.status != 200 {
		t.Errorf("an answer without the call: %d %s", a.status, a.body)
	}
}

// The same on the faces of other APIs, in their form, and over gRPC.
func TestCompatibleToolCallNeedsApproval(t *testing.T) {
	b := setup(t)
	ref := b.asks(t, "")
	anthropic := `{"model":"sandbox","max_tokens":64,"messages":[{"role":"user","content":"deploy it"}],"tools":[{"name":"deploy","input_schema":{"type":"object"}}]`
	for path, body := range map[string]string{"/v1/chat/completions": strings.TrimSuffix(deploy(""), "}"), "/v1/messages": anthropic} {
		whole := b.post(t, path, body+"}", "X-Switchyard-Approval-Ref", ref)
		if whole.status != 403 || !strings.Contains(whole.body, "approval_required") || !strings.Contains(whole.body, `permission_error`) {
			t.Errorf("%s: %d %s", path, whole.status, whole.body)
		}
		stream := b.post(t, path, body+`,"stream":true}`, "X-Switchyard-Approval-Ref", ref)
		if stream.status != 200 || !strings.Contains(stream.body, "approval_required") || strings.Contains(stream.body, "call_0") {
			t.Errorf("%s: %d %s", path, stream.status, stream.body)
		}
	}
	client, md := b.client()
	request := &gatewayv1.LlmRequest{
		Model: "sandbox", Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"deploy it"`)}},
		Tools:       []*gatewayv1.Tool{{Type: "function", Function: &gatewayv1.ToolFunction{Name: "deploy"}}},
		ApprovalRef: ref,
	}
	ctx := metadata.NewOutgoingContext(t.Context(), md)
	if _, err := client.Chat(ctx, request); status.Code(err) != codes.PermissionDenied {
		t.Errorf("gRPC: %v", err)
	}
	stream, err := client.ChatStream(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if chunk, err := stream.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("gRPC stream: %v, %v", chunk, err)
	}
}
