package app

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of failures names tests that exist.
func TestFailures(t *testing.T) {
	text, err := os.ReadFile("../../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| \d+ \|`).FindAll(text, -1)
	named := regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(rows) != 20 || len(named) < 40 {
		t.Errorf("%d rows with %d tests", len(rows), len(named))
	}
	for _, m := range named {
		if !slices.ContainsFunc(folders(t, m[1]), func(dir string) bool { return declares(t, dir, m[2]) }) {
			t.Errorf("%s has no %s", m[1], m[2])
		}
	}
}

// folders returns where a package may lie: below the repository's root, or below internal with or without a district.
func folders(t *testing.T, path string) []string {
	t.Helper()
	if strings.HasPrefix(path, "deploy/") {
		return []string{filepath.Join("../../../..", path)}
	}
	dirs, err := filepath.Glob(filepath.Join("../*", path))
	if err != nil {
		t.Fatal(err)
	}
	return append(dirs, filepath.Join("..", path))
}

// declares reports whether a package has a test.
func declares(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
