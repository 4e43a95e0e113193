// Command site renders the repository's documents for the edge, which serves them as one site: a page of HTML for each
// Markdown file, in the order of contents.yaml, and pages of reference that are made from the contracts and the code.
// Before, it writes the code of recipes into the documents that quote them: see quote.go.
// `make gen` runs it. A link to a file or a section that does not exist ends it with an error.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// out is where the edge embeds the documents.
const out = "services/edge/internal/site/documents"

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// run completes and renders the documents of the repository at root.
func run(root string) error {
	s, err := read(root)
	if err != nil {
		return err
	}
	if err := s.quote(); err != nil {
		return err
	}
	files, err := build(root)
	if err != nil {
		return err
	}
	return write(filepath.Join(root, filepath.FromSlash(out)), files)
}

// build returns the files for the edge by path.
func build(root string) (map[string][]byte, error) {
	s, err := read(root)
	if err != nil {
		return nil, err
	}
	return s.files()
}

// write makes the folder hold the files and nothing else.
func write(out string, files map[string][]byte) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
