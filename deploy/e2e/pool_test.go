//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

var poolVendor = addVendor(vendor{
	name: "pool", dialect: "openai", model: "pool", pool: []string{"a", "b", "c"},
	more: object{"headers": object{"X-Title": "Acme"}, "credential_choice": "weighted"},
})

// A credential of a pool that the vendor refuses or limits costs no caller an error, and rests; the others serve, and
// lineage tells which one did. The vendor gets the operator's headers and the gateway's name.
func TestPoolOfCredentials(t *testing.T) {
	t.Parallel()
	h := use(t)
	refused, limited := poolVendor.pooled("a").key(), poolVendor.pooled("b").key()
	h.script(t, stack.FakeProvider,
		rule{Match: object{"header": object{"Authorization": "Bearer " + refused}}, Action: object{"status": 401}},
		rule{Match: object{"header": object{"Authorization": "Bearer " + limited}}, Action: object{"status": 429, "retry_after": "60"}},
	)
	service := h.service(stack.Gateway, unique("org"))
	fingerprints := make(map[string]int)
	for i := range 30 {
		a := service.post(t, chatPath, ask(poolVendor.named(), fmt.Sprintf("question %d", i))).want(t, http.StatusOK)
		fingerprints[fmt.Sprint(traced(t, service, a.header.Get("X-Request-Id"))["credential_fingerprint"])]++
	}
	if len(fingerprints) != 1 {
		t.Errorf("lineage names %v, want the one credential that the vendor takes", fingerprints)
	}
	calls := make(map[string]int)
	for _, call := range h.vendorCalls(t, poolVendor) {
		calls[call.Headers.Get("Authorization")]++
		if call.Headers.Get("X-Title") != "Acme" || !strings.HasPrefix(call.Headers.Get("User-Agent"), "switchyard/") {
			t.Errorf("headers %v, want the operator's and the gateway's name", call.Headers)
		}
	}
	for name, most := range map[string]int{refused: 2, limited: 1} { // A refused one comes back after ten seconds.
		if n := calls["Bearer "+hashed(name)]; n > most {
			t.Errorf("%d calls were made with a credential that rests, want %d at most", n, most)
		}
	}
}
