package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// foldersWith returns the folders of the tree that have a file of this name, as paths from the root that begin with /.
func foldersWith(t *testing.T, name string) (folders []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".bin", ".cache", ".local", "dist", "node_modules", "testdata"}, entry.Name()):
			return fs.SkipDir
		case entry.Name() == name:
			folder, err := filepath.Rel(root, filepath.Dir(path))
			folders = append(folders, "/"+filepath.ToSlash(folder))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// Dependabot looks at each module, lock and Dockerfile of the tree, and at no folder that isn't there.
func TestDependabotCoversTheTree(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github/dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	covered := make(map[string][]string) // folders, by ecosystem
	for _, update := range config.Updates {
		covered[update.Ecosystem] = append(covered[update.Ecosystem], update.Directories...)
	}
	for ecosystem, file := range map[string]string{"gomod": "go.mod", "npm": "package.json", "docker": "Dockerfile"} {
		want, got := foldersWith(t, file), covered[ecosystem]
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s: %v, want the folders that have a %s: %v", ecosystem, got, file, want)
		}
	}
}

var (
	uses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.*)$`)
	pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// An action is a program with the workflow's rights: it is named by commit, which a tag isn't.
func TestActionsArePinned(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("workflows %v, %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := uses.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s uses no action", path)
		}
		for _, action := range found {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s: %s: want a commit and its version in a comment", path, action[1])
			}
		}
		if !strings.Contains(string(text), "\npermissions:") {
			t.Errorf("%s: want the permissions of the token at the top, none or to read", path)
		}
	}
}

// Each line of CODEOWNERS names something that is there.
func TestCodeOwnersNamePaths(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github/CODEOWNERS"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "*" || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if matches, err := filepath.Glob(filepath.Join(root, fields[0])); err != nil || len(matches) == 0 || len(fields) < 2 {
			t.Errorf("%q: %v, %v", strings.TrimSpace(line), matches, err)
		}
	}
}
