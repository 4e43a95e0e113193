package api_test

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// A request whose first vendor is silent is answered by another host of the model, the answer says so, the silent call is
// ended at once, and both are billed.
func TestChatIsHedged(t *testing.T) {
	const hosts = `  - {name: mute, dialect: openai, base_url: %[1]s, key_file: first.key, models: [{name: tale, upstream: silent}]}
  - {name: lively, dialect: openai, base_url: %[1]s, key_file: first.key, models: [{name: tale, upstream: quick}]}
`
	b := setupWith(t, strings.Replace(policyText, "  - {name: keyless", hosts+"  - {name: keyless", 1)+"hedge: {latency: {budget_percent: 20, after: 20ms}}\n")
	for range 10 { // What hedges may cost is a part of what was spent.
		b.chat(t, `{"model":"lively/tale","optimization_goal":"latency",`+messages+`}`).contains(t, 200)
	}
	for _, stream := range []bool{false, true} {
		id := "hedged-" + strconv.FormatBool(stream)
		got := b.chat(t, `{"model":"mute/tale","max_tokens":1,"optimization_goal":"latency","stream":`+strconv.FormatBool(stream)+`,`+messages+`}`, "X-Request-Id", id)
		got.contains(t, 200, "hello", `"provider_used":"lively"`, `"requested_provider":"mute"`, `"substituted":true`)
		for name, want := range map[string]string{"X-Switchyard-Hedged": "mute/tale", "X-Switchyard-Provider": "lively", "X-Switchyard-Attempts": "2"} {
			if got.header.Get(name) != want {
				t.Errorf("%s = %q, want %q", name, got.header.Get(name), want)
			}
		}
		select {
		case <-b.vendor.left:
		case <-time.After(10 * time.Second):
			t.Fatal("the call that lost goes on")
		}
		for rows, want := range map[string]int{
			"provider = 'mute' AND outcome = 'interrupted' AND usage_state = 'estimated' AND attempts = 1": 1,
			"provider = 'lively' AND outcome = 'completed' AND attempts = 2":                               1,
			"true": 2,
		} {
			if n := b.rows(t, "request_id = '"+id+"' AND "+rows); n != want {
				t.Errorf("%d rows with %s, want %d", n, rows, want)
			}
		}
		b.recorded(t, id, 1)
		attempts, _ := b.get(t, "/v1/lineage/"+id+"?organization_id=acme", "svc").fields(t, 200)["attempts"].([]any)
		if len(attempts) != 2 {
			t.Fatalf("attempts %v, want two", attempts)
		}
		lost, won := attempts[0].(map[string]any), attempts[1].(map[string]any)
		if lost["provider"] != "mute" || lost["outcome"] != "cancelled" || won["provider"] != "lively" || won["outcome"] != "ok" {
			t.Errorf("attempts %v", attempts)
		}
	}
	// Both calls count in a run.
	b.mint(t, "hedged-run", `,"max_calls":2`)
	b.chat(t, `{"model":"mute/tale","max_tokens":1,"optimization_goal":"latency",`+messages+`}`, "X-Run-Id", "hedged-run").contains(t, 200, "hello")
	<-b.vendor.left
	has(t, b.authority(t, "hedged-run"), map[string]any{"calls": 2, "reserved_cents": 0, "status": "exhausted"})
	if got := b.chat(t, `{"model":"lively/tale","optimization_goal":"latency",`+messages+`}`); got.header.Get("X-Switchyard-Hedged") != "" || got.header.Get("X-Switchyard-Attempts") != "1" {
		t.Errorf("a quick answer has %v", got.header)
	}
}
