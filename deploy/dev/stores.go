package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

const storesTimeout = 20 * time.Second

// runStores runs a command with a Postgres and a Redis that only this command uses,
// and removes their data afterwards.
func runStores(ctx context.Context, command []string) (err error) {
	dir, err := store.Temporary()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stores, err := store.Start(ctx, store.Options{
		Dir:      dir,
		Cache:    cache(dir),
		Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	})
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), storesTimeout)
		defer cancel()
		err = errors.Join(err, stores.Stop(stopping))
	}()
	return execute(ctx, command, append(os.Environ(),
		"SWITCHYARD_TEST_DATABASE_URL="+stores.DatabaseURL,
		"SWITCHYARD_TEST_REDIS_URL="+stores.RedisURL,
	))
}

// cache returns the repository's download folder, or outside of it one below dir, which is removed with the servers.
func cache(dir string) string {
	root, err := stack.FindRoot()
	if err != nil {
		return filepath.Join(dir, "cache")
	}
	return filepath.Join(root, ".local", "cache")
}

// execute runs the command in the foreground. It interrupts the command when this program is interrupted; the servers
// run until the command has ended.
func execute(ctx context.Context, command, env []string) error {
	return exit(foreground(ctx, command, env).Run())
}

// foreground returns a command with the standard streams of this program.
func foreground(ctx context.Context, command, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = storesTimeout
	return cmd
}

// exitError is the exit status of the command, which has reported the cause itself.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
