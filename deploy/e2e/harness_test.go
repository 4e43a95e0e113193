//go:build e2e

// Package e2e_test tests the built binaries as customers, first-party services and operators use them: over HTTP and
// gRPC, with third parties that fail on demand.
//
// A test takes one of the stacks in stacks_test.go, most of them the shared one:
//
//	h := use(t)
//	h.customer(t, unique("org"), "ai", "read").post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
//
// It uses an organization of its own, so that all tests of the shared stack can run beside each other; turns_test.go
// says which tests do. The clients are in client_test.go, the third parties in fakes_test.go, the search for secrets in secret_search_test.go.
package e2e_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// waitTimeout is how long a test waits for what must happen. Only a test that fails waits for so long.
const waitTimeout = 2 * time.Minute

// spreadTimeout is how long a test waits until a change has reached every replica. That takes milliseconds if the change
// is announced, and ten seconds to a minute if it isn't.
const spreadTimeout = 5 * time.Second

// harness is a running stack, with what a test needs to call it.
type harness struct {
	*stack.Stack

	vendors []vendor
	policy  string // the policy's file
	tools   string // the policy's section tools
	root    string // folder of the stack's state and of the files that its settings name
	dial    func(stack.Service) (*grpc.ClientConn, error)
}

// TestMain runs the tests, stops the stacks that still run, and searches everything that all have stored, logged and
// answered for secrets.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := boundTests(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	code := m.Run()
	errs := []error{responses.leaks()}
	var used []*harness
	for _, l := range stacks {
		used = append(used, l.used...)
		errs = append(errs, l.close(ctx))
	}
	errs = append(errs, exported.leaks())
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: after the tests:", err)
		code = 1
	}
	for _, h := range used {
		if code == 0 {
			_ = os.RemoveAll(h.root)
		} else {
			fmt.Fprintln(os.Stderr, "e2e: look into", h.logs())
		}
	}
	removeBuilds()
	return code
}

// settings are a stack's additional settings "NAME=value", by service.
type settings map[stack.Service][]string

// plan configures a stack.
type plan struct {
	name     string
	settings settings
	replicas map[stack.Service]int // number of processes of a service; 1 where absent
	fakes    []stack.Fake          // in addition to provider and webhook
	secure   *stack.Authority      // issues the certificates of mutual TLS; nil for plain text
	vendors  []vendor              // in addition to those of every stack; with bin, all there are
	bin      string                // folder of other programs than this tree's
	template string                // state folder of their databases; "" makes new ones
	policy   string                // file of another policy than the shipped one
	tools    string                // the policy's section tools, if it is another than approvedTools
	idle     bool                  // the test waits for most of a minute or longer, and the stack has hardly anything to do
}

// open starts the stack in a new folder.
func (p plan) open(ctx context.Context) (*harness, error) {
	if p.bin == "" {
		if err := p.takePrograms(); err != nil {
			return nil, err
		}
	}
	root, err := temporary(p.name)
	if err != nil {
		return nil, err
	}
	h := &harness{root: root, vendors: p.vendors, policy: cmp.Or(p.policy, shippedPolicy), tools: cmp.Or(p.tools, approvedTools)}
	if err := h.writeFiles(""); err != nil {
		return nil, err
	}
	if h.Stack, err = stack.Start(ctx, p.options(h)); err != nil {
		return nil, err
	}
	h.dial = connections(h.Stack)
	// Only now the address of the fake provider is known.
	err = h.writeFiles(h.FakeURL(stack.FakeProvider))
	for n := 1; n <= max(p.replicas[stack.Gateway], 1) && err == nil; n++ {
		err = h.Restart(ctx, member(stack.Gateway, n))
	}
	if err != nil {
		return nil, errors.Join(err, h.Stop(ctx))
	}
	return h, h.addStackSecrets()
}

// takePrograms makes the plan one of this tree's programs.
func (p *plan) takePrograms() (err error) {
	if p.bin, err = programs(); err != nil {
		return err
	}
	p.vendors = slices.Concat(vendors, p.vendors)
	p.template, err = template()
	return err
}

