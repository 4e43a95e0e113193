// Command gateway is the egress to AI providers.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/services/gateway/internal/app"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	command := "serve"
	if len(os.Args) > 1 {
		command = cmp.Or(os.Args[1], command)
	}
	if command == "byok" {
		return app.Byok(ctx, os.Args[2:], os.Stdin, os.Stdout)
	}
	cfg, err := app.Load(os.Environ())
	if err != nil {
		return err
	}
	switch command {
	case "serve":
		return app.Serve(ctx, cfg)
	case "migrate":
		return app.Migrate(ctx, cfg, os.Stdout)
	case "config":
		return app.Print(os.Stdout, cfg)
	}
	return fmt.Errorf("unknown command %q; use serve, migrate, config or byok", command)
}
