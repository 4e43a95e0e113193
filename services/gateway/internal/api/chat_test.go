package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/testkit"
)

const messages = `"messages":[{"role":"user","content":"hi"}]`

func TestChatAnswer(t *testing.T) {
	b := setup(t)
	got := b.chat(t, `{"model":"first/ok","optimization_goal":"cost",`+messages+`}`)
	want := `{"content":"hello <there> &","tool_calls":null,"usage":{"prompt_tokens":10,"completion_tokens":2,"provider_used":"first",` +
		`"cost_cents":0.006,"estimated":false,"requested_provider":"first","requested_goal":"cost","substituted":false,"cache_hit":false,"model_used":"ok"},` +
		`"finish_reason":"stop","model":"ok","request_id":"req-test"}`
	if diff := cmp.Diff(want, got.body); diff != "" || got.status != 200 {
		t.Errorf("%d (-want +got):\n%s", got.status, diff)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Request-Id": "req-test", "X-Switchyard-Attempts": "1",
		"X-Switchyard-Provider": "first", "X-Switchyard-Model": "ok",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s = %q, want %q", name, got.header.Get(name), want)
		}
	}
	if got.header.Get("X-Switchyard-Overhead-Ms") == "" {
		t.Error("the overhead is missing")
	}
	if n := b.rows(t, "request_id = 'req-test' AND organization_id = 'acme' AND service = 'edge' AND provider = 'first' AND input_tokens = 6 AND cache_read_tokens = 4 AND cost_pico_usd = 60000000 AND price_version = 'first/ok@2020-01-01' AND usage_state = 'reported' AND outcome = 'completed'"); n != 1 {
		t.Errorf("%d rows, want one", n)
	}
}

func TestChatWithoutModelUsesTheDefault(t *testing.T) {
	b := setup(t)
	if got := b.chat(t, `{`+messages+`}`); got.status != 200 || !strings.Contains(got.body, `"content":"sandbox: hi"`) {
		t.Errorf("%d %s, want the sandbox", got.status, got.body)
	}
}

func TestChatFailsOver(t *testing.T) {
	b := setup(t)
	got := b.chat(t, `{"model":"first/down",`+messages+`}`)
	got.contains(t, 200, `"provider_used":"second"`, `"requested_provider":"first"`, `"substituted":true`)
	if attempts := got.header.Get("X-Switchyard-Attempts"); attempts != "2" {
		t.Errorf("%s attempts, want 2", attempts)
	}
	document := b.chat(t, `{"model":"first/down","allow_substitution":false,`+messages+`}`).
		refused(t, 502, "provider_failed", "first: status 500: down")
	if document.ErrorClass != "server_error" || !document.Retryable {
		t.Errorf("document %+v", document)
	}
	b.chat(t, `{"model":"first/long",`+messages+`}`).refused(t, 400, "context_overflow", "too long")
	busy := b.chat(t, `{"model":"first/busy","allow_substitution":false,`+messages+`}`)
	if document := busy.refused(t, 502, "provider_failed", "slow down"); document.ErrorClass != "rate_limit" || document.RetryAfter != 9 || busy.header.Get("Retry-After") != "9" {
		t.Errorf("document %+v", document)
	}
	b.chat(t, `{"model":"nobody","allow_substitution":false,`+messages+`}`).
		refused(t, 503, "missing_keys", "no provider configured (missing keys)")
	b.chat(t, `{"model":"sandbox","byok":{},`+messages+`}`).refused(t, 503, "missing_keys", "no provider configured (missing keys)")
	if n := b.rows(t, "true"); n != 1 {
		t.Errorf("%d rows, want one of the one answer", n)
	}
}

func TestChatStream(t *testing.T) {
	b := setup(t)
	last := func(provider, model string, cents string, requested string) string {
		return `data: {"finish_reason":"stop","usage":{"prompt_tokens":10,"completion_tokens":2,"provider_used":"` + provider + `","cost_cents":` + cents +
			`,"estimated":false,` + requested + `"cache_hit":false,"model_used":"` + model + `"},"model":"` + model + `","request_id":"req-test"}` + "\n\ndata: [DONE]\n\n"
	}
	got := b.chat(t, `{"model":"first/ok","allow_substitution":false,"stream":true,`+messages+`}`)
	want := "data: {\"content\":\"hello\"}\n\ndata: {\"content\":\" <there> &\"}\n\n" + last("first", "ok", "0.006", `"requested_goal":null,"substituted":false,`)
	if diff := cmp.Diff(want, got.body); diff != "" || got.status != 200 {
		t.Errorf("%d (-want +got):\n%s", got.status, diff)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Switchyard-Provider": "first",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s = %q, want %q", name, got.header.Get(name), want)
		}
	}

	// An error after a 200 and an event without content still cause a failover.
	got = b.chat(t, `{"model":"first/late-error","stream":true,`+messages+`}`)
	got.contains(t, 200)
	if !strings.HasPrefix(got.body, "data: {\"content\":\"from spare\"}\n\n") || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
		t.Errorf("%s, want the whole answer of the spare one", got.body)
	}
	if attempts := got.header.Get("X-Switchyard-Attempts"); attempts != "2" {
		t.Errorf("%s attempts, want 2", attempts)
	}
	// If no other provider is allowed it is a plain error with its status.
	b.chat(t, `{"model":"first/late-error","allow_substitution":false,"stream":true,`+messages+`}`).
		refused(t, 502, "provider_failed", "overloaded")

	got = b.chat(t, `{"model":"first/cut","stream":true,`+messages+`}`)
	begin := "data: {\"content\":\"hello\"}\n\nevent: error\ndata: {\"error\":\"stream_interrupted\",\"error_class\":\"server_error\",\"retryable\":true,\"reason\":\"first: gave up on Bearer [redacted]\",\"request_id\":\"req-test\"}\n\n"
	if got.status != 200 || got.body != begin {
		t.Errorf("%d %q, want %q", got.status, got.body, begin)
	}
	if n := b.rows(t, "outcome = 'interrupted' AND usage_state = 'estimated' AND output_tokens = 2"); n != 1 {
		t.Errorf("%d rows of the stream that broke off, want one", n)
	}
	if n := b.rows(t, "true"); n != 3 {
		t.Errorf("%d rows, want three", n)
	}
}

