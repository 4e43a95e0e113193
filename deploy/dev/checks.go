package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"switchyard.dev/deploy/dev/check"
)

// lowest is the priority of what runs beside something else: it gets what is left of the processors.
const lowest = "19"

// runChecks runs targets of the Makefile, and lists the times of each and the slowest tests.
func runChecks(ctx context.Context, steps []string) error {
	return check.Steps(ctx, os.Stdout, steps, runTarget)
}

func runTarget(ctx context.Context, target check.Target) (processor time.Duration, err error) {
	command := []string{"make", "--no-print-directory", target.Name}
	if target.Beside {
		command = append([]string{"nice", "-n", lowest}, command...)
	}
	cmd := foreground(ctx, command, append(os.Environ(), check.TimesFile+"="+target.Times))
	cmd.Stdout = target.Out
	if target.Beside {
		cmd.Stdin, cmd.Stderr = nil, target.Out
	}
	err = exit(cmd.Run())
	if cmd.ProcessState != nil {
		processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return processor, err
}

// runTests runs a `go test` and records how long each test takes, where a file for that is named.
func runTests(ctx context.Context, command []string) (err error) {
	name := os.Getenv(check.TimesFile)
	if name == "" {
		return execute(ctx, command, os.Environ())
	}
	command, err = check.Command(command)
	if err != nil {
		return err
	}
	times, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, times.Close()) }()
	cmd := foreground(ctx, command, os.Environ())
	cmd.Stdout = nil
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := check.Tests(events, os.Stdout, times)
	return errors.Join(readErr, exit(cmd.Wait()))
}

// exit returns an error of a command as its exit status, where it has one: the command has reported the cause itself.
func exit(err error) error {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitError(max(ended.ExitCode(), 1)) // a signal's is -1
	}
	return err
}
