package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// module is a Go module of others, with those of its packages that are used.
type module struct {
	path, version, dir string
	folders            map[string]bool // of the used packages
	programs           []string        // names of the programs that link it
	licences           []licence
}

// licence is a file of a module that has the text of licences.
type licence struct {
	file    string // its path in the module
	text    string
	names   []string // SPDX identifiers
	percent float64  // how much of the text is a licence's
}

// shipped lists the main packages of the programs of a release, and systems the operating systems that they are built for.
var (
	shipped = []string{
		"./services/gateway/cmd/gateway", "./services/webhook-egress/cmd/webhook-egress", "./services/notify/cmd/notify", "./services/edge/cmd/edge",
		"./deploy/dev", "./deploy/fakes",
	}
	systems = []string{"linux", "darwin"}
)

// workspace is all packages of the repository, with their tests under all tags.
var workspace = []string{
	"-test", "-tags", "e2e,k8s",
	"./gen/...", "./deploy/...", "./services/platform/...", "./services/gateway/...", "./services/webhook-egress/...", "./services/notify/...", "./services/edge/...",
}

// list returns the modules that the repository uses, by path.
func list(ctx context.Context) ([]*module, error) {
	modules := make(map[string]*module)
	for _, system := range systems {
		if _, err := collect(ctx, modules, system, workspace...); err != nil {
			return nil, err
		}
		for _, program := range shipped {
			linked, err := collect(ctx, modules, system, program)
			if err != nil {
				return nil, err
			}
			name := filepath.Base(program)
			for path := range linked {
				if m := modules[path]; !slices.Contains(m.programs, name) {
					m.programs = append(m.programs, name)
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(modules), func(a, b *module) int { return strings.Compare(a.path, b.path) }), nil
}

// listed is what the go command says of a package.
type listed struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// collect adds what packages depend on to modules, and returns the paths of the modules that they depend on.
func collect(ctx context.Context, modules map[string]*module, system string, packages ...string) (map[string]bool, error) {
	var complaints bytes.Buffer
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-json=Dir,Module"}, packages...)...)
	command.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, complaints.String())
	}
	found := make(map[string]bool)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if p.Module == nil || p.Module.Main { // the standard library's, or our own
			continue
		}
		m := modules[p.Module.Path]
		if m == nil {
			m = &module{path: p.Module.Path, version: p.Module.Version, dir: p.Module.Dir, folders: make(map[string]bool)}
			modules[m.path] = m
		}
		m.folders[p.Dir] = true
		found[m.path] = true
	}
}

var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright)([-._].*)?$`)

// maxText is how long a text of licences may be.
const maxText = 1 << 20

// read reads the licences of a module: the files in the folders of its used packages and those above, to its root.
func (m *module) read() error {
	folders := map[string]bool{m.dir: true}
	for folder := range m.folders {
		for ; strings.HasPrefix(folder, m.dir) && len(folder) > len(m.dir); folder = filepath.Dir(folder) {
			folders[folder] = true
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		for _, entry := range entries {
			if entry.IsDir() || !licenceFile.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			if err == nil && len(text) > maxText {
				err = fmt.Errorf("has %d bytes, want at most %d", len(text), maxText)
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", m.path, entry.Name(), err)
			}
			name, err := filepath.Rel(m.dir, filepath.Join(folder, entry.Name()))
			if err != nil {
				return err
			}
			m.licences = append(m.licences, scan(filepath.ToSlash(name), string(text)))
		}
	}
	return nil
}

// scan finds the licences in the text of a file.
func scan(file, text string) licence {
	coverage := licensecheck.Scan([]byte(text))
	names := make(map[string]bool)
	for _, match := range coverage.Match {
		names[match.ID] = true
	}
	return licence{file: file, text: text, names: slices.Sorted(maps.Keys(names)), percent: coverage.Percent}
}

// names returns the SPDX identifiers of all licences of a module.
func (m *module) names() []string {
	var all []string
	for _, l := range m.licences {
		all = append(all, l.names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