func TestCallerLeavesStream(t *testing.T) {
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	resp := b.open(ctx, t, `{"model":"first/endless","stream":true,`+messages+`}`)
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "data: {\"content\":\"hello\"}\n" {
		t.Fatalf("first line %q, %v", line, err)
	}
	cancel()
	select {
	case <-b.vendor.left:
	case <-time.After(10 * time.Second):
		t.Fatal("the call to the vendor goes on")
	}
	eventually(t, func() bool { return b.rows(t, "outcome = 'cancelled' AND output_tokens = 2") == 1 })
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	testkit.Wait(t, "it comes true", func() error {
		if !holds() {
			return errors.New("it doesn't")
		}
		return nil
	})
}

func TestLocaleReachesTheVendor(t *testing.T) {
	b := setup(t)
	for mode, want := range map[string]string{
		`"locale":"fr"`:                           `{"role":"system","content":"Respond in fr."}`,
		`"locale":"fr","language_mode":"auto"`:    `{"role":"system","content":"Respond in fr."}`,
		`"locale":"fr","locale_mode":"force"`:     `"Respond in fr. Use no other language`,
		`"locale":"pt-BR","language_mode":"auto"`: `"Respond in pt-BR."`,
	} {
		if got := b.chat(t, `{"model":"first/ok",`+mode+`,`+messages+`}`); got.status != 200 {
			t.Fatal(got.body)
		}
		var sent struct{ Messages json.RawMessage }
		if err := json.Unmarshal([]byte(b.vendor.last()), &sent); err != nil || !strings.Contains(string(sent.Messages), want) || strings.Index(string(sent.Messages), want) > 30 {
			t.Errorf("%s: sent %s, want %s first", mode, sent.Messages, want)
		}
	}
}

// Each billed completion has exactly one row, committed with its answer.
func TestLedgerUnderParallelCalls(t *testing.T) {
	b := setup(t)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			stream := fmt.Sprint(i%2 == 0)
			id := fmt.Sprintf("req-%d", i)
			got := b.chat(t, `{"model":"first/ok","stream":`+stream+`,`+messages+`}`, "X-Request-Id", id)
			if got.status != 200 {
				t.Errorf("%d %s", got.status, got.body)
			}
			if n := b.rows(t, "request_id = $1", id); n != 1 {
				t.Errorf("%s: %d rows when the answer is there, want one", id, n)
			}
		})
	}
	wg.Wait()
	if n := b.rows(t, "outcome = 'completed' AND cost_pico_usd = 60000000"); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
	// A repeated request id is another completion.
	b.chat(t, `{"model":"first/ok",`+messages+`}`, "X-Request-Id", "req-1")
	if n := b.rows(t, "request_id = 'req-1'"); n != 2 {
		t.Errorf("%d rows of the repeated id, want two", n)
	}
}

func TestKeyNeverLeaves(t *testing.T) {
	b := setup(t)
	texts := []string{}
	for _, body := range []string{
		`{"model":"first/down","allow_substitution":false,` + messages + `}`,
		`{"model":"first/down",` + messages + `}`,
		`{"model":"first/cut","stream":true,` + messages + `}`,
		`{"model":"first/ok",` + messages + `}`,
	} {
		got := b.chat(t, body)
		texts = append(texts, got.body, fmt.Sprint(got.header))
	}
	rows := testkit.Value[string](t, b.pool, "SELECT string_agg(l::text, ' ') FROM ledger_entry l")
	testkit.NoLeak(t, canary, append(texts, rows, b.log.String())...)
	if !strings.Contains(b.log.String(), "[redacted]") {
		t.Error("the vendor's echo is not in the log at all: the test proves nothing")
	}
}

func TestIdentity(t *testing.T) {
	b := setup(t)
	body := `{"model":"sandbox",` + messages + `}`
	b.chat(t, body, "Authorization", "").refused(t, 401, "unauthenticated", "token")
	b.chat(t, body, "Authorization", "Bearer sup").refused(t, 403, "forbidden", "role")
	b.chat(t, body, "X-Organization-Id", "").refused(t, 400, "invalid_request", "organization_id")
	b.chat(t, `{"organization_id":"other","model":"sandbox",`+messages+`}`).refused(t, 403, "organization_mismatch", "organization_id")
	b.chat(t, `{"run_id":"r2","model":"sandbox",`+messages+`}`, "X-Run-Id", "r1").refused(t, 400, "identity_mismatch", "run_id")
	if got := b.chat(t, `{"organization_id":"acme","run_id":"r1","model":"sandbox",`+messages+`}`, "X-Run-Id", "r1", "X-Key-Id", "k1"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := b.rows(t, "organization_id = 'acme' AND run_id = 'r1' AND key_id = 'k1'"); n != 1 {
		t.Errorf("%d rows, want one with run and key", n)
	}
}
