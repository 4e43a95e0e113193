//go:build e2e

package e2e_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/toolserver"
)

// taskScenarios are the conformance suite's scenarios of the tasks extension, but that of notices, which it doesn't make.
var taskScenarios = []string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal", "tasks-mrtr-input",
	"tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-required-task-error", "tasks-mrtr-composition",
}

// The protocol's conformance suite finds nothing wrong in the tasks of a server behind the gateway that it doesn't find in
// the server itself.
func TestToolTaskConformance(t *testing.T) {
	t.Parallel()
	npm := clients(t)
	fake := httptest.NewServer(toolserver.New(fault.Script{}))
	t.Cleanup(fake.Close)
	door := startShim(t)
	h := plan{name: "tool-task-conformance", settings: settings{stack.Gateway: {
		"GATEWAY_ALLOW_TARGETS=" + strings.TrimPrefix(fake.URL, "http://"), "GATEWAY_MCP_ORIGINS=" + door.URL,
	}}}.start(t)
	gateway := h.service(stack.Gateway, unique("org"))
	door.lead(t, gateway, "")
	h.admitServer(t, gateway, "tasks", fake.URL+"/tasks", "tasks")
	passed := 0
	for _, scenario := range taskScenarios {
		arguments := []string{"--scenario", scenario, "--force", "--spec-version", "2026-07-28"}
		direct := conformance(t, npm, fake.URL+"/tasks", arguments...)
		got := conformance(t, npm, door.URL+"/mcp/tasks", arguments...)
		if len(got) < len(direct) {
			t.Errorf("%s: %d checks were made, %d of the server itself", scenario, len(got), len(direct))
		}
		for check, failure := range got {
			switch known, made := direct[check]; {
			case failure != "" && (!made || known == ""):
				t.Errorf("%s: %s", check, failure)
			case failure != "":
				t.Logf("of the server itself, too: %s: %s", check, known)
			default:
				passed++
			}
		}
	}
	if passed < 20 {
		t.Errorf("%d checks passed", passed)
	}
	t.Logf("%d checks passed", passed)
}
