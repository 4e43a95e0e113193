//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// flush deletes all keys of the stack's Redis.
func (h *harness) flush(t *testing.T) {
	t.Helper()
	at, err := url.Parse(h.RedisURL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", at.Host, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "FLUSHALL\r\n"); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 5)
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+OK\r\n" {
		t.Fatalf("FLUSHALL answered %q, %v", reply, err)
	}
}

// A hundred concurrent calls over two replicas don't overrun an organization's ceiling: with Redis, with a Redis that
// loses its data during the calls, and without Redis.
func TestCeilingHoldsOverReplicas(t *testing.T) {
	h := pairOfGateways(t)
	for name, disrupt := range map[string]func(*testing.T){
		"all well":      func(*testing.T) {},
		"Redis emptied": h.flush,
		"Redis away": func(t *testing.T) {
			t.Helper()
			if err := h.Kill(store.Redis); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := h.Restart(context.WithoutCancel(t.Context()), store.Redis); err != nil {
					t.Error(err)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) { h.overrun(t, disrupt) })
	}
}

func (h *harness) overrun(t *testing.T, disrupt func(*testing.T)) {
	t.Helper()
	const ceiling = 0.5
	organization := unique("org")
	gateways, operator := h.gateways(organization), h.operator(stack.Gateway)
	operator.do(t, http.MethodPut, "/v1/admin/orgs/"+organization+"/budget", object{"budget_ceiling_cents": ceiling}).want(t, http.StatusOK)
	early := 0 // calls that were answered before the ceiling applied
	for _, gateway := range gateways {
		waitForSpread(t, "the ceiling", func() error {
			a := gateway.post(t, chatPath, ask(guarded.model, "hello", object{"max_tokens": 100000}))
			if a.status == http.StatusOK {
				early++
			}
			if a.status != http.StatusForbidden {
				return errors.New("it does not apply yet")
			}
			return nil
		})
	}
	var served, refused atomic.Int64
	var calls sync.WaitGroup
	for i := range 100 {
		if i == 50 {
			disrupt(t)
		}
		calls.Go(func() {
			switch a := gateways[i%2].post(t, chatPath, ask(guarded.model, "hello", object{"max_tokens": 20})); a.status {
			case http.StatusOK:
				served.Add(1)
			case http.StatusForbidden:
				refused.Add(1)
			default:
				t.Errorf("answered %d: %s", a.status, shorten(a.body))
			}
		})
	}
	calls.Wait()
	for gateways[0].post(t, chatPath, ask(guarded.model, "hello", object{"max_tokens": 20})).status == http.StatusOK {
		served.Add(1)
	}
	spend := operator.get(t, "/v1/admin/orgs/"+organization+"/spend").fields(t, http.StatusOK, "spent_cents", "reserved_cents")
	spent, _ := spend["spent_cents"].(float64)
	if spent > ceiling || spent < ceiling/2 {
		t.Errorf("spent %v cents in %d calls, want at least half of %v and no more than it", spent, served.Load(), ceiling)
	}
	if reserved := spend["reserved_cents"]; reserved != 0.0 {
		t.Errorf("%v cents are still reserved", reserved)
	}
	if refused.Load() == 0 {
		t.Error("no call was refused")
	}
	h.awaitRecorded(t, organization, "", "completed", int(served.Load())+early)
	t.Logf("%d served, %d refused, %v of %v cents", served.Load(), refused.Load(), spent, ceiling)
}

// startOnlyCall mints a run with a maximum of one call, and starts that call, a stream, on the second gateway.
func (h *harness) startOnlyCall(t *testing.T) (organization, run string, gateways []client, s *eventStream) {
	t.Helper()
	h.stallStreams(t)
	organization, run = unique("org"), unique("run")
	gateways = h.gateways(organization)
	for i := range gateways {
		gateways[i] = gateways[i].with("X-Run-Id", run)
	}
	gateways[0].post(t, "/v1/runs/mint", object{"max_calls": 1}).want(t, http.StatusCreated)
	s = gateways[1].stream(t, chatPath, ask(stalled.model, "hello", streamed))
	if _, ok := s.next(t); !ok {
		t.Fatal("no stream")
	}
	return organization, run, gateways, s
}

// The reservations of a killed replica are released, and the ledger has the calls that were answered.
func TestAKilledReplicaReturnsItsReservations(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization, run, gateways, _ := h.startOnlyCall(t)
	gateways[0].post(t, chatPath, ask("sandbox", "hello")).refused(t, http.StatusForbidden, "run_exhausted", "in flight")
	if err := h.Kill(string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	waitFor(t, waitTimeout, "the release of the reservation", func() error {
		if a := gateways[0].post(t, chatPath, ask("sandbox", "hello")); a.status != http.StatusOK {
			return fmt.Errorf("answered %d: %s", a.status, a.body)
		}
		return nil
	})
	t.Logf("the reservation was released after %s", time.Since(killed))
	if err := h.Restart(t.Context(), string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	for _, gateway := range gateways {
		gateway.post(t, chatPath, ask("sandbox", "hello")).refused(t, http.StatusForbidden, "run_exhausted", "")
	}
	h.awaitRecorded(t, organization, run, "completed", 1)
	// A replica knows the calls of other replicas by reports, which are a moment old.
	waitFor(t, waitTimeout, "the run's one call", func() error {
		authority := gateways[1].get(t, "/v1/runs/"+run+"/authority").fields(t, http.StatusOK, "status")
		if authority["status"] != "exhausted" || authority["calls"] != 1.0 {
			return fmt.Errorf("authority %v", authority)
		}
		return nil
	})
}
