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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// Operators' controls apply on every replica. The tests here use the stack with two gateways, which they may kill: none
// is parallel.

var (
	guarded = addVendor(vendor{name: "guarded", dialect: "openai", model: "guarded-model"})
	stalled = addVendor(vendor{name: "dripping", dialect: "openai", model: "dripping-model"})
)

// gateways returns clients of both gateways for an organization.
func (h *harness) gateways(organization string) []client {
	first := h.service(stack.Gateway, organization)
	second := first
	second.base = h.URL(string(secondGateway))
	return []client{first, second}
}

// restartAll restarts the stores, then both gateways.
func (h *harness) restartAll(t *testing.T) {
	t.Helper()
	for _, name := range []string{store.Redis, store.Postgres, string(stack.Gateway), string(secondGateway)} {
		if err := h.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// withinASecond waits at most a second, the bound for a change to reach every replica, until condition returns nil.
func withinASecond(t *testing.T, what string, condition func() error) {
	t.Helper()
	waitFor(t, time.Second, what, condition)
}

func (h *harness) stallStreams(t *testing.T) {
	t.Helper()
	h.script(t, stack.FakeProvider, rule{Match: stalled.match(), Action: object{"stall_after_chunks": 3}})
}

// A suspension ends all streams in flight on every replica within a second, refuses further calls on every replica, and
// outlives a restart of the stores and of all replicas.
func TestSuspensionHoldsEverywhere(t *testing.T) {
	h := pairOfGateways(t)
	h.stallStreams(t)
	organization := unique("org")
	gateways, operator := h.gateways(organization), h.operator(stack.Gateway)
	const streams = 100
	var open, ended sync.WaitGroup
	var failed, latest atomic.Int64
	var suspended atomic.Int64 // time of the suspension, in Unix milliseconds
	for i := range streams {
		open.Add(1)
		ended.Go(func() {
			opened := sync.OnceFunc(open.Done)
			defer opened()
			response, err := gateways[i%2].send(t, http.MethodPost, chatPath, ask(stalled.model, "hello", streamed))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			head := make([]byte, 8)
			if _, err := io.ReadFull(response.Body, head); err != nil {
				t.Error(err)
				return
			}
			opened()
			rest, err := io.ReadAll(response.Body)
			if err != nil || !strings.Contains(string(rest), "event: error") || !strings.Contains(string(rest), "organization_suspended") {
				t.Errorf("ended with %v: %s", err, shorten(rest))
				return
			}
			failed.Add(1)
			latest.Store(max(latest.Load(), time.Now().UnixMilli()-suspended.Load()))
		})
	}
	open.Wait()
	suspended.Store(time.Now().UnixMilli())
	operator.post(t, "/v1/admin/orgs/"+organization+"/suspend", object{"reason": "abuse"}).want(t, http.StatusOK)
	ended.Wait()
	if failed.Load() != streams || latest.Load() > 1000 {
		t.Errorf("%d of %d streams ended, the last after %d ms", failed.Load(), streams, latest.Load())
	}
	t.Logf("the last of %d streams ended after %d ms", streams, latest.Load())
	refused := func() {
		t.Helper()
		for _, gateway := range gateways {
			gateway.post(t, chatPath, ask("sandbox", "hello")).refused(t, http.StatusForbidden, "organization_suspended", "suspended")
		}
	}
	refused()
	h.awaitRecorded(t, organization, "", "aborted", streams)
	h.restartAll(t)
	refused()
	operator.post(t, "/v1/admin/orgs/"+organization+"/unsuspend", object{}).want(t, http.StatusOK)
	for _, gateway := range gateways {
		withinASecond(t, "restored", func() error {
			if a := gateway.post(t, chatPath, ask("sandbox", "hello")); a.status != http.StatusOK {
				return fmt.Errorf("answered %d: %s", a.status, a.body)
			}
			return nil
		})
	}
	audit := operator.get(t, "/v1/admin/audit?organization_id="+organization)
	for _, action := range []string{"org.suspend", "org.unsuspend"} {
		if !strings.Contains(string(audit.body), action) {
			t.Errorf("the audit lacks %s: %s", action, shorten(audit.body))
		}
	}
}

// recorded returns the number of ledger rows with an outcome, of an organization or of one of its runs.
func (h *harness) recorded(t *testing.T, organization, run, outcome string) (n int) {
	t.Helper()
	var page struct {
		Records []struct {
			Outcome string `json:"outcome"`
		} `json:"records"`
	}
	query := url.Values{"organization_id": {organization}, "limit": {"200"}}
	if run != "" {
		query.Set("run_id", run)
	}
	h.service(stack.Gateway, organization).get(t, "/v1/usage?"+query.Encode()).into(t, http.StatusOK, &page)
	for _, r := range page.Records {
		if r.Outcome == outcome {
			n++
		}
	}
	return n
}

// awaitRecorded waits until the feed has n rows with an outcome. Open transactions of other calls delay it.
func (h *harness) awaitRecorded(t *testing.T, organization, run, outcome string, n int) {
	t.Helper()
	waitFor(t, waitTimeout, "ledger rows", func() error {
		if got := h.recorded(t, organization, run, outcome); got != n {
			return fmt.Errorf("%d are %s, want %d", got, outcome, n)
		}
		return nil
	})
}

// A run that is revoked at one replica, and a session that is aborted at one, end on the other.
func TestRevokeAndAbortReachTheOtherReplica(t *testing.T) {
	h := pairOfGateways(t)
	h.stallStreams(t)
	organization := unique("org")
	gateways := h.gateways(organization)
	for _, c := range []struct {
		name, reason  string
		minted, known bool // known: the other replica must know the session first
		end           func(run string)
	}{
		{"revoke", "run_revoked", true, false, func(run string) {
			gateways[0].post(t, "/v1/runs/"+run+"/revoke", object{"reason": "runaway"}).want(t, http.StatusOK)
		}},
		{"abort", "run_aborted", false, false, func(run string) {
			h.operator(stack.Gateway).post(t, "/v1/admin/sessions/"+run+"/abort", object{"organization_id": organization}).want(t, http.StatusOK)
		}},
		{"abort by the organization", "run_aborted", false, true, func(run string) {
			gateways[0].post(t, "/v1/sessions/"+run+"/abort", object{"reason": "runaway"}).want(t, http.StatusOK)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := unique("run")
			if c.minted {
				gateways[0].post(t, "/v1/runs/mint", object{"run_id": run}).want(t, http.StatusCreated)
			}
			s := gateways[1].with("X-Run-Id", run).stream(t, chatPath, ask(stalled.model, "hello", streamed))
			if _, ok := s.next(t); !ok {
				t.Fatal("no stream")
			}
			if c.known {
				waitFor(t, waitTimeout, "the other replica's session", func() error {
					if a := gateways[0].get(t, "/v1/sessions/"+run); a.status != http.StatusOK {
						return fmt.Errorf("%d %s", a.status, a.body)
					}
					return nil
				})
			}
			start := time.Now()
			c.end(run)
			if got := s.read(t); got.failed == nil || got.failed.Error != c.reason {
				t.Errorf("the stream ended with %+v", got)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("after %s", took)
			}
			for _, gateway := range gateways {
				gateway.with("X-Run-Id", run).post(t, chatPath, ask("sandbox", "hello")).refused(t, http.StatusForbidden, c.reason, "")
			}
		})
	}
}

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
		withinASecond(t, "the ceiling", func() error {
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