func (p plan) options(h *harness) stack.Options {
	return stack.Options{
		State:    filepath.Join(h.root, "state"),
		Template: p.template,
		Bin:      p.bin,
		Fakes:    append([]stack.Fake{stack.FakeProvider, stack.FakeWebhook}, p.fakes...),
		Replicas: p.replicas, Authority: p.secure,
		Env: map[stack.Service][]string{
			stack.Gateway:       append(h.gatewaySettings(), p.settings[stack.Gateway]...),
			stack.WebhookEgress: append(h.webhookSettings(), p.settings[stack.WebhookEgress]...),
			stack.Notify:        p.settings[stack.Notify],
			stack.Edge:          p.settings[stack.Edge],
		},
	}
}

// member returns the stack's name for a replica of a service; the first replica is 1.
func member(service stack.Service, n int) string {
	if n == 1 {
		return string(service)
	}
	return fmt.Sprint(service, "-", n)
}

// close searches everything that the stack has stored and logged for secrets, and stops the stack. It removes the files
// of Postgres, which can be large, and the folder in memory.
func (h *harness) close(ctx context.Context) error {
	err := errors.Join(h.leaksInStores(ctx, &knownSecrets), h.Stop(ctx), h.leaksInFiles(&knownSecrets))
	_ = os.RemoveAll(filepath.Join(h.State(), store.Postgres))
	return err
}

func (h *harness) logs() string { return filepath.Join(h.State(), "log") }

// webhookSettings returns settings that make retries quick and give one organization its own secret.
func (h *harness) webhookSettings() []string {
	return []string{
		"WEBHOOK_EGRESS_RETRY_SCHEDULE=100ms,200ms,400ms,1s",
		"WEBHOOK_EGRESS_BREAKER_PAUSE=200ms", "WEBHOOK_EGRESS_BREAKER_MAX_PAUSE=2s",
		"WEBHOOK_EGRESS_ORG_SECRETS_DIR=" + filepath.Join(h.root, "org-secrets"),
	}
}

// binFolder is the environment variable that names a folder of prebuilt programs to test, such as those of an image.
const binFolder = "SWITCHYARD_E2E_BIN"

// builds is the folder of all that is built once for all stacks. TestMain removes it.
var builds = sync.OnceValues(func() (string, error) { return temporary("builds") })

// inBuilds returns the path of a folder in builds.
func inBuilds(name string) (string, error) {
	folder, err := builds()
	return filepath.Join(folder, name), err
}

// programs returns the folder of this tree's programs.
var programs = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv(binFolder); bin != "" {
		return bin, nil
	}
	bin, err := inBuilds("bin")
	if err != nil {
		return "", err
	}
	return bin, stack.Build(context.Background(), "../..", bin)
})

// template returns a state folder with the databases of this tree's programs.
var template = sync.OnceValues(func() (string, error) {
	bin, err := programs()
	if err != nil {
		return "", err
	}
	state, err := inBuilds("template")
	if err != nil {
		return "", err
	}
	return state, stack.Migrate(context.Background(), stack.Options{State: state, Bin: bin})
})

func removeBuilds() {
	if folder, err := builds(); err == nil {
		_ = os.RemoveAll(folder)
	}
}

// temporary makes a folder that Postgres, which may run as another user, can enter.
func temporary(name string) (string, error) {
	folder, err := os.MkdirTemp("", "switchyard-e2e-"+name+"-")
	if err != nil {
		return "", err
	}
	return folder, os.Chmod(folder, 0o755)
}

// unique returns a name that no other test has.
func unique(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:10]) }

// waitFor calls condition until it returns nil. After the time within, it ends the test with condition's last error.
func waitFor(t *testing.T, within time.Duration, what string, condition func() error) {
	t.Helper()
	if err := await(t.Context(), within, condition); err != nil {
		t.Fatalf("%s: not within %s: %v", what, within, err)
	}
}

// await calls condition until it returns nil. It returns condition's last error when the time within has passed or ctx
// has ended.
func await(ctx context.Context, within time.Duration, condition func() error) error {
	const pause = 20 * time.Millisecond
	deadline := time.Now().Add(within)
	for {
		err := condition()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}
