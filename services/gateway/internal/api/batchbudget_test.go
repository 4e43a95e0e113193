package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// submitAll makes a batch of requests with the same body for an API; /v1/messages is the form of Anthropic.
func (b *bench) submitAll(t *testing.T, n int, api, body string, headers ...string) answer {
	t.Helper()
	var requests []string
	for i := range n {
		if api == messagesPath {
			requests = append(requests, fmt.Sprintf(`{"custom_id":"%d","params":%s}`, i, body))
		} else {
			requests = append(requests, fmt.Sprintf(`{"custom_id":"%d","method":"POST","url":"%s","body":%s}`, i, api, body))
		}
	}
	if api == messagesPath {
		return b.say(t, "POST", messageBatches, messageBatch(requests...), headers...)
	}
	input := b.upload(t, strings.Join(requests, "\n"), headers...)
	return b.say(t, "POST", "/v1/batches", strings.Replace(batchOf(input, ""), completions, api, 1), headers...)
}

// A batch that a ceiling doesn't cover is refused with the number of its requests and the field that limits their
// output in the caller's form. It passes with the value that the refusal names.
func TestBatchBudgetNamesTheLimitThatFits(t *testing.T) {
	b := setupWith(t, batchPolicy)
	for i, tt := range []struct{ api, body, field string }{
		{completions, `{"model":"ok","max_tokens":%s,` + messages + `}`, "body.max_tokens"},
		{completions, `{"model":"ok","max_completion_tokens":%s,` + messages + `}`, "body.max_completion_tokens"},
		{responsesPath, `{"model":"ok","max_output_tokens":%s,"input":"hi"}`, "body.max_output_tokens"},
		{messagesPath, `{"model":"spare","max_tokens":%s,` + messages + `}`, "params.max_tokens"},
	} {
		run := fmt.Sprint("run-", i)
		b.mint(t, run, `,"max_cost_cents":1`)
		for says, headers := range map[string][]string{
			"max_cost_cents: ":                 {"X-Run-Id", run},
			"the API key's remaining budget, ": {"X-Key-Terms", fmt.Sprintf(`{"key":"k%d","budget":{"ceiling_cents":1,"period":"total"}}`, i)},
		} {
			refused := b.submitAll(t, 3, tt.api, fmt.Sprintf(tt.body, "9999999"), headers...)
			text := gjson.Get(refused.body, "error.message").Str
			found := regexp.MustCompile(`of the batch's 3 requests; it covers (\S+) of at most (\d+) in each now`).FindStringSubmatch(text)
			if refused.status != http.StatusForbidden || !strings.HasPrefix(text, says) || found == nil || found[1] != tt.field {
				t.Errorf("%d %s doesn't name %s", refused.status, refused.body, tt.field)
				continue
			}
			for limit, want := range map[string]int{found[2] + "0": http.StatusForbidden, found[2]: http.StatusOK} {
				if got := b.submitAll(t, 3, tt.api, fmt.Sprintf(tt.body, limit), headers...); got.status != want {
					t.Errorf("%s of %s: %d %s, want %d", tt.field, limit, got.status, got.body, want)
				}
			}
		}
	}
}

// A batch whose requests have no such field, that has too many requests for any limit, or more than its run may make,
// is refused with what to do.
func TestBatchBudgetWithoutALimitThatFits(t *testing.T) {
	b := setupWith(t, batchPolicy)
	chat := fmt.Sprintf(`{"model":"ok","max_tokens":9,%s}`, messages)
	for name, tt := range map[string]struct{ limits, api, body, want string }{
		"embeddings": {`,"max_cost_cents":0.0000001`, embeddingsPath, `{"model":"ok","input":"hi"}`, "of the batch's 2 requests; send fewer at once"},
		"chat":       {`,"max_cost_cents":0.0000001`, completions, chat, "of the batch's 2 requests; no body.max_tokens is small enough now"},
		"calls":      {`,"max_calls":1`, completions, chat, "the batch counts as 2 calls"},
	} {
		b.mint(t, name, tt.limits)
		got := b.submitAll(t, 2, tt.api, tt.body, "X-Run-Id", name)
		if text := gjson.Get(got.body, "error.message").Str; got.status != http.StatusForbidden || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d %s, want %s", name, got.status, got.body, tt.want)
		}
	}
}
