package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

// A field that decides what a call can cost is read in one way only: a value that two parsers could read as different
// numbers is refused before a vendor is called.
func TestAmbiguousBoundsAreRefused(t *testing.T) {
	b := setup(t)
	const big = "18446744073709551716" // 2^64 + 100
	for _, path := range []string{completions, messagesPath} {
		for field, values := range map[string][]string{
			"n":                     {"1e2", "100.0", `"100"`, big, "0", "-1", "129", "[100]", `{"n":100}`, "true"},
			"best_of":               {"1e2", `"100"`, "129", big},
			"max_completion_tokens": {"1e4", "10.0", `"10"`, big, "0", "10000001"},
			"max_output_tokens":     {"1e4", `"10"`, big},
			"thinking_budget":       {"1e4", `"10"`, big},
		} {
			for _, value := range values {
				got := b.say(t, "POST", path, fmt.Sprintf(`{"model":"first/ok","max_tokens":9,%q:%s,%s}`, field, value, messages))
				if got.status != http.StatusBadRequest || !strings.Contains(got.body, field+": must be a whole number from ") {
					t.Errorf("%s with %s %s: %d %s", path, field, value, got.status, got.body)
				}
			}
		}
		for fields, wrong := range map[string]string{
			`"n":100,"N":1`:                       `N`,
			`"N":100`:                             `N`,
			`"n":1,"n":100`:                       `holds the name \"n\" twice`,
			`"Max_Tokens":100000`:                 `Max_Tokens`,
			`"maxTokens":100000`:                  `maxTokens`,
			`"max_to` + "\u212a" + `ens":100000`:  `max_to`,
			`"BEST_OF":50`:                        `BEST_OF`,
			`"Service_Tier":"priority"`:           `Service_Tier`,
			`"thinking":{"budget_tokens":1e5}`:    `thinking.budget_tokens`,
			`"thinking":{"Budget_Tokens":100000}`: `thinking.Budget_Tokens`,
			`"reasoning":{"max_tokens":"100000"}`: `reasoning.max_tokens`,
			`"reasoning":{"maxTokens":100000}`:    `reasoning.maxTokens`,
			`"thinking":{"a":1,"a":2}`:            `thinking: holds`,
			`"max_tokens":10000001`:               `max_tokens: must be a whole number from 1 to 10000000`,
			`"Messages":[{"role":"user"}]`:        `Messages`,
			`"tools":[],"Tools":[{"type":"x"}]`:   `Tools`,
			`"extra":1,"web_search-options":{}`:   `web_search-options`,
			`"metadata":{},"messages":[{"role":"user","content":"x","Content":"y"}],"messages":[]`: `holds the name \"messages\" twice`,
		} {
			body := `{"model":"first/ok",` + fields + `,` + messages + `}`
			if !strings.Contains(fields, `"max_tokens":10000001`) {
				body = `{"model":"first/ok","max_tokens":9,` + fields + `,` + messages + `}`
			}
			if got := b.say(t, "POST", path, body); got.status != http.StatusBadRequest || !strings.Contains(got.body, wrong) {
				t.Errorf("%s with %s: %d %s", path, fields, got.status, got.body)
			}
		}
	}
	if n := b.vendor.count(); n != 0 {
		t.Errorf("the vendor was called %d times", n)
	}
}

// Whatever a native body asks for, no more than the run's ceiling is spent.
func TestNativeBodiesKeepToTheCeiling(t *testing.T) {
	b := setup(t)
	b.vendor.answers(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":100000}}`)
	for i, c := range []struct {
		fields string
		status int
	}{
		{`"n":100,"max_tokens":1000`, 403},
		{`"n":1,"best_of":100,"max_tokens":1000`, 403},
		{`"max_tokens":100000,"max_completion_tokens":10`, 403},
		{`"max_tokens":10,"max_completion_tokens":100000`, 403},
		{`"max_tokens":10,"thinking":{"type":"enabled","budget_tokens":100000}`, 403},
		{`"max_tokens":10,"thinking_budget":100000`, 403},
		{`"max_tokens":10,"reasoning":{"max_tokens":100000}`, 403},
		{`"max_tokens":10,"service_tier":"priority"`, 403}, // Its surcharge has no price.
		{`"max_tokens":10,"service_tier":"flex"`, 200},     // Not more than the list price.
		{`"max_tokens":10`, 200},                           // What the vendor reports beyond that is not billed.
		{`"n":2,"max_tokens":10`, 200},
	} {
		id := fmt.Sprintf("ceiling-%d", i)
		b.mint(t, id, `,"max_cost_cents":5`)
		got := b.say(t, "POST", completions, `{"model":"first/ok",`+c.fields+`,`+messages+`,"switchyard":{"run_id":"`+id+`"}}`)
		if got.status != c.status {
			t.Errorf("%s: %d %s", c.fields, got.status, got.body)
		}
		if spent, ok := b.authority(t, id)["spent_cents"].(float64); !ok || spent > 5 {
			t.Errorf("%s: %v cents are spent under a ceiling of 5", c.fields, spent)
		}
	}
}

// answers makes the vendor give every request the same answer.
func (v *vendor) answers(body string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fails = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// A caller who leaves before a vendor has answered pays for the request, on every face.
func TestLeavingBeforeAnAnswerIsBilled(t *testing.T) {
	b := setup(t)
	asked := make(chan struct{}, 1)
	b.vendor.mu.Lock()
	b.vendor.fails = func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}
	b.vendor.mu.Unlock()
	client, md := b.client()
	over := func(path, body string) func(ctx context.Context, id string) {
		return func(ctx context.Context, id string) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.http.URL+path, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer svc")
			r.Header.Set("X-Organization-Id", id)
			r.Header.Set("X-Request-Id", id)
			if resp, err := b.http.Client().Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
	}
	for id, leave := range map[string]func(ctx context.Context, id string){
		"chat":       over(chatPath, `{"model":"first/ok","max_tokens":9,`+messages+`}`),
		"stream":     over(chatPath, `{"model":"first/ok","stream":true,"max_tokens":9,`+messages+`}`),
		"openai":     over(completions, `{"model":"first/ok","max_tokens":9,`+messages+`}`),
		"anthropic":  over(messagesPath, `{"model":"second/spare","max_tokens":9,`+messages+`}`),
		"embeddings": over("/v1/embeddings", `{"model":"first/vectors","input":"hello"}`),
		"grpc": func(ctx context.Context, id string) {
			md := md.Copy()
			md.Set("x-organization-id", id)
			_, _ = client.Chat(metadata.NewOutgoingContext(ctx, md), &gatewayv1.LlmRequest{
				Model: "first/ok", MaxTokens: new(int32(9)), Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"hi"`)}},
			})
		},
	} {
		organization := "leaves-" + id
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			leave(ctx, organization)
		}()
		<-asked
		cancel()
		<-done
		eventually(t, func() bool {
			return b.rows(t, "organization_id = $1 AND outcome = 'cancelled' AND usage_state = 'estimated' AND input_tokens > 0 AND output_tokens = 0 AND cost_pico_usd > 0", organization) == 1
		})
		if n := b.rows(t, "organization_id = $1", organization); n != 1 {
			t.Errorf("%s: %d rows, want one", id, n)
		}
	}
}
