//go:build e2e

// Package e2e_test drives the built binaries as customers, first-party services
// and operators do: over HTTP and gRPC, with third parties that fail on demand.
// One stack serves the whole run; tests that break things have one of their own.
//
// Each test works for an organization of its own, so that all of them can run
// side by side on stores that others use too.
package e2e_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"switchyard.dev/deploy/dev/stack"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// house is a running stack with what a test needs to call it.
type house struct {
	*stack.Stack

	root string // holds the stack's state and the files that its settings name
	dial func(stack.Service) (*grpc.ClientConn, error)
}

// shared is the stack of the run; nil with -short.
var shared *house

// TestMain runs the tests against one stack, stops it and then looks through
// all that it has logged and answered for secrets.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if shared, err = open(ctx, "shared", settings{}); err != nil {
		complain("the stack does not start", err)
		return 1
	}
	code := m.Run()
	houses := []*house{shared}
	for _, other := range []*lazy{&breakable, &paired, &edges, &notifiers, &pushing} {
		if other.house != nil {
			houses = append(houses, other.house)
		}
	}
	errs := []error{responses.leaks()}
	for _, h := range houses {
		errs = append(errs, h.Stop(ctx), leaksIn(h.logs()))
	}
	if err := errors.Join(errs...); err != nil {
		complain("after the tests", err)
		code = 1
	}
	for _, h := range houses {
		if code == 0 {
			_ = os.RemoveAll(h.root)
		} else {
			complain("look into "+h.logs(), nil)
		}
	}
	return code
}

func complain(what string, err error) {
	text := "e2e: " + what
	if err != nil {
		text += ": " + err.Error()
	}
	fmt.Fprintln(os.Stderr, text)
}

// settings are what a stack is to have beyond the usual, by service.
type settings map[stack.Service][]string

// open starts a stack in a folder of its own.
func open(ctx context.Context, name string, more settings) (*house, error) {
	return openReplicas(ctx, name, more, nil)
}

// openReplicas is open with several replicas of a service, and with fakes beside
// the usual ones.
func openReplicas(ctx context.Context, name string, more settings, replicas map[stack.Service]int, fakes ...stack.Fake) (*house, error) {
	root, err := os.MkdirTemp("", "switchyard-e2e-"+name+"-")
	if err != nil {
		return nil, err
	}
	h := &house{root: root}
	// Postgres runs as another user and must get through.
	if err := os.Chmod(root, 0o755); err != nil {
		return nil, err
	}
	if err := h.writeFiles(""); err != nil {
		return nil, err
	}
	h.Stack, err = stack.Start(ctx, stack.Options{
		State:    filepath.Join(root, "state"),
		Bin:      os.Getenv("SWITCHYARD_E2E_BIN"), // prebuilt binaries, such as those of an image
		Fakes:    append([]stack.Fake{stack.FakeProvider, stack.FakeWebhook}, fakes...),
		Replicas: replicas,
		Env: map[stack.Service][]string{
			stack.Gateway:       append(h.gatewaySettings(), more[stack.Gateway]...),
			stack.WebhookEgress: append(h.webhookSettings(), more[stack.WebhookEgress]...),
			stack.Notify:        more[stack.Notify],
			stack.Edge:          more[stack.Edge],
		},
	})
	if err != nil {
		return nil, err
	}
	h.dial = connections(h.Stack)
	// Only now is it known where the fake provider listens.
	err = h.writeFiles(h.FakeURL(stack.FakeProvider))
	if err == nil {
		err = h.Restart(ctx, string(stack.Gateway))
	}
	for n := 2; n <= replicas[stack.Gateway] && err == nil; n++ {
		err = h.Restart(ctx, fmt.Sprint(stack.Gateway, "-", n))
	}
	if err != nil {
		return nil, errors.Join(err, h.Stop(ctx))
	}
	return h, h.learnSecrets()
}

func (h *house) logs() string { return filepath.Join(h.State(), "log") }

// webhookSettings make retries quick and give one organization its own secret.
func (h *house) webhookSettings() []string {
	return []string{
		"WEBHOOK_EGRESS_RETRY_SCHEDULE=100ms,200ms,400ms,1s",
		"WEBHOOK_EGRESS_BREAKER_PAUSE=200ms", "WEBHOOK_EGRESS_BREAKER_MAX_PAUSE=2s",
		"WEBHOOK_EGRESS_ORG_SECRETS_DIR=" + filepath.Join(h.root, "org-secrets"),
	}
}

// lazy starts a stack when the first test asks for it.
type lazy struct {
	once  sync.Once
	house *house
	err   error
}

// breakable is the stack whose members tests may kill. They must not run in
// parallel.
var breakable lazy

func (l *lazy) get(t *testing.T) *house {
	t.Helper()
	use(t) // skips with -short
	l.once.Do(func() {
		l.house, l.err = open(context.WithoutCancel(t.Context()), "breakable", settings{
			// As short as they may be: what a dead replica holds is taken over after the lease.
			stack.WebhookEgress: {"WEBHOOK_EGRESS_REQUEST_TIMEOUT=2s", "WEBHOOK_EGRESS_LEASE=7s", fmt.Sprint("WEBHOOK_EGRESS_MAX_IN_FLIGHT=", chaosInFlight)},
		})
	})
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.house
}

// paired is a stack with two replicas of the gateway, which tests may kill. They
// must not run in parallel.
var paired lazy

const secondGateway = stack.Gateway + "-2"

func pairOfGateways(t *testing.T) *house {
	t.Helper()
	use(t)
	paired.once.Do(func() {
		paired.house, paired.err = openReplicas(context.WithoutCancel(t.Context()), "paired", settings{}, map[stack.Service]int{stack.Gateway: 2})
	})
	if paired.err != nil {
		t.Fatal(paired.err)
	}
	return paired.house
}

// use gives the stack of the run.
func use(t *testing.T) *house {
	t.Helper()
	if shared == nil {
		t.Skip("needs the stack, which -short leaves out")
	}
	return shared
}

// unique makes a name that no other test has.
func unique(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:10]) }

// waitFor asks until there is no objection left.
func waitFor(t *testing.T, within time.Duration, what string, objection func() error) {
	t.Helper()
	const pause = 20 * time.Millisecond
	deadline := time.Now().Add(within)
	for {
		err := objection()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		select {
		case <-time.After(pause):
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
