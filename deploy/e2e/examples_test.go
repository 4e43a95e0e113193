//go:build e2e

package e2e_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// The example programs run against the real services as they are.
func TestExamples(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	env := append(os.Environ(),
		"GATEWAY_GRPC="+h.GRPC(string(stack.Gateway)), "WEBHOOK_EGRESS_GRPC="+h.GRPC(string(stack.WebhookEgress)),
		"NOTIFY_GRPC="+h.GRPC(string(stack.Notify)), "EDGE_URL="+h.URL(string(stack.Edge)),
		"SERVICE_TOKEN="+h.Secrets().Service, "ORGANIZATION_ID="+organization,
		"AI_KEY="+h.key(t, organization, "ai", "read").Key, "RECEIVER_URL="+h.FakeURL(stack.FakeWebhook))
	for name, says := range map[string]string{
		"gateway": "answered for", "webhook": "100 accepted\ndelivered after 1 attempt(s), status 200", "notify": "0 unread now", "edge": " tokens\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			programTurns.take(t, t.Name(), false)
			run := exec.CommandContext(t.Context(), "go", "run", "./examples/"+name)
			run.Dir, run.Env = "..", env
			if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), says) {
				t.Errorf("the example failed: %v: %s", err, out)
			}
		})
	}
}
