package stack

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/deploy/dev/process"
	"switchyard.dev/deploy/dev/store"
)

// buildBesideStores builds the programs while the stores start, neither of which needs the other. When one fails, the
// other is stopped.
func (s *Stack) buildBesideStores(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.startStores(ctx) })
	group.Go(func() error { return s.build(ctx) })
	return group.Wait()
}

func (s *Stack) startStores(ctx context.Context) error {
	o := store.Options{
		Dir:         s.options.State,
		Cache:       filepath.Join(s.options.Root, ".local", "cache"),
		Durable:     s.options.Durable,
		DatabaseURL: s.options.DatabaseURL,
		RedisURL:    s.options.RedisURL,
		Progress:    s.options.Progress,

		PostgresPort: s.storePorts.postgres,
		RedisPort:    s.storePorts.redis,
	}
	stores, err := store.Start(ctx, o)
	if err != nil {
		return err
	}
	s.stores = stores
	for _, m := range stores.Members() {
		s.watch(&memberProcess{Process: m.Process, ready: m.Ready})
	}
	return nil
}

// compilerGOGC saves a fifth of the compiler's processor time, for a quarter more memory.
const compilerGOGC = "GOGC=400"

// build builds the programs of the stack from the working tree.
func (s *Stack) build(ctx context.Context) error {
	if s.options.Bin != "" {
		return s.findPrograms()
	}
	program, err := exec.LookPath("go")
	if err != nil {
		return errors.New("the go command is not on PATH: install Go from https://go.dev/dl/")
	}
	begun := time.Now()
	s.progress("Building %s (a minute or two the first time, seconds later)", strings.Join(s.programs(), ", "))
	// Profile-guided builds compile everything anew for each service. Images are built so; a stack that is started
	// many times a day isn't.
	args := append([]string{"build", "-pgo=off"}, s.options.BuildFlags...)
	args = append(args, "-o", s.bin+string(filepath.Separator))
	for _, service := range Services {
		args = append(args, service.program())
	}
	if len(s.options.Fakes) > 0 {
		args = append(args, "./deploy/fakes")
	}
	err = process.Run(ctx, process.Spec{
		Name: "go build",
		Path: program,
		Args: args,
		Env:  append([]string{compilerGOGC}, s.options.Environ...), // the user's wins
		Dir:  s.options.Root,
		Log:  s.logFile("build"),
	})
	if err != nil {
		return err
	}
	s.progress("Built in %.1f s", time.Since(begun).Seconds())
	return nil
}

// findPrograms returns an error if the folder of programs lacks one.
func (s *Stack) findPrograms() error {
	for _, name := range s.programs() {
		if _, err := exec.LookPath(filepath.Join(s.bin, name)); err != nil {
			return fmt.Errorf("%s has no program %s: unpack the archives of a release for this platform there: %w", s.bin, name, err)
		}
	}
	return nil
}

// Build builds the services and the fakes of a tree into a folder, for tests that share them.
func Build(ctx context.Context, tree, bin string) error {
	args := []string{"build", "-pgo=off", "-trimpath", "-ldflags=-w", "-o", bin + string(filepath.Separator), "./deploy/fakes"}
	for _, service := range Services {
		args = append(args, service.program())
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = tree
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", tree, err, out)
	}
	return nil
}

// programs returns the names of the programs.
func (s *Stack) programs() []string {
	var names []string
	for _, service := range Services {
		names = append(names, string(service))
	}
	if len(s.options.Fakes) > 0 {
		names = append(names, Fakes)
	}
	return names
}

// provision creates every service's role and schema and writes the URLs of the stores.
func (s *Stack) provision(ctx context.Context) error {
	return s.vault.provision(ctx, s.stores.DatabaseURL, s.stores.RedisURL)
}

// migrate migrates every schema to the version that the binaries need.
func (s *Stack) migrate(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, service := range Services {
		group.Go(func() error {
			spec := s.spec(service, string(service), "migrate")
			spec.Name += " migrate"
			return process.Run(ctx, spec)
		})
	}
	return group.Wait()
}

// spec returns the process of a service's binary as one of its replicas.
func (s *Stack) spec(service Service, name string, args ...string) process.Spec {
	return process.Spec{
		Name: name,
		Path: filepath.Join(s.bin, string(service.owner())),
		Args: args,
		Env:  s.settings(service, name, s.options.Environ),
		Dir:  s.options.Root,
		Log:  s.logFile(name),
	}
}

// Command returns a command of a service's own binary with its settings, such as `edge keys list`.
func (s *Stack) Command(ctx context.Context, service Service, args ...string) *exec.Cmd {
	spec := s.spec(service, string(service), args...)
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	return cmd
}

func (s *Stack) startFakes(ctx context.Context) error {
	if len(s.options.Fakes) == 0 {
		return nil
	}
	args := []string{"--webhook-secret-file=" + s.vault.path(webhookDefault)}
	for _, fake := range AllFakes {
		args = append(args, "--"+string(fake)+"="+s.addresses[fakeMember(fake)][faceHTTP]) // "" leaves it out
	}
	args = append(args, "--ca-file", s.vault.path(fakesCA))
	if s.options.Durable {
		args = append(args, "--key-file", s.vault.path(fakesKey))
	}
	args = append(args, s.options.FakeArgs...)
	m, err := s.start(process.Spec{
		Name: Fakes,
		Path: filepath.Join(s.bin, Fakes),
		Args: args,
		Env:  environ(s.options.Environ).shared(),
		Dir:  s.options.Root,
		Log:  s.logFile(Fakes),
	}, "", s.fakesListen)
	if err != nil {
		return err
	}
	return m.await(ctx)
}

// startServices starts all replicas at once, waits for all of them, and reports how long each took.
func (s *Stack) startServices(ctx context.Context) error {
	var started []*memberProcess
	begun := time.Now()
	for _, service := range processes {
		for n := range count(s.options.Replicas, service) {
			name := member(service, n)
			m, err := s.start(s.spec(service, name, service.command()), service, healthy(s.URL(name), s.options.Authority))
			if err != nil {
				return err
			}
			started = append(started, m)
		}
	}
	took := make([]string, len(started))
	group, ctx := errgroup.WithContext(ctx)
	for i, m := range started {
		group.Go(func() error {
			err := m.await(ctx)
			took[i] = fmt.Sprintf("%s %d ms", m.Name(), time.Since(begun).Milliseconds())
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.progress("Ready, all started at once: %s", strings.Join(took, ", "))
	return nil
}
