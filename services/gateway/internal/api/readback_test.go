package api_test

import (
	"fmt"
	"net/http"
	"testing"
)

// A caller that changes a setting and uses it next, on the same replica, gets the new setting: every topic, both ways,
// without waiting.
func TestWriterReadsItsOwnWrites(t *testing.T) {
	b := setup(t)
	const required = askFirst + `,"byok":{"mode":"require"}}`
	asks := func(want int, step string, body string, headers ...string) {
		t.Helper()
		if a := b.chat(t, body, headers...); a.status != want {
			t.Errorf("%s: the next chat is %d %s, want %d", step, a.status, a.body, want)
		}
	}
	ops := func(verb, path, body string) {
		t.Helper()
		if a := b.say(t, verb, path, body, "Authorization", "Bearer ops", "X-Organization-Id", ""); a.status >= 300 {
			t.Fatalf("%s %s: %d %s", verb, path, a.status, a.body)
		}
	}
	for i := range 3 {
		b.bring(t, "acme", "first", ownKey)
		asks(200, "a configuration", required)
		b.bring(t, "acme", "first", otherKey)
		if asks(200, "a new key", required); b.vendor.lastKey() != "Bearer "+otherKey {
			t.Errorf("after a new key was brought, the old one was used")
		}
		b.say(t, http.MethodDelete, configPath+"/first", "").gives(t, 204)
		asks(503, "a deletion", required)
		b.bring(t, "acme", "first", ownKey)
		asks(200, "a configuration brought back", required)
		b.say(t, http.MethodPost, "/v1/byok/purge", `{}`).gives(t, 200)
		asks(503, "a purge", required)

		ops("POST", "/v1/admin/orgs/acme/suspend", `{"reason":"test"}`)
		asks(403, "a suspension", askFirst+`}`)
		ops("POST", "/v1/admin/orgs/acme/unsuspend", `{"reason":"test"}`)
		asks(200, "the end of a suspension", askFirst+`}`)

		ops("PUT", "/v1/admin/orgs/acme/budget", `{"budget_ceiling_cents":0.0001}`)
		asks(403, "a budget", askFirst+`}`)
		ops("PUT", "/v1/admin/orgs/acme/budget", `{"budget_ceiling_cents":0}`)
		asks(200, "no budget", askFirst+`}`)

		ops("POST", "/v1/admin/pin", `{"provider":"sandbox","model":"sandbox"}`)
		if a := b.chat(t, askFirst+`}`); a.header.Get("X-Switchyard-Provider") != "sandbox" {
			t.Errorf("a pin: %s served", a.header.Get("X-Switchyard-Provider"))
		}
		ops("POST", "/v1/admin/unpin", `{}`)
		if a := b.chat(t, askFirst+`}`); a.header.Get("X-Switchyard-Provider") != "first" {
			t.Errorf("no pin: %s served", a.header.Get("X-Switchyard-Provider"))
		}

		run := fmt.Sprintf("run-%d", i)
		b.say(t, "POST", "/v1/runs/mint", `{"run_id":"`+run+`","initiated_by":"ada","ttl_seconds":600,"max_calls":9,"models":["first/ok"]}`).gives(t, 201)
		asks(200, "a minted run", askFirst+`}`, "X-Run-Id", run)
		asks(403, "a minted run and another model", `{"model":"sandbox/sandbox","allow_substitution":false,`+messages+`}`, "X-Run-Id", run)
		b.say(t, "POST", "/v1/runs/"+run+"/revoke", `{"reason":"test","revoked_by":"ada"}`).gives(t, 200)
		asks(403, "a revocation", askFirst+`}`, "X-Run-Id", run)
	}
}
