package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// root is the repository's root.
const root = "../.."

func sectionsOf(t *testing.T) []section {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, changelog))
	if err != nil {
		t.Fatal(err)
	}
	sections, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", changelog, err)
	}
	return sections
}

// The log has no twin: an entry in a service's own log would miss the release.
func TestChangelogIsTheOnlyOne(t *testing.T) {
	for _, s := range sectionsOf(t) {
		if !strings.Contains(s.text, "\n- ") {
			t.Errorf("section %s has no entry", s.version)
		}
	}
	twins, err := filepath.Glob(filepath.Join(root, "services/*/CHANGELOG.md"))
	if err != nil || len(twins) > 0 {
		t.Errorf("move the entries of %v into %s (%v)", twins, changelog, err)
	}
}

// The chart, and the manifests that it is made from, name the release that the tree becomes.
func TestChartHasTheNewestVersion(t *testing.T) {
	version := sectionsOf(t)[0].version
	text, err := os.ReadFile(filepath.Join(root, "deploy/helm/switchyard/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Version string }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	if "v"+chart.Version != version {
		t.Errorf("the chart's version is %s, want %s without its v", chart.Version, version)
	}
	for _, path := range []string{"deploy/helm/switchyard/Chart.yaml", "deploy/helm/switchyard/values.yaml", "deploy/k8s/overlays/production-stateless/kustomization.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), version) {
			t.Errorf("%s doesn't name %s; see .github/RELEASING.md", path, version)
		}
	}
}

func TestParse(t *testing.T) {
	const first = "# Changelog\n\nText.\n\n## v0.2.0, unreleased\n\n### gateway\n\n- New.\n\n### edge\n\n- Newer.\n"
	sections, err := parse(first + "\n## v0.1.10, 2026-12-01\n\nThe first.\n")
	if err != nil || len(sections) != 2 || sections[0].date != unreleased || sections[1].text != "The first.\n" {
		t.Fatalf("%+v, %v", sections, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no section":               {"# Changelog\n", "no section"},
		"a heading without date":   {"## v0.1.0\n", `heading "## v0.1.0"`},
		"a heading of the past":    {"## Unreleased\n", `heading "## Unreleased"`},
		"a version of two numbers": {"## v0.1, 2026-12-01\n", `version "v0.1"`},
		"a leading zero":           {"## v0.01.0, 2026-12-01\n", `version "v0.01.0"`},
		"no day":                   {"## v0.1.0, 2026-13-01\n", `date "2026-13-01"`},
		"two unreleased":           {first + "\n## v0.1.0, unreleased\n", `section v0.1.0: date "unreleased"`},
		"the same twice":           {first + "\n## v0.2.0, 2026-12-01\n", "follows v0.2.0"},
		"compared as numbers":      {"## v0.9.0, 2026-12-01\n\n## v0.10.0, 2026-11-01\n", "follows v0.9.0"},
		"a part that isn't one":    {"## v0.1.0, unreleased\n\n### Added\n", `part "Added"`},
		"parts in another order":   {"## v0.1.0, unreleased\n\n### edge\n\n### gateway\n", `part "gateway"`},
		"a part twice":             {"## v0.1.0, unreleased\n\n### edge\n\n### edge\n", `part "edge"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	sections, err := parse("## v0.2.0, unreleased\n\n- Later.\n\n## v0.1.0, 2026-12-01\n\n- `rules[0]`, see [tools](gateway/docs/tools.md#a).\n- [RFC](https://example.com/).\n")
	if err != nil {
		t.Fatal(err)
	}
	notes, err := notesOf(sections, "v0.1.0")
	if want := "- `rules[0]`, see tools.\n- [RFC](https://example.com/).\n"; err != nil || notes != want {
		t.Errorf("%q, %v, want %q", notes, err, want)
	}
	if _, err := notesOf(sections, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "it is unreleased") {
		t.Errorf("notes of an unreleased version: %v", err)
	}
	if _, err := notesOf(sections, "v0.3.0"); err == nil || !strings.Contains(err.Error(), "no section") {
		t.Errorf("notes of no version: %v", err)
	}
}
