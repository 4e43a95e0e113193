// Command site writes the repository's documents as one static site: a page for each Markdown file, in the order of
// contents.yaml, and pages of reference that are made from the contracts and the code. A page needs no script, and loads
// nothing from elsewhere; search.html finds words in all pages by an index that is written here.
//
// `make gen` has it write the site that the edge embeds, `make docs` one for any web server or for a browser alone. A
// link to a file or a section that does not exist ends the command with an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "", "folder of the site; what else is in it is removed")
	edge := flag.Bool("edge", false, "link to the reference that an edge serves beside the site")
	flag.Parse()
	if err := run(".", *out, *edge); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// run writes the site of the repository at root into the folder out.
func run(root, out string, edge bool) error {
	if out == "" {
		return errors.New("-out: name a folder")
	}
	files, err := build(root, edge)
	if err != nil {
		return err
	}
	return write(out, files)
}

// build returns the files of the site by path.
func build(root string, edge bool) (map[string][]byte, error) {
	s, err := read(root)
	if err != nil {
		return nil, err
	}
	s.edge = edge
	return s.files()
}

// write makes the folder hold the files and nothing else. A folder that holds more than a site is refused.
func write(out string, files map[string][]byte) error {
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(out, searchPage)); err != nil {
			return fmt.Errorf("-out: %s is not empty, and holds no site", out)
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	for name, text := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // Pages of a site: every account may read them.
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // As above.
			return err
		}
	}
	return nil
}
