//go:build e2e

package e2e_test

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// withoutRedis kills Redis, and starts it again at the end of the test.
func (h *harness) withoutRedis(t *testing.T) {
	t.Helper()
	if err := h.Kill(store.Redis); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Restart(context.WithoutCancel(t.Context()), store.Redis); err != nil {
			t.Error(err)
		}
	})
}

// The secrets of channels are in no answer, log, row, key or metric, also when every channel fails. The stack's logs
// are searched after it has stopped.
func TestNotifySecretsStayInside(t *testing.T) {
	t.Parallel()
	h := notifyStack(t)
	organization := unique("org")
	url, path := h.hook()
	credential := path[strings.LastIndex(path, "/")+1:]
	knownSecrets.add("a Slack credential", credential)
	ownURL, own := h.hook()
	if err := os.WriteFile(filepath.Join(h.State(), "secrets", "notify-slack", organization), []byte(ownURL), 0o600); err != nil {
		t.Fatal(err)
	}
	password, err := os.ReadFile(filepath.Join(h.State(), "secrets", "notify-mail-password"))
	if err != nil {
		t.Fatal(err)
	}
	knownSecrets.add("the mail server's password", strings.TrimSpace(string(password)))
	token, err := os.ReadFile(filepath.Join(h.State(), "secrets", "notify-token"))
	if err != nil {
		t.Fatal(err)
	}
	knownSecrets.add("notify's token at webhook egress", strings.TrimSpace(string(token)))

	to := address("leak")
	receiver := h.receiver()
	h.script(t, stack.FakeSlack,
		rule{Match: object{"path": path}, Times: 1, Action: object{"drop": true}},
		rule{Match: object{"path": path}, Times: 1, Action: object{"status": 404, "body": "no such hook " + path}},
		rule{Match: object{"path": own}, Action: object{"status": 404}})
	h.script(t, stack.FakeMailbox,
		rule{Match: object{"method": "RCPT", "path": to}, Times: 1, Action: object{"drop": true}},
		rule{Match: object{"method": "AUTH"}, Times: 1, Action: object{"status": 535, "body": "wrong: " + strings.TrimSpace(string(password))}},
		rule{Match: object{"method": "RCPT", "path": to}, Times: 1, Action: object{"status": 451}})
	defer h.clear(t, stack.FakeMailbox) // It may not have refused a sign-in yet.
	receiver.answers(t, object{"status": 410})
	ids := []string{
		h.send(t, organization, object{"channels": []string{"slack", "email", "webhook"}, "message": "x", "target": object{
			"webhook_url": url, "email": to, "url": receiver.url(),
		}}),
		h.send(t, organization, object{"channels": []string{"slack"}, "message": "x"}),
	}
	// Once while the sends wait, and once after they have ended.
	h.searchNotify(t)
	for _, id := range ids {
		log := h.ended(t, organization, id)
		t.Log(log.summary())
		if log.Channels[0].Status != "failed" || log.Channels[0].LastError == nil {
			t.Errorf("%s: the scripted failure did not happen", log.summary())
		}
	}
	h.searchNotify(t)
}

// In a deployment without webhook-egress, the secret that signs webhooks is in no answer, log, row, key or metric, even
// when the receiver repeats it in every failure. The stack's stores and logs are searched after it has stopped.
func TestDirectWebhookSecretStaysInside(t *testing.T) {
	t.Parallel()
	secrets := t.TempDir()
	h := plan{name: "direct", replicas: map[stack.Service]int{stack.Notify: 2}, settings: settings{stack.Notify: {
		"NOTIFY_WEBHOOK_EGRESS_ADDRESS=", "NOTIFY_WEBHOOK_EGRESS_TOKEN_FILE=", "NOTIFY_WEBHOOK_SECRETS_DIR=" + secrets,
		"NOTIFY_RETRY_SCHEDULE=100ms", "NOTIFY_MAX_ATTEMPTS=2", "NOTIFY_REQUEST_TIMEOUT=2s", "NOTIFY_BREAKER_FAILURES=1000",
	}}}.start(t)
	failures := map[string]func(said string) object{
		"a refusal": func(said string) object { return object{"status": 400, "body": "not signed with " + said} },
		"an end":    func(said string) object { return object{"status": 410, "body": said} },
		"a limit":   func(said string) object { return object{"status": 429, "retry_after": "0", "body": said} },
		"a breakdown": func(said string) object {
			return object{"status": 500, "body": `{"error":{"expected":"` + said + `"}}`}
		},
		"a redirect": func(said string) object { return object{"redirect": h.receiver().url() + "?secret=" + said} },
		"headers": func(said string) object {
			return object{"status": 401, "headers": object{"Www-Authenticate": "Hook " + said, "Retry-After": said}}
		},
		"a cut": func(string) object { return object{"drop": true} },
	}
	for name, action := range failures {
		t.Run(name, func(t *testing.T) {
			organization, to := unique("org"), h.receiver()
			secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(unique("direct-signing-secret")))
			knownSecrets.add("a direct webhook's signing secret", secret)
			if err := os.WriteFile(filepath.Join(secrets, organization), []byte(secret+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			to.answers(t, action(secret+","+strings.TrimPrefix(secret, "whsec_")))
			id := h.send(t, organization, object{"channels": []string{"webhook"}, "message": "x", "target": object{"url": to.url()}})
			h.searchNotify(t) // while the send may still wait
			log := h.ended(t, organization, id)
			t.Log(log.summary())
			if log.Channels[0].Status != "failed" || log.Channels[0].LastError == nil {
				t.Errorf("%s: the scripted failure did not happen", log.summary())
			}
			arrived := to.arrivals(t)
			if len(arrived) == 0 {
				t.Fatal("nothing arrived")
			}
			verify(t, secret, arrived[0])
			verifyStandard(t, secret, arrived[0])
		})
	}
	h.searchNotify(t)
}

// searchNotify searches all rows, Redis and the metrics of both replicas for secrets.
func (h *harness) searchNotify(t *testing.T) {
	t.Helper()
	texts, attempted := map[string]string{"Postgres": h.rowsOf(t), "Redis": h.keysOf(t)}, false
	for _, member := range []string{string(stack.Notify), secondNotify} {
		response, err := http.Get(h.URL(member) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		attempted = attempted || strings.Contains(string(text), "notify_attempt_duration_seconds_count{")
		texts["metrics of "+member] = string(text)
	}
	if !attempted {
		t.Error("no replica has a metric of attempts")
	}
	for where, text := range texts {
		for _, what := range knownSecrets.in([]byte(text)) {
			t.Errorf("%s holds %s", where, what)
		}
	}
}
