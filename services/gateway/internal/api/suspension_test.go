package api_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

func readAll(tb testing.TB, r io.Reader) string {
	tb.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

const (
	suspendPath, unsuspendPath = "/v1/admin/orgs/acme/suspend", "/v1/admin/orgs/acme/unsuspend"
	spendPath, budgetPath      = "/v1/admin/orgs/acme/spend", "/v1/admin/orgs/acme/budget"
)

func (b *bench) operate(tb testing.TB, path, body string) answer {
	tb.Helper()
	return b.post(tb, path, body, "Authorization", "Bearer ops", "X-Organization-Id", "")
}

// A suspended organization gets no call to a provider in any way, with each face's form of the error, and all of them
// once it is restored.
func TestSuspension(t *testing.T) {
	b := setup(t)
	suspended := b.operate(t, suspendPath, `{"reason":"abuse"}`).fields(t, http.StatusOK)
	has(t, suspended, map[string]any{"organization_id": "acme", "suspended": true, "reason": "abuse", "suspended_by": "ops"})
	again := b.operate(t, suspendPath, `{"reason":"other"}`).fields(t, http.StatusOK)
	has(t, again, map[string]any{"reason": "abuse", "suspended_at": suspended["suspended_at"]})

	const messages = `"messages":[{"role":"user","content":"hi"}]`
	calls := map[string]string{
		"/v1/llm/chat":           `{` + messages + `}`,
		"/v1/embeddings":         `{"organization_id":"acme","model":"first/vectors","input":["x"]}`,
		"/v1/vision":             `{"prompt":"what is it?","image":{"url":"https://93.184.216.34/x.png"}}`,
		"/v1/images/generations": `{"model":"sandbox","prompt":"x"}`,
		"/v1/chat/completions":   `{"model":"sandbox",` + messages + `}`,
		"/v1/messages":           `{"model":"sandbox","max_tokens":9,` + messages + `}`,
	}
	refused := func(path, body string) string {
		a := b.post(t, path, body)
		if a.status == http.StatusForbidden && strings.Contains(a.body, "suspended") {
			return ""
		}
		return path + ": " + a.body
	}
	until(t, func() string { return refused("/v1/llm/chat", calls["/v1/llm/chat"]) })
	passed, last := b.rows(t, "true"), b.vendor.last() // before the replica received the change
	for _, stream := range []string{"", `"stream":true,`} {
		for path, body := range calls {
			if stream != "" && !strings.Contains(body, messages) {
				continue
			}
			if objection := refused(path, "{"+stream+body[1:]); objection != "" {
				t.Error(objection)
			}
		}
	}
	if a := b.post(t, "/v1/messages", calls["/v1/messages"]); !strings.Contains(a.body, `"type":"permission_error"`) {
		t.Errorf("in Anthropic's words: %s", a.body)
	}
	inferences, md := b.client()
	ctx := metadata.NewOutgoingContext(t.Context(), md)
	if _, err := inferences.Chat(ctx, &gatewayv1.LlmRequest{Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"hi"`)}}}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("gRPC: %v", err)
	}
	if n := b.rows(t, "true"); n != passed || b.vendor.last() != last {
		t.Errorf("%d rows, %d before; the vendor got %q", n, passed, b.vendor.last())
	}
	if a := b.chat(t, `{`+messages+`}`, "X-Organization-Id", "other"); a.status != http.StatusOK {
		t.Errorf("another organization: %s", a.body)
	}
	restored := b.operate(t, unsuspendPath, `{"reason":"paid"}`).fields(t, http.StatusOK)
	has(t, restored, map[string]any{"suspended": false, "reason": "paid", "suspended_at": nil, "suspended_by": nil})
	until(t, func() string {
		if a := b.chat(t, `{`+messages+`}`); a.status != http.StatusOK {
			return a.body
		}
		return ""
	})
	if got := b.audited(t, "acme"); got != "org.suspend by ops, org.unsuspend by ops" {
		t.Errorf("audited %q", got)
	}
}

func TestOperatorsAloneSuspend(t *testing.T) {
	b := setup(t)
	for _, path := range []string{suspendPath, unsuspendPath} {
		b.post(t, path, `{}`).refused(t, 403, "forbidden", "")
		b.post(t, path, `{}`, "Authorization", "Bearer sup").refused(t, 403, "forbidden", "")
		b.operate(t, path, `{"why":"x"}`).refused(t, 400, "invalid_request", "why")
		b.post(t, path, `{}`, "Authorization", "Bearer ops", "X-Organization-Id", "other").refused(t, 403, "organization_mismatch", "org_id")
	}
	b.get(t, spendPath, "svc", "X-Request-Id", "req-test").refused(t, 403, "forbidden", "")
	if got := b.audited(t, "acme"); got != "" {
		t.Errorf("audited %q", got)
	}
}

// Concurrent suspensions and restorations leave one of the two states, and an audit entry for each effective change.
func TestSuspendConcurrently(t *testing.T) {
	b := setup(t)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() { b.operate(t, []string{suspendPath, unsuspendPath}[i%2], `{}`).fields(t, http.StatusOK) })
	}
	group.Wait()
	for i, action := range strings.Split(b.audited(t, "acme"), ", ") {
		if want := []string{"org.suspend by ops", "org.unsuspend by ops"}[i%2]; action != want {
			t.Errorf("change %d is %s", i, action)
		}
	}
}

func TestStreamsOfASuspendedOrganizationEnd(t *testing.T) {
	b := setup(t)
	faces := map[string]string{
		chatPath:               `{"model":"first/endless","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/chat/completions": `{"model":"first/endless","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/messages":         `{"model":"first/endless","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
	}
	texts := make(chan string, len(faces))
	for path, body := range faces {
		resp := b.openAt(t.Context(), t, path, body)
		t.Cleanup(func() { _ = resp.Body.Close() })
		go func() {
			text, _ := io.ReadAll(resp.Body)
			texts <- path + "\n" + string(text)
		}()
	}
	b.operate(t, suspendPath, `{}`).fields(t, http.StatusOK)
	for range faces {
		if text := <-texts; !strings.Contains(text, "the organization is suspended") || strings.Contains(text, "message_stop") || strings.Contains(text, "[DONE]") {
			t.Error(text)
		}
		<-b.vendor.left
	}
	if n := b.rows(t, "outcome = 'aborted' AND output_tokens > 0"); n != len(faces) {
		t.Errorf("%d rows", n)
	}
}

func (b *bench) put(tb testing.TB, path, body string, headers ...string) answer {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPut, b.http.URL+path, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer ops")
	r.Header.Set("X-Request-Id", "req-test")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Client().Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	return answer{resp.StatusCode, readAll(tb, resp.Body), resp.Header}
}

func (b *bench) spend(tb testing.TB) map[string]any {
	tb.Helper()
	return b.get(tb, spendPath, "ops").fields(tb, http.StatusOK)
}

func TestBudget(t *testing.T) {
	b := setup(t)
	has(t, b.spend(t), map[string]any{
		"organization_id": "acme", "spent_cents": 0, "reserved_cents": 0, "budget_ceiling_cents": 0, "remaining_cents": nil,
		"active_sessions": 0, "period": "month", "suspended": false,
	})
	b.ask(t, "one")
	b.ask(t, "two")
	set := b.put(t, budgetPath, `{"budget_ceiling_cents":0.03,"period":"day","reason":"pilot"}`).fields(t, http.StatusOK)
	has(t, set, map[string]any{"spent_cents": 0.012, "budget_ceiling_cents": 0.03, "period": "day", "active_sessions": 2, "active_sessions_spent_cents": 0.012})
	if left := set["remaining_cents"].(float64); left < 0.0179 || left > 0.0181 {
		t.Errorf("%v is left", left)
	}
	until(t, func() string { // The ceiling is in force here a moment later.
		if a := b.chat(t, `{"model":"first/tools","messages":[{"role":"user","content":"hi"}]}`); a.status != http.StatusForbidden || !strings.Contains(a.body, "model_not_allowed") {
			return "a model without a price: " + a.body
		}
		return ""
	})
	for range 20 {
		if a := b.ask(t, "one"); a.status != http.StatusOK {
			a.refused(t, 403, "budget_exceeded", "budget")
			break
		}
	}
	if spent := b.spend(t)["spent_cents"].(float64); spent > 0.03 {
		t.Errorf("spent %v of 0.03", spent)
	}
	// Without max_tokens the worst case exceeds it.
	b.chat(t, `{"model":"first/ok","messages":[{"role":"user","content":"hi"}]}`).refused(t, 403, "budget_exceeded", "")
	b.put(t, budgetPath, `{"budget_ceiling_cents":0}`).fields(t, http.StatusOK)
	until(t, func() string {
		if a := b.ask(t, "one"); a.status != http.StatusOK {
			return a.body
		}
		return ""
	})
	has(t, b.spend(t), map[string]any{"period": "day"})
	if got := b.audited(t, "acme"); got != "org.budget by ops, org.budget by ops" {
		t.Errorf("audited %q", got)
	}
}

func TestBudgetRefuses(t *testing.T) {
	b := setup(t)
	b.put(t, budgetPath, `{}`).refused(t, 400, "invalid_request", "budget_ceiling_cents")
	b.put(t, budgetPath, `{"budget_ceiling_cents":-1}`).refused(t, 400, "invalid_request", "budget_ceiling_cents")
	b.put(t, budgetPath, `{"budget_ceiling_cents":1,"period":"week"}`).refused(t, 400, "invalid_request", "period")
	b.put(t, budgetPath, `{"budget_ceiling_cents":1}`, "Authorization", "Bearer svc").refused(t, 403, "forbidden", "")
	b.put(t, budgetPath, `{"budget_ceiling_cents":1}`, "X-Organization-Id", "other").refused(t, 403, "organization_mismatch", "")
}

// Fifty concurrent calls, with and without runs, do not exceed an organization's ceiling.
func TestFiftyCallsDontOverrunABudget(t *testing.T) {
	b := setup(t)
	b.put(t, budgetPath, `{"budget_ceiling_cents":0.2}`).fields(t, http.StatusOK)
	until(t, func() string {
		if b.chat(t, `{"model":"first/ok","messages":[{"role":"user","content":"hi"}]}`).status != http.StatusForbidden {
			return "the ceiling does not hold here"
		}
		return ""
	})
	var most atomic.Uint64
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s := b.spend(t)
				if sum := s["spent_cents"].(float64) + s["reserved_cents"].(float64); sum > 0.2000001 {
					most.Add(1)
				}
			}
		}
	})
	before := b.rows(t, "true")
	served := b.storm(t, 50, "", "budget_exceeded")
	close(stop)
	watch.Wait()
	if n := b.rows(t, "true") - before; most.Load() > 0 || served == 0 || n != served {
		t.Errorf("overrun %d times; %d served, %d rows", most.Load(), served, n)
	}
}
