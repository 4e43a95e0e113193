//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// A replica stops for longer than the others wait, so that the last call of its run is given to another. When the
// replica continues, its own call ends, its answer so far is billed, and the audit has the overrun of the limit.
func TestAStalledReplicaIsFenced(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization, run, gateways, s := h.startOnlyCall(t)
	pid, err := h.PID(string(secondGateway))
	if err != nil {
		t.Fatal(err)
	}
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Error(err)
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	waitFor(t, waitTimeout, "another call in its place", func() error {
		if a := gateways[0].post(t, chatPath, ask("sandbox", "hello")); a.status != http.StatusOK {
			return fmt.Errorf("answered %d: %s", a.status, a.body)
		}
		return nil
	})
	signal(syscall.SIGCONT)
	if got := s.read(t); got.failed == nil || got.failed.Error != "budget_exceeded" && got.failed.Error != "run_exhausted" {
		t.Errorf("the stream goes on: %+v", got)
	}
	waitFor(t, waitTimeout, "the aborted row and the audit entry", func() error {
		if n := h.recorded(t, organization, run, "aborted"); n != 1 {
			return fmt.Errorf("%d aborted rows", n)
		}
		audit := h.operator(stack.Gateway).get(t, "/v1/admin/audit?action=budget.overrun&organization_id="+organization)
		if !strings.Contains(string(audit.body), run) {
			return errors.New(string(audit.body))
		}
		return nil
	})
}
