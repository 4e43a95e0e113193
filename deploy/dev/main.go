// Command dev runs Switchyard on this machine: the whole stack for people, or just the stores for tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const help = `use
  dev run [DIR]         start everything and keep it running until Ctrl-C, with the
                        programs in DIR; builds them if DIR is omitted
  dev demo              run the main jobs against what "dev run" started
  dev stores -- CMD …   run CMD with a throwaway Postgres and Redis
                        (SWITCHYARD_TEST_DATABASE_URL, SWITCHYARD_TEST_REDIS_URL)
  dev check STEP …      run targets of the Makefile one after another, and list the
                        times of each and the slowest tests; of a step A+B+C, B and C
                        run beside A with what A leaves of the processors
  dev tests -- CMD …    run CMD, a "go test", for the list of "dev check"
  dev setup DIR …       make secrets in DIR, and roles and schemas on the servers of
                        SWITCHYARD_DATABASE_URL, SWITCHYARD_REDIS_URL; as root, give
                        DIR and the further folders to the services' user
  dev secret DIR NAME   print a secret that "dev setup" made, such as operator-token
  dev setup --kubernetes FILE DIR
                        keep secrets in DIR, make roles and schemas on the server of
                        SWITCHYARD_DATABASE_URL, and print the Secrets of the cluster
                        that FILE describes, for kubectl apply -f -`

var errHelp = errors.New(help)

func main() {
	err := run(os.Args[1:])
	if exit, ok := errors.AsType[exitError](err); ok {
		os.Exit(int(exit))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	ctx, release := untilOrphaned(ctx)
	defer release()
	if len(args) == 0 {
		return errHelp
	}
	switch command, rest := args[0], args[1:]; {
	case command == "run" && len(rest) == 0:
		return runStack(ctx, "")
	case command == "run" && len(rest) == 1:
		return runStack(ctx, rest[0])
	case command == "demo" && len(rest) == 0:
		return runDemo(ctx)
	case command == "stores" && len(rest) > 1 && rest[0] == "--":
		return runStores(ctx, rest[1:])
	case command == "check" && len(rest) > 0:
		return runChecks(ctx, rest)
	case command == "tests" && len(rest) > 1 && rest[0] == "--":
		return runTests(ctx, rest[1:])
	case command == "secret" && len(rest) == 2:
		return printSecret(os.Stdout, rest[0], rest[1])
	case command == "setup" && len(rest) == 3 && rest[0] == "--kubernetes":
		return runClusterSetup(ctx, rest[1], rest[2])
	case command == "setup" && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return runSetup(ctx, rest)
	}
	return errHelp
}

// untilSignal returns a context that ends with the next Ctrl-C or SIGTERM.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
