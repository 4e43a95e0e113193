//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// The stacks of the run. Each starts when the first test needs it, and stops after the last test. Tests of the shared
// stack run beside each other. Tests of another stack may kill members, so they take turns.
var (
	shared = planned(plan{name: "shared"}).together()

	// breakable has few slots for deliveries, and leases as short as possible: another process takes over what a killed
	// one held after the lease. Its answers wait for Postgres, those of the other stacks for a disk that outlives them.
	breakable = planned(plan{name: "breakable", settings: settings{
		stack.Gateway: {"GATEWAY_LEDGER_MODE=committed"}, stack.Edge: {"EDGE_USAGE_MODE=committed"},
		stack.WebhookEgress: {"WEBHOOK_EGRESS_REQUEST_TIMEOUT=2s", "WEBHOOK_EGRESS_LEASE=7s", fmt.Sprint("WEBHOOK_EGRESS_MAX_IN_FLIGHT=", chaosInFlight)},
	}})

	// threeEgresses has three replicas of webhook-egress on one database, with leases as short as possible.
	threeEgresses = planned(plan{name: "three-egresses", replicas: map[stack.Service]int{stack.WebhookEgress: egresses}, settings: settings{
		stack.WebhookEgress: {"WEBHOOK_EGRESS_REQUEST_TIMEOUT=2s", "WEBHOOK_EGRESS_LEASE=7s", fmt.Sprint("WEBHOOK_EGRESS_MAX_IN_FLIGHT=", egressInFlight)},
	}})

	paired = planned(twoGateways)

	// edges has two replicas of the edge, with short timeouts for customers.
	edges = planned(plan{name: "edges", replicas: map[stack.Service]int{stack.Edge: 2}, settings: settings{
		stack.Edge: {"EDGE_USAGE_MODE=synced", fmt.Sprint("EDGE_MAX_BODY=", edgeBody), "EDGE_BODY_TIMEOUT=1s", "EDGE_WRITE_TIMEOUT=1s"},
	}})

	notifiers = planned(plan{
		name: "notifiers", replicas: map[stack.Service]int{stack.Notify: 2},
		fakes: []stack.Fake{stack.FakeSlack, stack.FakeSMTP, stack.FakeMailbox},
		settings: settings{stack.Notify: {
			"NOTIFY_RETRY_SCHEDULE=100ms,200ms,400ms,1s", "NOTIFY_REQUEST_TIMEOUT=2s", "NOTIFY_LEASE=7s", "NOTIFY_MAX_ATTEMPTS=6",
			"NOTIFY_BREAKER_FAILURES=1000", "NOTIFY_EMAIL_UNSUBSCRIBE_URL=https://shop.example/u?n={notification_id}",
		}},
	})

	// hostileStack has third parties of which some behave in every hostile way that the fakes know, and others well. All
	// its timeouts are short.
	hostileStack = planned(plan{
		name: "hostile", vendors: append(hostileVendors(), quietVendors...),
		fakes: []stack.Fake{stack.FakeSlack, stack.FakePush, stack.FakeHostileProvider, stack.FakeHostileWebhook, stack.FakeHostilePush},
		settings: settings{
			stack.Gateway: {
				"GATEWAY_ANSWER_TIMEOUT=1s", "GATEWAY_FIRST_TOKEN_TIMEOUT=1s", "GATEWAY_IDLE_TIMEOUT=1s", "GATEWAY_TOTAL_TIMEOUT=4s",
			},
			stack.WebhookEgress: {"WEBHOOK_EGRESS_REQUEST_TIMEOUT=2s", "WEBHOOK_EGRESS_LEASE=7s"},
			stack.Notify: {
				"NOTIFY_WEB_PUSH_ENABLED=true", "NOTIFY_RETRY_SCHEDULE=100ms", "NOTIFY_MAX_ATTEMPTS=2", "NOTIFY_BREAKER_FAILURES=1000",
				"NOTIFY_REQUEST_TIMEOUT=2s", "NOTIFY_LEASE=7s",
				"NOTIFY_WEBHOOK_EGRESS_ADDRESS=", "NOTIFY_WEBHOOK_EGRESS_TOKEN_FILE=", "NOTIFY_WEBHOOK_SECRETS_DIR=" + hostileSecrets,
			},
			stack.Edge: {"EDGE_BODY_TIMEOUT=3s"},
		},
	})

	pushing = planned(plan{
		name: "pushing", replicas: map[stack.Service]int{stack.Notify: 2}, fakes: []stack.Fake{stack.FakePush},
		settings: settings{stack.Notify: {
			"NOTIFY_WEB_PUSH_ENABLED=true", "NOTIFY_RETRY_SCHEDULE=100ms,200ms,400ms,1s",
			"NOTIFY_REQUEST_TIMEOUT=2s", "NOTIFY_LEASE=7s", "NOTIFY_BREAKER_PAUSE=200ms", "NOTIFY_BREAKER_MAX_PAUSE=1s",
		}},
	})
)

