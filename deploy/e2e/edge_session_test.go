//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

var running = addVendor(vendor{name: "session-running", dialect: "openai", model: "session-running"})

// A customer finds the session of a stream that runs on, and stops it: the stream ends, and further calls with its id are
// refused. Another organization may use the same id and sees and stops only its own.
func TestEdgeSessions(t *testing.T) {
	t.Parallel()
	h := use(t)
	h.script(t, stack.FakeProvider, rule{Match: running.match(), Action: object{"stall_after_chunks": 3}})
	organization, id := unique("org"), unique("run")
	const list = "/product/v1/ai/sessions"
	caller := h.customer(t, organization, "ai", "ai:chat:invoke").with("X-Run-Id", id)
	reader, writer := h.customer(t, organization, "ai", "ai:sessions:read"), h.customer(t, organization, "ai", "ai:sessions:write")
	other := h.customer(t, unique("org"), "ai", "read,write")

	stream := caller.stream(t, chatRoute, ask(running.model, "hello", streamed))
	if _, ok := stream.next(t); !ok {
		t.Fatal("no stream")
	}
	waitFor(t, waitTimeout, "the session in flight", func() error {
		body := reader.get(t, list+"?in_flight=true").want(t, http.StatusOK).body
		if got := gjson.GetBytes(body, "sessions.#.run_id").String(); got != fmt.Sprintf("[%q]", id) {
			return fmt.Errorf("in flight: %s", got)
		}
		return nil
	})
	if got := gjson.GetBytes(reader.get(t, list+"/"+id).want(t, http.StatusOK).body, "status").Str; got != "active" {
		t.Errorf("the session is %s, want active", got)
	}
	other.get(t, list+"/"+id).want(t, http.StatusNotFound)
	other.post(t, list+"/"+id+"/abort", object{}).want(t, http.StatusNotFound)
	other.with("X-Run-Id", id).post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	if got := gjson.GetBytes(other.post(t, list+"/"+id+"/abort", object{}).want(t, http.StatusOK).body, "status").Str; got != "aborted" {
		t.Errorf("the other organization's session is %s, want aborted", got)
	}
	reader.post(t, list+"/"+id+"/abort", object{}).refused(t, http.StatusForbidden, "permission_denied", "ai:sessions:write or write")
	writer.get(t, list).refused(t, http.StatusForbidden, "permission_denied", "ai:sessions:read or read")
	caller.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)

	writer.post(t, list+"/"+id+"/abort", object{"reason": "runaway"}).want(t, http.StatusOK)
	if got := stream.read(t); got.failed == nil || got.failed.Error != "run_aborted" {
		t.Errorf("the stream ended with %+v", got)
	}
	caller.post(t, chatRoute, ask("sandbox", "hello")).refused(t, http.StatusForbidden, "run_aborted", "")
	a := reader.get(t, list+"/"+id).want(t, http.StatusOK)
	if got := gjson.GetManyBytes(a.body, "abort_requested", "organization_id"); !got[0].Bool() || got[1].Str != organization {
		t.Errorf("after the abort: %s", a.body)
	}
}
