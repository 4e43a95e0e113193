//go:build e2e

package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// The secrets of a device's subscription are in no answer, log, row, key or metric, also when its push service repeats
// them in every failure. The stores and logs of the stack are searched once more after it has stopped.
func TestPushSecretsStayInside(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	defer h.clearScript(t)
	organization := unique("org")
	notify := h.service(stack.Notify, organization)
	failures := map[string]func(said string) object{
		"a refusal":  func(said string) object { return object{"status": 400, "body": said} },
		"a mismatch": func(said string) object { return object{"status": 403, "body": "not the key of " + said} },
		"a bad token": func(said string) object {
			return object{"status": 401, "body": said, "headers": object{"Www-Authenticate": "vapid " + said}}
		},
		"an end":      func(said string) object { return object{"status": 410, "body": said} },
		"a breakdown": func(said string) object { return object{"status": 500, "body": said} },
		"a limit":     func(said string) object { return object{"status": 429, "retry_after": "1", "body": said} },
		"a redirect":  func(said string) object { return object{"status": 307, "redirect": "http://127.0.0.1:1/" + said} },
		"a cut":       func(string) object { return object{"drop": true} },
		"a reason":    func(said string) object { return object{"status": 400, "body": `{"reason":"` + said + `"}`} },
		"Windows' way": func(said string) object {
			return object{"status": 400, "headers": object{"X-Wns-Error-Description": said, "X-Wns-Status": said}}
		},
	}
	for name, action := range failures {
		t.Run(name, func(t *testing.T) {
			b := h.browser(t, organization)
			knownSecrets.add("a device's p256dh", b.Keys["p256dh"])
			knownSecrets.add("a device's endpoint", b.Endpoint)
			said := strings.Join([]string{strings.TrimPrefix(b.path(t), "/"), b.Keys["auth"], b.Keys["p256dh"]}, " ")
			h.script(t, stack.FakePush, rule{Match: object{"path": b.path(t)}, Times: 1, Action: action(strings.ReplaceAll(said, " ", "_"))})
			user := unique("user")
			h.register(t, organization, b, object{"user_id": user})
			stored := h.pushEnded(t, organization, h.push(t, organization, object{"user_id": user}))
			if stored.Channels[0].LastError == nil {
				t.Errorf("the scripted failure did not happen: %+v", stored)
			}
			h.script(t, stack.FakePush, rule{Match: object{"path": b.path(t)}, Times: 1, Action: action(strings.ReplaceAll(said, " ", "_"))})
			one := h.push(t, organization, object{"subscription": object{"endpoint": b.Endpoint, "keys": b.Keys}})
			h.searchNotify(t) // while the job of the send, which holds the device, may still wait
			h.pushEnded(t, organization, one)
		})
	}
	b := h.browser(t, organization)
	knownSecrets.add("a device's p256dh", b.Keys["p256dh"])
	for name, keys := range map[string]object{
		"a key that is cut off": {"p256dh": b.Keys["p256dh"][:80], "auth": b.Keys["auth"]},
		"keys changed over":     {"p256dh": b.Keys["auth"], "auth": b.Keys["p256dh"]},
	} {
		a := notify.post(t, registrationsPath, object{"subscription": object{"endpoint": b.Endpoint, "keys": keys}}).want(t, http.StatusBadRequest)
		if found := knownSecrets.in(a.body); len(found) > 0 {
			t.Errorf("%s: the answer holds %v", name, found)
		}
	}
	h.searchNotify(t)
}
