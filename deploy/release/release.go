// Command release reads the changelog, services/CHANGELOG.md, in which each release has one section.
//
//	release notes v0.1.0   prints the release's section, for the page of the release; refuses one without a date
//	release newest         prints the version of the first section
package main

import (
	"errors"
	"fmt"
	"os"
)

// changelog is the changelog's path from the repository's root.
const changelog = "services/CHANGELOG.md"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	sections, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", changelog, err)
	}
	switch {
	case len(arguments) == 1 && arguments[0] == "newest":
		_, err = fmt.Println(sections[0].version)
		return err
	case len(arguments) == 2 && arguments[0] == "notes":
		notes, err := notesOf(sections, arguments[1])
		if err != nil {
			return fmt.Errorf("%s: %w", changelog, err)
		}
		_, err = fmt.Print(notes)
		return err
	}
	return errors.New("usage: release notes <version> | release newest")
}
