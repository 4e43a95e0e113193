//go:build e2e

package e2e_test

import (
	"net/http"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// Only the edge may have calls counted: another service's token is refused before anything is done, whatever the
// operation, and a customer's own header has no effect.
func TestOnlyTheEdgeCounts(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	for _, c := range serviceContracts() {
		t.Run(string(c.member), func(t *testing.T) {
			by := h.service(c.member, organization).with("X-Count-Metric", "llm_requests", "X-Key-Id", "key_of_another")
			for _, o := range c.operations {
				if o.Role.String() != "ROLE_SERVICE" {
					continue
				}
				if a := by.do(t, o.Verb, o.At("x"), nil); a.status != http.StatusUnauthorized || a.header.Get("X-Counted") != "" {
					t.Errorf("%s: %d with the receipt %q, want 401", o.Method, a.status, a.header.Get("X-Counted"))
				}
			}
		})
	}
	customer := h.customer(t, organization, "ai", "read").with("X-Count-Metric", "deliveries", "X-Counted", "1")
	for calls := int64(1); calls <= 2; calls++ {
		a := customer.post(t, chatRoute, ask("sandbox", "hello"))
		if a.want(t, http.StatusOK); a.header.Get("X-Counted") != "" {
			t.Errorf("the customer sees the receipt %q", a.header.Get("X-Counted"))
		}
		if got := h.counted(t, organization, "llm_requests"); got != calls {
			t.Errorf("%d counted right after %d answers", got, calls)
		}
	}
	if got := h.counted(t, organization, "deliveries"); got != 0 {
		t.Errorf("%d counted as the customer says", got)
	}
}

// The services list what they have counted to operators, page by page, and control has read it.
func TestCallCounts(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	customer := h.customer(t, organization, "ai", "read").with("X-User-Id", "ann", "X-Switchyard-Tags", "team=web")
	customer.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	stream := ask("sandbox", "hello")
	stream["stream"] = true
	customer.post(t, chatRoute, stream).want(t, http.StatusOK)
	calls, cursor := 0, ""
	for {
		var page struct {
			Counts []struct {
				Organization string            `json:"organization_id"`
				Metric       string            `json:"metric"`
				User         string            `json:"user_id"`
				Tags         map[string]string `json:"tags"`
				Calls        int               `json:"calls"`
			} `json:"counts"`
			Next string `json:"next_cursor"`
		}
		h.operator(stack.Gateway).get(t, "/v1/call-counts?limit=100&cursor="+cursor).into(t, http.StatusOK, &page)
		for _, c := range page.Counts {
			if c.Organization != organization {
				continue
			}
			if calls += c.Calls; c.Metric != "llm_requests" || c.User != "ann" || c.Tags["team"] != "web" {
				t.Errorf("counted %+v", c)
			}
		}
		if cursor = page.Next; len(page.Counts) < 100 {
			break
		}
	}
	if calls != 2 {
		t.Errorf("the gateway lists %d calls, want 2", calls)
	}
}
