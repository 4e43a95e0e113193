//go:build e2e

package e2e_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// hedgedPolicy hedges requests of the goal cost, which few other tests ask for.
const hedgedPolicy = "hedge: {cost: {budget_percent: 20, after: 500ms}}"

var hedged = addPair("hedged")

// A request whose first vendor is slow is answered by the second one. The answer names the call that lost, which has a
// ledger row and an attempt of its own.
func TestChatIsHedged(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	ai := h.customer(t, organization, "ai", "read")
	body := func(v vendor, text string, stream bool) object {
		return ask(v.named(), text, object{"provider": v.name, "stream": stream, "max_tokens": 10, "optimization_goal": "cost"})
	}
	for range 5 { // What hedges may cost is a part of what was spent.
		ai.post(t, chatRoute, body(hedged.second, strings.Repeat("a long story ", 500), false)).want(t, http.StatusOK)
	}
	own := h.service(stack.Gateway, organization)
	for n, stream := range []bool{false, true} {
		t.Run("streamed "+strconv.FormatBool(stream), func(t *testing.T) {
			h.script(t, stack.FakeProvider, rule{Match: hedged.first.match(), Times: 1, Action: object{"delay_ms": 8000}})
			id := unique("req")
			a := own.with("X-Request-Id", id).post(t, chatPath, body(hedged.first, "hello", stream))
			a.want(t, http.StatusOK)
			for name, want := range map[string]string{
				"X-Switchyard-Hedged": hedged.first.named(), "X-Switchyard-Provider": hedged.second.name, "X-Switchyard-Attempts": "2",
			} {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			h.awaitRecorded(t, organization, "", "interrupted", n+1)
			h.awaitRecorded(t, organization, "", "completed", 5+n+1)
			attempts, _ := traced(t, own, id)["attempts"].([]any)
			if len(attempts) != 2 {
				t.Fatalf("attempts %v, want two", attempts)
			}
			for i, want := range [][2]string{{hedged.first.name, "cancelled"}, {hedged.second.name, "ok"}} {
				if got, _ := attempts[i].(map[string]any); got["provider"] != want[0] || got["outcome"] != want[1] {
					t.Errorf("attempt %d: %v, want %v", i, got, want)
				}
			}
		})
	}
	quick := ai.post(t, chatRoute, body(hedged.first, "hello", false))
	if quick.want(t, http.StatusOK); quick.header.Get("X-Switchyard-Hedged") != "" {
		t.Errorf("a quick answer is hedged: %v", quick.header)
	}
}
