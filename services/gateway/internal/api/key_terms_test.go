package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/testkit"
)

// Terms of a key that may use the sandbox only, and of one that may spend a cent.
const (
	sandboxTerms = `{"key":"origin","tpm":100000,"models":["sandbox"],"class":"bulk"}`
	centTerms    = `{"key":"origin","budget":{"ceiling_cents":1,"period":"total"}}`
)

// keyFaces are bodies of a path, in which %s is the model and %d the limit of the output.
var keyFaces = map[string]string{
	chatPath:         `{"model":"%s","max_tokens":%d,` + messages + `}`,
	completions:      `{"model":"%s","max_tokens":%d,` + messages + `}`,
	messagesPath:     `{"model":"%s","max_tokens":%d,` + messages + `}`,
	responsesPath:    `{"model":"%s","max_output_tokens":%d,"input":"hi"}`,
	"/v1/embeddings": `{"model":"%s","dimensions":%d,"input":"hi"}`,
}

// The header reaches the pipeline on every face: its models hold, with and without a run, and its key is in the ledger.
func TestKeyTermsOfEveryFace(t *testing.T) {
	b := setup(t)
	b.mint(t, "r1", "")
	for path, body := range keyFaces {
		for _, run := range []string{"", "r1"} {
			headers := []string{"X-Key-Id", "k1", "X-Key-Terms", sandboxTerms, "X-Run-Id", run}
			got := b.post(t, path, fmt.Sprintf(body, "first/ok", 9), headers...)
			if path == "/v1/embeddings" {
				got = b.post(t, path, fmt.Sprintf(body, "first/vectors", 9), headers...)
			}
			got.contains(t, http.StatusForbidden, "model: the API key may not use it")
			if path == "/v1/embeddings" {
				continue // The sandbox has none.
			}
			before := b.rows(t, "key_id = 'k1' AND key_origin = 'origin'")
			b.post(t, path, fmt.Sprintf(body, "sandbox", 9), headers...).gives(t, http.StatusOK)
			if n := b.rows(t, "key_id = 'k1' AND key_origin = 'origin'") - before; n != 1 {
				t.Errorf("%s: %d rows of the key's origin, want 1", path, n)
			}
		}
	}
}

