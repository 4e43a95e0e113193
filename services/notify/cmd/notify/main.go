// Command notify sends notifications and keeps the in-app store. `notify --help` lists its commands.
package main

import (
	"os"

	"switchyard.dev/services/notify/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
