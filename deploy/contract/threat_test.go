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

// Every threat in .github/SECURITY.md has its guard, and every guard is there.
func TestThreatsHaveGuards(t *testing.T) {
	text, err := os.ReadFile("../../.github/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Threats\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal(".github/SECURITY.md has no section on threats")
	}
	there := tests(t)
	threats := 0
	for row := range strings.Lines(section) {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| Threat") {
			continue
		}
		threats++
		guards := namedTest.FindAllStringSubmatch(row, -1)
		if len(guards) == 0 {
			t.Errorf("no test guards against: %s", row)
		}
		for _, guard := range guards {
			if !there[guard[1]] {
				t.Errorf("%s does not exist", guard[1])
			}
		}
	}
	if threats < 10 {
		t.Errorf("%d threats found", threats)
	}
}

// tests are the names of all tests of the tree.
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
