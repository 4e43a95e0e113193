//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// The stacks of the run. Each starts when a test needs it. Tests of the shared stack run beside each other. Tests of
// another stack may kill members, so they take turns.
var (
	shared = planned(plan{name: "shared"}).together()

	// breakable has few slots for deliveries, and leases as short as possible: another process takes over what a killed
	// one held after the lease. Its answers wait for Postgres, those of the other stacks for a disk that outlives them.
	breakable = planned(plan{name: "breakable", settings: settings{
		stack.Gateway:       {"GATEWAY_LEDGER_MODE=committed"},
		stack.WebhookEgress: {"WEBHOOK_EGRESS_REQUEST_TIMEOUT=2s", "WEBHOOK_EGRESS_LEASE=7s", fmt.Sprint("WEBHOOK_EGRESS_MAX_IN_FLIGHT=", chaosInFlight)},
	}})

	// threeEgresses has three replicas of webhook-egress on one database, with leases as short as possible. Failures in a
	// row open no circuit, which a receiver that fails now and then would keep open.
	threeEgresses = planned(plan{name: "three-egresses", replicas: map[stack.Service]int{stack.WebhookEgress: egresses}, settings: settings{
		stack.WebhookEgress: {
			"WEBHOOK_EGRESS_REQUEST_TIMEOUT=2s", "WEBHOOK_EGRESS_LEASE=7s", fmt.Sprint("WEBHOOK_EGRESS_MAX_IN_FLIGHT=", egressInFlight),
			"WEBHOOK_EGRESS_BREAKER_FAILURES=1000",
		},
	}})

	paired = planned(twoGateways)

	// edges has two replicas of the edge, with short timeouts for customers.
	edges = planned(plan{name: "edges", replicas: map[stack.Service]int{stack.Edge: 2}, settings: settings{
		stack.Edge: {fmt.Sprint("EDGE_MAX_BODY=", edgeBody), "EDGE_BODY_TIMEOUT=1s", "EDGE_WRITE_TIMEOUT=1s"},
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
				"NOTIFY_WEB_PUSH_ENABLED=true", "NOTIFY_RETRY_SCHEDULE=100ms", "NOTIFY_MAX_ATTEMPTS=3", "NOTIFY_BREAKER_FAILURES=1000",
				"NOTIFY_REQUEST_TIMEOUT=2s", "NOTIFY_LEASE=7s",
				"NOTIFY_WEBHOOK_EGRESS_ADDRESS=", "NOTIFY_WEBHOOK_EGRESS_TOKEN_FILE=", "NOTIFY_WEBHOOK_SECRETS_DIR=" + hostileSecrets,
			},
			stack.Edge: {"EDGE_BODY_TIMEOUT=3s"},
		},
	})

	// pausing has circuits that stay open for an hour, so that a message that waits for one doesn't arrive.
	pausing = planned(plan{name: "pausing", fakes: []stack.Fake{stack.FakeSlack}, settings: settings{
		stack.WebhookEgress: {"WEBHOOK_EGRESS_BREAKER_PAUSE=1h", "WEBHOOK_EGRESS_BREAKER_MAX_PAUSE=1h"},
		stack.Notify:        {"NOTIFY_RETRY_SCHEDULE=100ms", "NOTIFY_BREAKER_PAUSE=1h", "NOTIFY_BREAKER_MAX_PAUSE=1h", "NOTIFY_SLACK_INTERVAL=1ms"},
	}})

	// deciding reaches approvers by every channel.
	deciding = planned(plan{
		name: "deciding", fakes: []stack.Fake{stack.FakeSlack, stack.FakeSMTP, stack.FakeMailbox, stack.FakePush},
		settings: settings{stack.Notify: {"NOTIFY_WEB_PUSH_ENABLED=true"}},
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

// lazy is a stack that starts when a test needs it and it isn't running. One whose tests take turns stops when a test
// begins to use another stack, while none has or awaits this one: even an idle stack takes a tenth of a processor.
type lazy struct {
	plan  plan
	turns *turns // of its tests; nil where they run beside each other

	mu      sync.Mutex
	tests   int // that have the stack or wait for it
	harness *harness
	used    []*harness // all that were started
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
	if l.turns == nil {
		takeStackTurn(t, false)
	} else {
		l.takeTurn(t)
	}
	h, err := l.open(t)
	if err != nil {
		t.Fatalf("the stack %s does not start: %v", l.plan.name, err)
	}
	return h
}

// takeTurn waits for the test's turn at the stack. All tests that have or await it have one of [stackTurns] together.
func (l *lazy) takeTurn(t *testing.T) {
	t.Helper()
	test := root(t)
	if stackTurns.has(test) || takesTurns(test) && !l.turns.has(test) { // The test that has the stack may wait for this one to end.
		t.Fatalf("the test needs the stack %s: use it before any other", l.plan.name)
	}
	l.count(1)
	t.Cleanup(func() { l.count(-1) })
	stackTurns.take(t, l.plan.name, true)
	l.turns.take(t, test, false)
}

func (l *lazy) open(t *testing.T) (*harness, error) {
	t.Helper()
	stopUnused(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.harness == nil && l.err == nil {
		if l.harness, l.err = l.plan.open(context.WithoutCancel(t.Context())); l.err == nil {
			l.used = append(l.used, l.harness)
		}
	}
	return l.harness, l.err
}

func (l *lazy) count(tests int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tests += tests
}

// stopUnused stops the stacks whose tests take turns and that no test has or awaits.
func stopUnused(t *testing.T) {
	t.Helper()
	for _, l := range stacks {
		if err := l.stopUnused(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("the stack %s, which has stopped: %v", l.plan.name, err)
		}
	}
}

func (l *lazy) stopUnused(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns == nil || l.tests > 0 {
		return nil
	}
	return l.close(ctx)
}

// close searches the stack for secrets and stops it, if it runs.
func (l *lazy) close(ctx context.Context) error {
	h := l.harness
	if l.harness = nil; h == nil {
		return nil
	}
	return h.close(ctx)
}

// takesTurns reports whether a test has a stack whose tests take turns.
func takesTurns(test string) bool {
	return slices.ContainsFunc(stacks, func(l *lazy) bool { return l.turns != nil && l.turns.has(test) })
}

// takeStackTurn waits for the turn of a test to use a stack, which a test has that has a stack already.
func takeStackTurn(t *testing.T, first bool) {
	t.Helper()
	if !takesTurns(root(t)) {
		stackTurns.take(t, root(t), first)
	}
}

// start starts a stack for one test, at whose end it is closed.
func (p plan) start(t *testing.T) *harness {
	t.Helper()
	if p.idle {
		idleTurns.take(t, root(t), true)
	} else {
		takeStackTurn(t, true)
	}
	stopUnused(t)
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
