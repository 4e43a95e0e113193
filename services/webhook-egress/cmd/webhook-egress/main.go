// Command webhook-egress delivers webhooks: durable, signed, retried. `webhook-egress --help` lists its commands.
package main

import (
	"os"

	"switchyard.dev/services/webhook-egress/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
