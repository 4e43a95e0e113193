// Command edge is the public entry point for customers of Switchyard, and the control of it for operators. `edge --help`
// lists its commands.
package main

import (
	"os"

	"switchyard.dev/services/edge/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
