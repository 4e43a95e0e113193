// Command docs writes the package map of each service, services/<service>/docs/packages.md, made from the package
// comments, and what the customers' page of documents takes from other documents: see customers.go. `make gen` calls it,
// and `make verify-gen` fails when a file is out of date. The tests of this package check the repository's documents:
// paths that exist, READMEs that stay short.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := errors.Join(run("services"), customers("services")); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// run writes the package map of every Go module in the folder.
func run(services string) error {
	modules, err := filepath.Glob(filepath.Join(services, "*", "go.mod"))
	if err != nil {
		return err
	}
	for _, module := range modules {
		dir := filepath.Dir(module)
		page, err := packageMap(dir)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, "docs", "packages.md")
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil { //nolint:gosec // A document of the tree: every account may read it.
			return err
		}
	}
	return nil
}
