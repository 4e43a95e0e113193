//go:build e2e

package e2e_test

import (
	"sync"
	"testing"
	"net/http"

	"switchyard.dev/deploy/dev/stack"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

func TestProbe(t *testing.T) {
	h := breakable.get(t)
	org := unique("org")
	client := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway))
	r, err := client.Chat(h.as(t, org), llm(t, "", "hi"))
	t.Log("empty model", r, err)
	q := llm(t, "sandbox", "hi"); q.Messages[0].Content = []byte("{bad")
	r, err = client.Chat(h.as(t, org), q)
	t.Log("bad content", r, err)
	q = llm(t, "sandbox", "hi"); q.Messages[0].Content = []byte(`"a` + "\xff" + `"`)
	r, err = client.Chat(h.as(t, org), q)
	t.Log("bad utf8 content", r, err)
	q = llm(t, "sandbox", "hi"); q.RunId = "a\x00"
	r, err = client.Chat(h.as(t, org), q)
	t.Log("nul run", r, err)
	to := h.receiver()
	bad := 0
	for range 12 {
		if err := h.Restart(t.Context(), "webhook-egress"); err != nil { t.Fatal(err) }
		wh := h.service(stack.WebhookEgress, org)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 64 {
			wg.Go(func() {
				a, err := wh.try(t, http.MethodPost, deliveryPath, to.deliver())
				mu.Lock(); defer mu.Unlock()
				if err != nil || a.status != 202 { bad++; t.Log(err, a.status, string(a.body)) }
			})
		}
		wg.Wait()
	}
	t.Log("bad of 768:", bad)
}
