//go:build e2e

package e2e_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// What the run must keep to itself. secretOrganization signs with a secret that
// is not the default one.
const secretOrganization = "org_with_a_secret"

var (
	runSecret          = rand.Text()
	organizationSecret = "canary-org-secret-" + runSecret
)

// secretList holds texts that must not show up anywhere, by what they are.
type secretList struct {
	mu    sync.Mutex
	texts map[string]string
}

var canaries = secretList{texts: map[string]string{}}

func (l *secretList) add(what, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts[what] = text
	if _, bare, ok := strings.Cut(text, "whsec_"); ok {
		l.texts[what+" without its prefix"] = bare
	}
}

// in names the secrets that a text holds.
func (l *secretList) in(text []byte) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for what, secret := range l.texts {
		if bytes.Contains(text, []byte(secret)) {
			found = append(found, what)
		}
	}
	return found
}

// answerLog keeps what the stack has answered.
type answerLog struct {
	mu  sync.Mutex
	all []answer
}

var responses answerLog

func (l *answerLog) add(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, a)
}

func (l *answerLog) leaks() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, a := range l.all {
		var head bytes.Buffer
		_ = a.header.Write(&head)
		for _, what := range append(canaries.in(head.Bytes()), canaries.in(a.body)...) {
			errs = append(errs, fmt.Errorf("%s is in the answer to %s", what, a.label))
		}
	}
	return errors.Join(errs...)
}

// learnSecrets makes canaries of all secrets that the stack has made and of
// those that the tests configured.
func (h *house) learnSecrets() error {
	for _, v := range vendors {
		canaries.add("the key of provider "+v.name, v.key())
	}
	canaries.add("an organization's signing secret", organizationSecret)
	folder := filepath.Join(h.State(), "secrets")
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		// Hashes of tokens are no secrets, and of a URL only the password is.
		public := strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".url") || strings.HasSuffix(path, "redis-url")
		if err != nil || entry.IsDir() || public {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		canaries.add("the content of "+filepath.Base(path), strings.TrimSpace(string(text)))
		return nil
	})
}

// leaksIn looks through the logs in a folder.
func leaksIn(folder string) error {
	var errs []error
	logs, err := filepath.Glob(filepath.Join(folder, "*"))
	if err == nil && len(logs) == 0 {
		err = errors.New("there is no log to look through in " + folder)
	}
	errs = append(errs, err)
	for _, log := range logs {
		text, err := os.ReadFile(log)
		errs = append(errs, err)
		for _, what := range canaries.in(text) {
			errs = append(errs, fmt.Errorf("%s is in %s", what, filepath.Base(log)))
		}
	}
	return errors.Join(errs...)
}

// The search itself must be able to fail.
func TestSearchFindsALeak(t *testing.T) {
	list := secretList{texts: map[string]string{}}
	list.add("the signing secret", "whsec_c2VjcmV0")
	for text, leaks := range map[string]bool{
		"key=whsec_c2VjcmV0 end": true, "only c2VjcmV0": true, "whsec_": false, "nothing": false,
	} {
		if found := list.in([]byte(text)); (len(found) > 0) != leaks {
			t.Errorf("%q holds %v", text, found)
		}
	}
	if err := leaksIn(t.TempDir()); err == nil {
		t.Error("no logs are no leaks")
	}
}

var echoing = addVendor(vendor{name: "echoing", dialect: "openai", model: "echoing"})

// The failures that are most likely to repeat a secret. What they answer and log
// is searched at the end of the run, see TestMain.
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
		canaries.add(what+" in a body", secret)
		return secret
	}
	stranger := "swy_live_" + strings.Repeat("0", 43) + "000000"
	canaries.add("an unknown product key", stranger)

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
		"a key that is unknown":           {h.anonymous(stack.Edge).bearer(stranger), "/product/v1/ai/chat", chat()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if a := tt.to.post(t, tt.path, tt.body); a.status < 400 {
				t.Errorf("answered %d: %s", a.status, shorten(a.body))
			}
		})
	}
}

// A header that is a credential reaches the receiver, and nobody else reads it,
// even when the receiver repeats it.
func TestDeliveryWithACredential(t *testing.T) {
	t.Parallel()
	h := use(t)
	to, webhooks := h.receiver(), h.service(stack.WebhookEgress, unique("org"))
	token := "canary-" + runSecret + "-receiver-token"
	canaries.add("the receiver's token", token)
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
