package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	requirement = regexp.MustCompile(`(?m)^\t(\S+) (v\d\S*)$`) // a direct one: no comment follows
	named       = regexp.MustCompile("`([a-z0-9.-]+\\.[a-z]+(?:/[A-Za-z0-9./*-]+)?)`")
)

// .github/DEPENDENCIES.md has a row for each direct dependency of version 0, and names none that isn't one.
func TestTableOfDependencies(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, ".github/DEPENDENCIES.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for row := range strings.Lines(string(page)) {
		if columns := strings.Split(row, "|"); len(columns) > 2 {
			for _, found := range named.FindAllStringSubmatch(columns[1], -1) {
				rows = append(rows, found[1])
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "services/*/go.mod"))
	if err != nil || len(files) < 5 {
		t.Fatalf("modules %v, %v", files, err)
	}
	used := make(map[string]bool) // rows that name a dependency
	for _, file := range append(files, filepath.Join(root, "gen/go.mod"), filepath.Join(root, "deploy/go.mod")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range requirement.FindAllStringSubmatch(string(text), -1) {
			path, version := found[1], found[2]
			at := slices.IndexFunc(rows, func(row string) bool { return covers(row, path) })
			switch {
			case at >= 0:
				used[rows[at]] = true
			case strings.HasPrefix(version, "v0.") && !strings.HasPrefix(path, "switchyard.dev/"):
				t.Errorf("%s: %s %s has no row in DEPENDENCIES.md, which every direct dependency of version 0 needs", file, path, version)
			}
		}
	}
	for _, row := range rows {
		if !used[row] {
			t.Errorf("DEPENDENCIES.md: %s is no direct dependency of a module; remove it", row)
		}
	}
}

// covers reports whether a row is about a module. A row that ends in /* is about all modules below.
func covers(row, path string) bool {
	family, isFamily := strings.CutSuffix(row, "*")
	return row == path || isFamily && strings.HasPrefix(path, family)
}
