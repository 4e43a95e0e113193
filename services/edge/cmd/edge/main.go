// Command edge is the public entry point for customers of Switchyard, and the control of it for operators.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/services/edge/internal/app"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "edge:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	command, args := "serve", os.Args[1:]
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	cfg, err := app.Load(os.Environ())
	if err != nil {
		return err
	}
	switch command {
	case "serve":
		return app.Serve(ctx, cfg)
	case "control":
		return app.Control(ctx, cfg)
	case "migrate":
		return app.Migrate(ctx, cfg, os.Stdout)
	case "config":
		return app.Print(os.Stdout, cfg)
	case "keys":
		return app.Keys(ctx, cfg, args, os.Stdout)
	default:
		return fmt.Errorf("unknown command %q; use serve, control, migrate, config or keys", command)
	}
}
