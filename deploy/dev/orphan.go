package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"
)

const parentPoll = 300 * time.Millisecond

var errOrphaned = errors.New("the go command that started this has ended")

// untilOrphaned returns a context that ends with the `go run` that started this program, if one did: go passes on
// Ctrl-C but dies of other signals, such as those with which make and CI end their commands, and would leave
// everything running.
func untilOrphaned(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(nil) }
	program, err := os.Executable()
	if err != nil || !builtByGoRun(program) {
		return ctx, stop
	}
	parent := os.Getppid()
	go func() {
		poll := time.NewTicker(parentPoll)
		defer poll.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-poll.C:
				if os.Getppid() != parent {
					cancel(errOrphaned)
				}
			}
		}
	}()
	return ctx, stop
}

// builtByGoRun reports whether a program is where `go run` builds.
func builtByGoRun(program string) bool { return strings.Contains(program, "/go-build") }
