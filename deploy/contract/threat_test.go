package contract_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(t \*testing\.T\)`)
)

// Every threat in .github/SECURITY.md names a test, and every test that it names exists.
func TestThreatsHaveTests(t *testing.T) {
	text, err := os.ReadFile("../../.github/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Threats\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal(".github/SECURITY.md has no section on threats")
	}
	existing := tests(t)
	threats := 0
	for row := range strings.Lines(section) {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| Threat") {
			continue
		}
		threats++
		named := namedTest.FindAllStringSubmatch(row, -1)
		if len(named) == 0 {
			t.Errorf("no test is named for the threat: %s", row)
		}
		for _, name := range named {
			if !existing[name[1]] {
				t.Errorf("%s does not exist", name[1])
			}
		}
	}
	if threats < 10 {
		t.Errorf("%d threats found", threats)
	}
}

// tests returns the names of all tests of the tree.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, root := range []string{"../../services", ".."} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, match := range testFunc.FindAllSubmatch(source, -1) {
				names[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}
