// Command gateway is the egress to AI providers. `gateway --help` lists its commands.
package main

import (
	"os"

	"switchyard.dev/services/gateway/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