// twoGateways has two replicas of the gateway on one database.
var twoGateways = plan{name: "two-gateways", replicas: map[stack.Service]int{stack.Gateway: 2}, settings: settings{
	stack.Gateway: {"GATEWAY_LEDGER_MODE=synced"},
}}

const egresses = 3

// hostileSecrets is the folder of the signing secrets of organizations whose webhooks notify posts itself.
var hostileSecrets = filepath.Join(os.TempDir(), fmt.Sprint("switchyard-e2e-hostile-secrets-", os.Getpid()))

// The members' names of second replicas.
const (
	secondGateway = stack.Gateway + "-2"
	secondEdge    = stack.Edge + "-2"
	secondNotify  = string(stack.Notify) + "-2"
)

// use returns the shared stack.
func use(t *testing.T) *harness { t.Helper(); return shared.get(t) }

func pairOfGateways(t *testing.T) *harness { t.Helper(); return paired.get(t) }
func pairOfEdges(t *testing.T) *harness    { t.Helper(); return edges.get(t) }
func notifyStack(t *testing.T) *harness    { t.Helper(); return notifiers.get(t) }
func pushStack(t *testing.T) *harness      { t.Helper(); return pushing.get(t) }

// lazy is a stack that starts when the first test needs it.
type lazy struct {
	plan    plan
	turns   *turns // of its tests; nil where they run beside each other
	once    sync.Once
	harness *harness
	err     error
}

var stacks []*lazy

func planned(p plan) *lazy {
	l := &lazy{plan: p, turns: newTurns(1)}
	stacks = append(stacks, l)
	return l
}

// together has the stack's tests run beside each other.
func (l *lazy) together() *lazy {
	l.turns = nil
	return l
}

// get returns the running stack, in the test's turn.
func (l *lazy) get(t *testing.T) *harness {
	t.Helper()
	if l.turns != nil && !l.turns.has(root(t)) {
		if stackTurns.has(root(t)) { // The test that has the stack may wait for this test to end.
			t.Fatalf("the test needs the stack %s: use it before any other", l.plan.name)
		}
		l.turns.take(t, root(t), false)
	}
	stackTurns.take(t, root(t), l.turns != nil)
	l.once.Do(func() { l.harness, l.err = l.plan.open(context.WithoutCancel(t.Context())) })
	if l.err != nil {
		t.Fatalf("the stack %s does not start: %v", l.plan.name, l.err)
	}
	return l.harness
}

// start starts a stack for one test, at whose end it is closed.
func (p plan) start(t *testing.T) *harness {
	t.Helper()
	stackTurns.take(t, root(t), true)
	h, err := p.open(t.Context())
	if err != nil {
		t.Fatalf("the stack %s does not start: %v", p.name, err)
	}
	t.Cleanup(func() {
		if err := h.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log("look into", h.logs())
			return
		}
		_ = os.RemoveAll(h.root)
	})
	return h
}
