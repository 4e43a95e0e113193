package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// allowed are the licences that a dependency may have. All but the Mozilla Public License are permissive: they want
// their text to go with the program, see texts. The Mozilla Public License wants changed files to be published; files of
// a module aren't changed here.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "Unlicense"}

// recognized is how much of a text has to be that of licences, in percent. The rest is names, years and headings.
const recognized = 60

// reviewed are texts that are not recognized, or say more than the licence, by module and file, with what they are. One
// that is used no more has to be removed.
var reviewed = map[string]string{
	"github.com/modelcontextprotocol/go-sdk/LICENSE":   "Apache-2.0 and MIT for the code, CC-BY-4.0 for its documentation, which is not used",
	"github.com/opencontainers/go-digest/LICENSE.docs": "CC-BY-SA-4.0 for its documentation, which is not used",
	"github.com/xi2/xz/LICENSE":                        "put into the public domain by its authors",
}

// check returns an error for each module whose licences are unknown or not allowed.
func check(modules []*module) error {
	var errs []error
	unused := maps.Clone(reviewed)
	for _, m := range modules {
		if len(m.licences) == 0 {
			errs = append(errs, fmt.Errorf("%s %s: no file with a licence", m.path, m.version))
		}
		for _, l := range m.licences {
			if text := m.path + "/" + l.file; reviewed[text] != "" {
				delete(unused, text)
				continue
			}
			if len(l.names) == 0 || l.percent < recognized {
				errs = append(errs, fmt.Errorf("%s %s: %s: %.0f %% of the text is a licence's (%s), want %d %%", m.path, m.version, l.file, l.percent, strings.Join(l.names, ", "), recognized))
			}
			for _, name := range l.names {
				if !slices.Contains(allowed, name) {
					errs = append(errs, fmt.Errorf("%s %s: %s: %s is not among the licences that are allowed: %s", m.path, m.version, l.file, name, strings.Join(allowed, ", ")))
				}
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(unused)) {
		errs = append(errs, fmt.Errorf("%s is reviewed, but used no more: remove it from the list", text))
	}
	return errors.Join(errs...)
}

// table lists modules, those that are shipped first.
func table(modules []*module) (string, error) {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	inPrograms := 0
	for _, shipped := range []bool{true, false} {
		for _, m := range modules {
			if shipped != (len(m.programs) > 0) {
				continue
			}
			in := "not shipped (tests, generators, local stack)"
			if shipped {
				in = strings.Join(m.programs, ", ")
				inPrograms++
			}
			if _, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", m.path, m.version, strings.Join(m.names(), ", "), in); err != nil {
				return "", err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return "", err
	}
	fmt.Fprintf(&text, "%d Go modules, of which %d are in programs\n", len(modules), inPrograms)
	return text.String(), nil
}

// npm counts the licences of npm packages by their lock files. They are clients and libraries that tests run, and are
// shipped with nothing.
func npm(locks ...string) (string, error) {
	var text strings.Builder
	for _, path := range locks {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		var lock struct {
			Packages map[string]struct{ License string }
		}
		if err := json.Unmarshal(data, &lock); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		counts := make(map[string]int)
		for name, p := range lock.Packages {
			if name == "" { // our own
				continue
			}
			if p.License == "" {
				p.License = "not stated"
			}
			counts[p.License]++
		}
		var each []string
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			each = append(each, fmt.Sprintf("%s %d", name, counts[name]))
		}
		fmt.Fprintf(&text, "%s: npm packages, not shipped (tests): %s\n", path, strings.Join(each, ", "))
	}
	return text.String(), nil
}

// texts returns the licences of the modules that are in programs, one after another.
func texts(modules []*module) string {
	var text strings.Builder
	text.WriteString("Switchyard's programs contain these Go modules, besides the Go standard library.\n")
	for _, m := range modules {
		if len(m.programs) == 0 {
			continue
		}
		for _, l := range m.licences {
			fmt.Fprintf(&text, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("-", 80), m.path, m.version, l.file, strings.TrimSpace(l.text))
		}
	}
	return text.String()
}
