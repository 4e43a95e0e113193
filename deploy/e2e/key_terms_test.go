//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

var termsVendor = addVendor(vendor{name: "terms", dialect: "openai", model: "terms-model"})

// The terms that an operator sets for a product key hold for its next call through the edge, and for the key that replaces
// it: tokens per minute, models, and a budget. They concern no other key.
func TestTermsOfKeys(t *testing.T) {
	t.Parallel()
	h := use(t)
	h.script(t, stack.FakeProvider, rule{Match: termsVendor.match(), Action: object{
		"answer": object{"text": "as expected", "usage": object{"input": 150, "output": 150}},
	}})
	// The worst case of the question is more than what the vendor bills, so that a settlement under way lets no call pass.
	body := ask(termsVendor.named(), strings.Repeat("a question ", 60), object{"max_tokens": 150, "allow_substitution": false})
	organization := unique("org")
	other := h.customer(t, organization, "ai", "read")
	for name, c := range map[string]struct {
		terms  object
		calls  int // that are served before one is refused
		status int
		text   string
	}{
		"tpm":    {object{"tpm": 1000, "class": "bulk"}, 3, http.StatusTooManyRequests, "the key limit of tokens"},
		"models": {object{"models": []string{"another-model"}}, 0, http.StatusForbidden, "the API key may not use it"},
		"budget": {object{"budget": object{"ceiling_cents": 1, "period": "total"}}, 2, http.StatusForbidden, "budget_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			made := h.key(t, organization, "ai", "read")
			key := h.anonymous(stack.Edge).bearer(made.Key)
			key.post(t, chatRoute, body).want(t, http.StatusOK)
			var changed object
			h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/keys/"+made.ID, c.terms).into(t, http.StatusOK, &changed)
			for field, value := range c.terms {
				same(t, fmt.Sprint(value), strings.TrimSuffix(fmt.Sprint(changed[field]), " "))
			}
			served := 0
			var refused answer
			for refused.status == 0 && served < 20 {
				if a := key.post(t, chatRoute, body); a.status == http.StatusOK {
					served++
				} else {
					refused = a
				}
			}
			if refused.status != c.status || served > c.calls || served < c.calls-1 || !strings.Contains(string(refused.body), c.text) {
				t.Errorf("%d calls were served, then %d %s; want %d calls, then %d with %q", served, refused.status, shorten(refused.body), c.calls, c.status, c.text)
			}
			if c.status == http.StatusTooManyRequests && refused.header.Get("Retry-After") == "" {
				t.Errorf("no Retry-After: %v", refused.header)
			}
			next := h.keyByOperator(t, http.MethodPost, "/admin/v1/keys/"+made.ID+"/rotate", object{"overlap_seconds": 60}, http.StatusCreated)
			h.anonymous(stack.Edge).bearer(next.Key).post(t, chatRoute, body).want(t, c.status)
			other.with("X-Key-Terms", `{"key":"mine"}`).post(t, chatRoute, body).want(t, http.StatusOK)
		})
	}
}
