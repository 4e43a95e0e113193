package contract_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
			if len(existing[name[1]]) == 0 {
				t.Errorf("%s does not exist", name[1])
			}
		}
	}
	if threats < 10 {
		t.Errorf("%d threats found", threats)
	}
}

// Every row of the gateway's table of failures names tests by package, and these exist.
func TestFailuresHaveTests(t *testing.T) {
	text, err := os.ReadFile("../../services/gateway/docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	existing := tests(t)
	rows := regexp.MustCompile(`(?m)^\| \d+ \|.*$`).FindAllString(string(text), -1)
	if len(rows) != 20 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		named := regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`").FindAllStringSubmatch(row, -1)
		if len(named) == 0 {
			t.Errorf("no test is named for the failure: %s", row)
		}
		for _, name := range named {
			in := func(folder string) bool { return strings.HasSuffix(folder, "/"+name[1]) }
			if !slices.ContainsFunc(existing[name[2]], in) {
				t.Errorf("%s has no %s", name[1], name[2])
			}
		}
	}
}

// tests returns the folders of all tests of the tree by their names.
func tests(t *testing.T) map[string][]string {
	t.Helper()
	folders := make(map[string][]string)
	for _, root := range []string{"../../services", "../../deploy"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, match := range testFunc.FindAllSubmatch(source, -1) {
				folders[string(match[1])] = append(folders[string(match[1])], filepath.ToSlash(filepath.Dir(path)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return folders
}
