// Command notify sends notifications and keeps the in-app store.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/services/notify/internal/app"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "notify:", err)
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
	if command == "vapid" {
		return app.VAPID(os.Args[2:], os.Stdout, os.Stderr)
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
	return fmt.Errorf("unknown command %q; use serve, migrate, config or vapid", command)
}
