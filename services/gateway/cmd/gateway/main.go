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
		os.Exit(app.ExitCode(err))
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	command := "serve"
	if len(os.Args) > 1 {
		command = cmp.Or(os.Args[1], command)
	}
	switch command { // These need no settings.
	case "byok":
		return app.Byok(ctx, os.Args[2:], os.Stdin, os.Stdout)
	case "policy":
		return app.Policy(os.Args[2:], os.Stdout)
	case "prices":
		return app.Prices(os.Args[2:], os.Stdout, os.Stderr)
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
	return fmt.Errorf("unknown command %q; use serve, migrate, config, policy, prices or byok", command)
}
