// Package stack runs the whole system on one machine without containers: the two stores, the four services and the
// fakes, each as a process. `make run` uses it for people, the end-to-end tests for themselves.
package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"switchyard.dev/deploy/dev/store"
)

// Organization is the tenant that the stack is prepared for.
const Organization = "org_demo"

// Options configures a stack. The zero value is for tests: free ports, throwaway data, no fakes.
type Options struct {
	Root  string // the repository; "" searches from the working directory upwards
	State string // the folder of all state; "" is .local in the repository
	// Template is the state folder of [Migrate], whose databases are copied into a state folder that has none; "" makes
	// and migrates them, which takes half of the processor time of a start.
	Template string

	// Fixed makes every member listen where its setting or the documentation says, and
	// fails when a port is taken. Otherwise all listen on free ports.
	Fixed bool
	// Durable makes commits reach the disk and keeps the data across Stop, and the certificate of the fakes when they are
	// started again.
	Durable bool

	DatabaseURL string // a Postgres server to use instead of starting one: an administrator's URL
	RedisURL    string // a Redis server to use instead of starting one

	Environ  []string             // the user's environment; nil is that of the process
	Env      map[Service][]string // further settings of a service, "NAME=value"; they win
	Replicas map[Service]int      // number of processes of a service; 0 is 1
	Fakes    []Fake               // the third parties to simulate
	FakeArgs []string             // more flags of deploy/fakes
	WebPush  bool                 // turns web push on, which is off by default

	// ToolRules is added to the gateway's shipped policy, such as [ToolRules]; "" leaves the policy as it is.
	ToolRules string

	Authority *Authority // of the certificates with which the services speak mutual TLS; nil for plain text

	Bin        string   // a folder with all binaries; "" builds them
	BuildFlags []string // such as -race

	// Progress receives a line for each step, one call at a time; nil discards them.
	Progress func(line string)
}

// Stack is a running stack. Its methods are safe for concurrent use.
type Stack struct {
	options   Options
	bin       string
	vault     vault
	secrets   Secrets
	addresses addresses
	members   []*memberProcess
	exits     chan Exit
	unlock    func()

	stores     *store.Stores
	storePorts storePorts
}

type storePorts struct{ postgres, redis int }

// usualPorts are the ports of the stores for a person, unless they are in use.
var usualPorts = storePorts{postgres: 15432, redis: 16379}

// Start starts everything and returns when every member is ready. On an error nothing is left running. After Start
// has returned, the end of ctx has no effect: see [Stack.Stop].
func Start(ctx context.Context, o Options) (*Stack, error) {
	return begin(ctx, o, (*Stack).startFakes, (*Stack).startServices)
}

// Migrate makes the databases as Start does, and stops. What it leaves in the state folder is a template for others.
func Migrate(ctx context.Context, o Options) error {
	s, err := begin(ctx, o)
	if err != nil {
		return err
	}
	return s.Stop(context.WithoutCancel(ctx))
}

// begin starts the stores with migrated databases, and then does more steps.
func begin(ctx context.Context, o Options, more ...func(*Stack, context.Context) error) (*Stack, error) {
	s, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	steps := []func(*Stack, context.Context) error{(*Stack).buildBesideStores, (*Stack).provision, (*Stack).migrate}
	for _, step := range append(steps, more...) {
		if err := step(s, ctx); err != nil {
			// How the other, half started members end says nothing about the cause.
			_ = s.Stop(context.WithoutCancel(ctx))
			return nil, err
		}
	}
	return s, nil
}

// prepare makes the folders and the plan; it starts nothing.
func prepare(ctx context.Context, o Options) (*Stack, error) {
	if err := complete(&o); err != nil {
		return nil, err
	}
	s := &Stack{options: o, bin: o.Bin, exits: make(chan Exit, maxExits)}
	if s.bin == "" {
		s.bin = filepath.Join(o.State, "bin")
	}
	if err := openState(o.State, s.bin); err != nil {
		return nil, fmt.Errorf("open the state folder: %w", err)
	}
	unlock, err := lock(filepath.Join(o.State, "lock"))
	if err != nil {
		return nil, err
	}
	s.unlock = unlock
	if err := s.plan(ctx); err != nil {
		unlock()
		return nil, err
	}
	return s, nil
}

// openState makes the folders. Whatever the umask, the user of Postgres must be able to enter the first one.
func openState(state, bin string) error {
	if err := os.MkdirAll(state, 0o755); err != nil { //nolint:gosec // what is private inside is 0700
		return err
	}
	if err := own(state); err != nil {
		return err
	}
	if err := os.Chmod(state, 0o755); err != nil { //nolint:gosec // likewise
		return err
	}
	for _, dir := range []string{filepath.Join(state, "log"), bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // logs and programs are no secrets
			return err
		}
	}
	return nil
}

