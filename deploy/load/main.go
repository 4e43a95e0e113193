// Command load measures the services on this machine, each beside its floor: the least that a service of its kind
// must do, measured in the same run. Machines differ and are noisy, so the reports give ratios first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

const help = `use
  load gateway [flags]   the gateway beside a thin relay and the provider itself
  load edge [flags]      the edge beside a thin relay and httputil.ReverseProxy
  load tools [flags]     calls of tools beside the handler of the protocol's SDK
  load webhook [flags]   webhook-egress beside a bare client and bare inserts
  load notify [flags]    notify: broadcasts, deep pages of an inbox, idle streams
  load gateway -h        its flags`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(help)
	}
	switch command, rest := args[0], args[1:]; command {
	case "gateway":
		return runGateway(ctx, rest)
	case "edge":
		return runEdge(ctx, rest)
	case "tools":
		return runTools(ctx, rest)
	case "webhook":
		return runWebhook(ctx, rest)
	case "notify":
		return runNotify(ctx, rest)
	case "serve": // load starts itself so
		return serve(ctx, rest)
	}
	return errors.New(help)
}

// openDir makes the folder of a run.
func openDir() (string, error) {
	dir, err := os.MkdirTemp("", "switchyard-load-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // Postgres runs as another user and must get through
}

// machine returns the head of a report. The load average is that of its end and shows whether other programs were
// busy.
func machine() string {
	load, _ := os.ReadFile("/proc/loadavg") // Only Linux has it.
	return fmt.Sprintf("%s, %d cores, %s, load average %.14s", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), load)
}

// keep writes a report to the folder of results, named after the test and the time.
func keep(name, report string) error {
	root, err := stack.FindRoot()
	if err != nil {
		return err
	}
	path := filepath.Join(root, "deploy", "load", "results", name+"-"+time.Now().UTC().Format("2006-01-02T1504")+".txt")
	if err := os.WriteFile(path, []byte(report), 0o600); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	fmt.Println("kept in", path)
	return nil
}
