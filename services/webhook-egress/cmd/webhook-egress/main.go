// Command webhook-egress delivers webhooks: durable, signed, retried.
//
//	webhook-egress serve | migrate | config
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/services/webhook-egress/internal/app"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "webhook-egress:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	command := "serve"
	if len(os.Args) > 1 {
		command = os.Args[1]
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
	return fmt.Errorf("unknown command %q; use serve, migrate or config", command)
}