func TestKeyBudgetOfEveryFace(t *testing.T) {
	b := setup(t)
	for path, body := range keyFaces {
		if path == "/v1/embeddings" {
			continue
		}
		headers := []string{"X-Key-Terms", centTerms}
		got := b.post(t, path, fmt.Sprintf(body, "sandbox", 10000), headers...)
		got.contains(t, http.StatusForbidden, "the API key's remaining budget")
		if path == chatPath {
			got.refused(t, http.StatusForbidden, "budget_exceeded", "the API key's")
		}
		b.post(t, path, fmt.Sprintf(body, "sandbox", 9), headers...).gives(t, http.StatusOK)
	}
	b.chat(t, `{"model":"first/tools",`+messages+`}`, "X-Key-Terms", centTerms).refused(t, http.StatusForbidden, "model_not_allowed", "has no price")
	if n := testkit.Value[int](t, b.pool, "SELECT sum(calls) FROM spend_key WHERE organization_id = 'acme' AND key_origin = 'origin'"); n != 4 {
		t.Errorf("%d calls counted under the key, want 4", n)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM budget_reservation"); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}

// A refusal for lack of budget names the face's field that limits the output, and a value with which the request
// passes.
func TestBudgetNamesTheLimitThatFits(t *testing.T) {
	b := setup(t)
	const gemini = "/v1beta/models/sandbox:generateContent"
	for i, tt := range []struct{ path, unbounded, bounded, field string }{
		{chatPath, `{"model":"sandbox",` + messages + `}`, `{"model":"sandbox","max_tokens":%s,` + messages + `}`, "max_tokens"},
		{completions, `{"model":"sandbox",` + messages + `}`, `{"model":"sandbox","max_tokens":%s,` + messages + `}`, "max_tokens"},
		{
			completions, `{"model":"sandbox","max_completion_tokens":99999,` + messages + `}`,
			`{"model":"sandbox","max_completion_tokens":%s,` + messages + `}`, "max_completion_tokens",
		},
		{messagesPath, `{"model":"sandbox","max_tokens":99999,` + messages + `}`, `{"model":"sandbox","max_tokens":%s,` + messages + `}`, "max_tokens"},
		{responsesPath, `{"model":"sandbox","input":"hi"}`, `{"model":"sandbox","max_output_tokens":%s,"input":"hi"}`, "max_output_tokens"},
		{
			gemini, `{"contents":[{"parts":[{"text":"hi"}]}]}`,
			`{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":%s}}`, "generationConfig.maxOutputTokens",
		},
	} {
		terms := fmt.Sprintf(`{"key":"k%d","budget":{"ceiling_cents":1,"period":"total"}}`, i)
		refused := b.post(t, tt.path, tt.unbounded, "X-Key-Terms", terms)
		refused.contains(t, http.StatusForbidden, "the API key's remaining budget")
		found := regexp.MustCompile(`it covers ([A-Za-z_.]+) of at most (\d+) now`).FindStringSubmatch(refused.body)
		if found == nil || found[1] != tt.field {
			t.Errorf("%s: %s doesn't name %s", tt.path, refused.body, tt.field)
			continue
		}
		b.post(t, tt.path, fmt.Sprintf(tt.bounded, found[2]), "X-Key-Terms", terms).contains(t, http.StatusOK)
	}
	b.mint(t, "r1", `,"max_cost_cents":1`)
	b.chat(t, `{"model":"sandbox",`+messages+`}`, "X-Run-Id", "r1").refused(t, http.StatusForbidden, "run_exhausted", "max_cost_cents: ")
	b.mint(t, "r2", `,"max_cost_cents":0.0000001`)
	b.chat(t, `{"model":"sandbox",`+messages+`}`, "X-Run-Id", "r2").refused(t, http.StatusForbidden, "run_exhausted", "no max_tokens is small enough")
}

func TestMalformedKeyTerms(t *testing.T) {
	b := setup(t)
	for path, body := range keyFaces {
		for _, header := range []string{`{`, `{"key":"k","unknown":1}`, `{"key":""}`, `{"key":"k"} x`, `{"key":"k","pad":"` + strings.Repeat("x", 17<<10) + `"}`} {
			got := b.post(t, path, fmt.Sprintf(body, "sandbox", 9), "X-Key-Terms", header)
			got.contains(t, http.StatusBadRequest, "X-Key-Terms: ")
		}
	}
	if n := b.rows(t, "true"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestKeyTermsOverGRPC(t *testing.T) {
	b := setup(t)
	client, md := b.client()
	chat := func(terms, model string) error {
		md := metadata.Join(md, metadata.Pairs("x-key-terms", terms))
		_, err := client.Chat(metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.LlmRequest{
			Model: model, Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"hi"`)}},
		})
		return err
	}
	if err := chat(sandboxTerms, "sandbox"); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		terms, model, text string
		code               codes.Code
	}{
		{sandboxTerms, "first/ok", "the API key may not use it", codes.PermissionDenied},
		{centTerms, "first/ok", "the API key's remaining budget", codes.PermissionDenied},
		{`{"key":1}`, "sandbox", "X-Key-Terms: ", codes.InvalidArgument},
	} {
		if err := chat(tt.terms, tt.model); status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s, %s: %v, want %s", tt.terms, tt.model, err, tt.text)
		}
	}
	if n := b.rows(t, "key_origin = 'origin'"); n != 1 {
		t.Errorf("%d rows of the key, want 1", n)
	}
}

// The terms of the handshake hold for each request of a WebSocket.
func TestKeyTermsOfAWebSocket(t *testing.T) {
	b := setup(t)
	c := b.connects(t, "X-Key-Terms", sandboxTerms)
	if event := c.refused(t, `{"type":"response.create","model":"first/ok","input":"hi"}`); !strings.Contains(event.Raw, "the API key may not use it") {
		t.Error(event.Raw)
	}
	c.asks(t, `{"type":"response.create","model":"sandbox","input":"hi"}`)
	if n := b.rows(t, "key_origin = 'origin'"); n != 1 {
		t.Errorf("%d rows of the key, want 1", n)
	}
}

// A response in the background is made under the terms of the call that asked for it.
func TestKeyTermsInTheBackground(t *testing.T) {
	b := setup(t)
	const body = `{"model":"%s","background":true,"max_output_tokens":%d,"input":"hi"}`
	b.post(t, responsesPath, fmt.Sprintf(body, "first/ok", 9), "X-Key-Terms", sandboxTerms).contains(t, http.StatusForbidden, "the API key may not use it")
	for limit, want := range map[int]string{9: "completed", 10000: "failed"} {
		queued := b.post(t, responsesPath, fmt.Sprintf(body, "sandbox", limit), "X-Key-Terms", centTerms).gives(t, http.StatusOK)
		id, _ := queued["id"].(string)
		ended := b.ended(t, id)
		if got := ended.Get("status").Str; got != want && (want != "completed" || got != "incomplete") {
			t.Errorf("%d tokens: %s, want %s: %s", limit, got, want, ended.Raw)
		}
		if want == "failed" && !strings.Contains(ended.Raw, "the API key's remaining budget") {
			t.Error(ended.Raw)
		}
	}
	if n := b.rows(t, "key_origin = 'origin'"); n != 1 {
		t.Errorf("%d rows of the key, want 1", n)
	}
}

// A batch is checked, reserved and billed under the terms of the call that made it.
func TestKeyTermsOfABatch(t *testing.T) {
	b := setupWith(t, batchPolicy)
	terms := func(more string) string { return `{"key":"origin",` + more + `}` }
	lines := chatLine("a", `"model":"first/ok",`) + chatLine("b", `"model":"first/ok",`)
	b.submit(t, lines, "", "X-Key-Terms", terms(`"models":["sandbox"]`)).contains(t, http.StatusForbidden, "the API key may not use it")
	b.submit(t, manyChoices(300), "", "X-Key-Terms", terms(`"budget":{"ceiling_cents":50,"period":"day"}`)).contains(t, http.StatusForbidden, "the API key's remaining budget")
	made := b.submit(t, lines, "", "X-Key-Terms", terms(`"budget":{"ceiling_cents":5000,"period":"day"}`)).gives(t, http.StatusOK)
	if n := testkit.Value[int](t, b.pool, "SELECT sum(calls) FROM budget_reservation WHERE key_origin = 'origin' AND key_ceiling_cents = 5000"); n != 2 {
		t.Errorf("%d calls are reserved under the key, want 2", n)
	}
	id, _ := made["id"].(string)
	b.runsBatches(t, "completed")
	b.reaches(t, "/v1/batches/"+id, "status", "completed")
	if n := testkit.Value[int](t, b.pool, "SELECT sum(calls) FROM spend_key WHERE key_origin = 'origin' AND cost_pico_usd > 0"); n != 2 {
		t.Errorf("%d calls are billed under the key, want 2", n)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM budget_reservation"); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}
