//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

var echoing = addVendor(vendor{name: "echoing", dialect: "openai", model: "echoing"})

// The failures that are most likely to repeat a secret. Their answers and logs are searched at the end of the run, see
// TestMain.
func TestFailuresWithSecrets(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	h.script(t, stack.FakeProvider, rule{Match: echoing.match(), Action: object{
		"status": http.StatusUnauthorized,
		"body":   fmt.Sprintf(`{"error":{"message":"Incorrect API key provided: %s.","type":"invalid_request_error","code":"invalid_api_key"}}`, echoing.key()),
	}})
	typed := func(what string) string {
		secret := "canary-" + runSecret + "-" + what
		knownSecrets.add(what+" in a body", secret)
		return secret
	}
	unknownKey := "swy_live_" + strings.Repeat("0", 43) + "000000"
	knownSecrets.add("an unknown product key", unknownKey)

	chat := func(more ...object) object { return ask(echoing.model, "hello", more...) }
	deliver := h.receiver().deliver
	gateway, webhooks, notify := h.service(stack.Gateway, organization), h.service(stack.WebhookEgress, organization), h.service(stack.Notify, organization)
	tests := map[string]struct {
		to   client
		path string
		body any
	}{
		"a provider that repeats the key": {gateway, "/v1/llm/chat", chat()},
		"the same without substitution":   {gateway, "/v1/llm/chat", chat(object{"allow_substitution": false})},
		"the same as a stream":            {gateway, "/v1/llm/chat", chat(object{"stream": true})},
		"a provider key in a body":        {gateway, "/v1/llm/chat", chat(object{"byok": object{"api_key": typed("provider key")}})},
		"a value of the wrong type":       {gateway, "/v1/llm/chat", chat(object{"max_tokens": typed("wrong type")})},
		"a signing secret in a body":      {webhooks, "/v1/deliveries", deliver(object{"signing_secret": typed("signing secret")})},
		"a credential in a bad header":    {webhooks, "/v1/deliveries", deliver(object{"custom_headers": object{"Authorization": "Bearer " + typed("header") + "\n"}})},
		"a password in a URL":             {webhooks, "/v1/deliveries", deliver(object{"url": "https://user:" + typed("password") + "@example.com/"})},
		"a Slack webhook":                 {notify, "/v1/notify", object{"channels": []string{"slack"}, "message": "m", "target": object{"webhook_url": "https://hooks.slack.com/services/" + typed("slack path")}}},
		"a token that is unknown":         {gateway.bearer(typed("service token")), "/v1/llm/chat", chat()},
		"a key that is unknown":           {h.anonymous(stack.Edge).bearer(unknownKey), "/product/v1/ai/chat", chat()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if a := tt.to.post(t, tt.path, tt.body); a.status < 400 {
				t.Errorf("answered %d: %s", a.status, shorten(a.body))
			}
		})
	}
}

// A credential in a custom header reaches the receiver and nothing else can read it, even when the receiver repeats it
// in its answer.
func TestDeliveryWithACredential(t *testing.T) {
	t.Parallel()
	h := use(t)
	to, webhooks := h.receiver(), h.service(stack.WebhookEgress, unique("org"))
	token := "canary-" + runSecret + "-receiver-token"
	knownSecrets.add("the receiver's token", token)
	to.answers(t, object{"status": 200, "body": "you sent " + token})
	var got accepted
	webhooks.post(t, deliveryPath, to.deliver(object{"custom_headers": object{"Authorization": "Bearer " + token}})).into(t, http.StatusAccepted, &got)
	if d := ended(t, webhooks, got.ID); d.Status != "delivered" {
		t.Fatalf("record %+v", d)
	}
	made := webhooks.get(t, deliveryPath+"/"+got.ID+"/attempts").want(t, http.StatusOK)
	if bytes.Contains(made.body, []byte(token)) {
		t.Errorf("the record of the attempt repeats the token: %s", made.body)
	}
	if arrived := to.arrivals(t); arrived[0].Headers.Get("Authorization") != "Bearer "+hashed(token) {
		t.Errorf("Authorization: %q", arrived[0].Headers.Get("Authorization"))
	}
}