func (s *Stack) plan(ctx context.Context) (err error) {
	all := listeners(s.options.Replicas, s.options.Fakes)
	if s.options.Fixed {
		s.storePorts = usualPorts
		s.addresses, err = fixed(ctx, all, environ(s.options.Environ).lookup)
	} else {
		s.addresses, s.storePorts, err = free(ctx, all)
	}
	if err != nil {
		return err
	}
	if err := s.copyTemplate(ctx); err != nil {
		return err
	}
	if s.vault, err = openVault(filepath.Join(s.options.State, secretsFolder)); err != nil {
		return fmt.Errorf("make the folder of the secrets: %w", err)
	}
	if s.secrets, err = makeSecrets(s.vault); err != nil {
		return err
	}
	if billing := s.FakeURL(FakeBilling); billing != "" {
		if err := s.vault.write(exportsFile, exportsYAML(billing)); err != nil {
			return err
		}
	}
	if err := s.writePolicy(); err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	if s.options.Authority == nil {
		return nil
	}
	return errors.Join(s.Certify(s.options.Authority), s.Trust(s.options.Authority))
}

func complete(o *Options) error {
	o.Progress = serial(o.Progress)
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Root == "" {
		root, err := FindRoot()
		if err != nil {
			return err
		}
		o.Root = root
	}
	if o.State == "" {
		o.State = filepath.Join(o.Root, ".local")
	}
	state, err := filepath.Abs(o.State)
	o.State = state
	return err
}

// serial returns progress with one call at a time: steps that run side by side report to it.
func serial(progress func(line string)) func(line string) {
	if progress == nil {
		return func(string) {}
	}
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		progress(line)
	}
}

// FindRoot returns the repository that holds the working directory.
func FindRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.work above the working directory: start from within the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// URL returns the base URL of a service or one of its replicas ("gateway-2"), "" when the stack has no such member.
func (s *Stack) URL(member string) string { return s.secured(s.addresses.url(member)) }

// MetricsURL returns the base URL of a member's /metrics.
func (s *Stack) MetricsURL(member string) string {
	if address := s.addresses.dial(member, faceMetrics); address != "" {
		return s.secured("http://" + address)
	}
	return s.URL(member)
}

// secured returns the URL with the scheme that the services of this stack use.
func (s *Stack) secured(url string) string {
	if s.options.Authority != nil {
		url = strings.Replace(url, "http://", "https://", 1)
	}
	return url
}

// FakeURL returns the base URL of a fake, "" when it isn't part of the stack.
func (s *Stack) FakeURL(fake Fake) string { return s.addresses.url(fakeMember(fake)) }

// DemoURL returns the URL of notify's demo page.
func (s *Stack) DemoURL() string { return "http://" + s.addresses.dial(string(Notify), faceDemo) }

// FakeAddress returns the host:port of a fake, for those that don't speak HTTP.
func (s *Stack) FakeAddress(fake Fake) string { return s.addresses.dial(fakeMember(fake), faceHTTP) }

// GRPC returns the gRPC face of a service or one of its replicas as host:port.
func (s *Stack) GRPC(member string) string { return s.addresses.dial(member, faceGRPC) }

// Secrets returns the secrets that clients need.
func (s *Stack) Secrets() Secrets { return s.secrets }

// State returns the folder of all state.
func (s *Stack) State() string { return s.options.State }

// BYOKSecretsDir returns the folder in which the gateway finds organizations' own provider keys, a folder for each.
func (s *Stack) BYOKSecretsDir() string { return s.vault.path(gatewayByok) }

// DatabaseURL returns the administrator's database URL.
func (s *Stack) DatabaseURL() string { return s.stores.DatabaseURL }

// RedisURL returns the Redis URL of the services.
func (s *Stack) RedisURL() string { return s.stores.RedisURL }

func (s *Stack) logFile(name string) string {
	return filepath.Join(s.options.State, "log", name+".log")
}

func (s *Stack) progress(format string, args ...any) {
	s.options.Progress(fmt.Sprintf(format, args...))
}

// stepGrace is longer than a service's own drain (P_DRAIN_GRACE, 25 s).
const stepGrace = 30 * time.Second

// Stop drains and stops everything: the edge first, then the services behind it, then the fakes that they call, the
// stores last. It kills what hasn't ended in time or when ctx ends, and returns an error then.
func (s *Stack) Stop(ctx context.Context) error {
	for _, m := range s.members {
		m.expectEnd()
	}
	failed := errors.Join(
		s.stopMembers(ctx, func(m *memberProcess) bool { return m.service == Edge }),
		s.stopMembers(ctx, func(m *memberProcess) bool { return m.service != "" && m.service != Edge }),
		s.stopMembers(ctx, func(m *memberProcess) bool { return m.Name() == Fakes }),
	)
	if s.stores != nil {
		stopping, cancel := context.WithTimeout(ctx, stepGrace)
		defer cancel()
		failed = errors.Join(failed, s.stores.Stop(stopping))
	}
	s.unlock()
	return failed
}
