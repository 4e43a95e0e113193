package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// root is the repository's root.
const root = "../.."

// Limits of the documents.
const (
	readmeWords   = 1500 // of a service's README, its table of settings included
	glossaryTerms = 25
)

// pending are folders that documents name before they are there. One that exists has to be removed here.
var pending []string

// changes are what CONTRIBUTING.md has to explain.
var changes = []string{
	"Set-up", "One test against stores", "Naming and language",
	"Add a dialect", "Add a usage bucket", "Add a notification channel", "Add a role", "Add a metric with an alert",
	"Add a webhook retry rule", "Add a setting", "Add a migration", "Add a route",
}

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)(?: "[^"]*")?\)`)
	code = regexp.MustCompile("`([^`\n]+)`")
	// A path in backticks begins with a folder of the repository or of a service, and has no other characters.
	rooted  = regexp.MustCompile(`^(services|deploy|proto|gen|\.ci|\.github)/[A-Za-z0-9_./<>*-]+$`)
	inside  = regexp.MustCompile(`^(internal|migrations|cmd)/[A-Za-z0-9_./-]+$`)
	service = regexp.MustCompile(`^services/(gateway|webhook-egress|notify|edge|platform)/`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	word    = regexp.MustCompile(`[\pL\pN]`)
)

// documents returns the repository's documents by path from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".bin", ".cache", ".local", "node_modules", "testdata"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		name, relErr := filepath.Rel(root, path)
		if err == nil {
			err = relErr
		}
		texts[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "services/README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md"} {
		if texts[name] == "" {
			t.Fatalf("%s is missing", name)
		}
	}
	return texts
}

func TestLinksLeadSomewhere(t *testing.T) {
	texts := documents(t)
	for name, text := range texts {
		for _, found := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
			if target == "" {
				path = name
			}
			if !exists(path) {
				t.Errorf("%s: %s does not exist", name, found[1])
			}
			if anchor != "" && !slices.Contains(anchors(texts[path]), anchor) {
				t.Errorf("%s: %s has no section %q", name, path, anchor)
			}
		}
	}
}

// anchors returns the names under which a document's sections can be linked.
func anchors(text string) []string {
	var names []string
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		plain := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(found[1]), "")
		names = append(names, strings.ReplaceAll(plain, " ", "-"))
	}
	return names
}

func TestNamedPathsExist(t *testing.T) {
	checked := 0
	for name, text := range documents(t) {
		if filepath.Base(name) == "CHANGELOG.md" { // A changelog names paths of the past.
			continue
		}
		for _, found := range code.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			path := strings.TrimSuffix(found[1], "/")
			switch of := service.FindString(name); {
			case strings.Contains(path, ".Test"): // the name of a test, which other tests look up
				continue
			case rooted.MatchString(path):
			case of != "" && inside.MatchString(path):
				path = of + path
			default:
				continue
			}
			checked++
			if !isPending(path) && !exists(path) {
				t.Errorf("%s: %s does not exist", name, path)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d paths were checked, want at least 100", checked)
	}
}

// isPending reports whether a path lies in a pending folder.
func isPending(path string) bool {
	return slices.ContainsFunc(pending, func(folder string) bool { return strings.HasPrefix(path+"/", folder+"/") })
}

func TestPendingPathsAreMissing(t *testing.T) {
	for _, path := range pending {
		if exists(path) {
			t.Errorf("%s exists; remove it from pending", path)
		}
	}
}

// Tables, code and headings may be longer.
func TestLinesBreak(t *testing.T) {
	for name, text := range documents(t) {
		for line := range strings.Lines(fenced.ReplaceAllString(text, "")) {
			line = strings.TrimRight(line, "\n")
			free := strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "    ")
			if length := utf8.RuneCountInString(line); length > width && !free {
				t.Errorf("%s: a line has %d characters, want at most %d: %.40s…", name, length, width, line)
			}
		}
	}
}

// exists reports whether the repository has a path. <service> in it stands for any service that fits.
func exists(path string) bool {
	matches, err := filepath.Glob(filepath.Join(root, strings.ReplaceAll(path, "<service>", "*")))
	return err == nil && len(matches) > 0
}

func TestServiceReadmesAreShort(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "services/*/README.md"))
	if err != nil || len(names) < 5 {
		t.Fatalf("%d READMEs found: %v", len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		words := slices.DeleteFunc(strings.Fields(string(text)), func(field string) bool { return !word.MatchString(field) })
		if len(words) > readmeWords {
			t.Errorf("%s has %d words, want at most %d; move detail to its docs folder", name, len(words), readmeWords)
		}
	}
}

func TestContributingExplainsTheChanges(t *testing.T) {
	text := documents(t)[".github/CONTRIBUTING.md"]
	var sections []string
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		sections = append(sections, found[1])
	}
	for _, recipe := range changes {
		if !slices.Contains(sections, recipe) {
			t.Errorf("CONTRIBUTING.md has no section %q", recipe)
		}
	}
}

func TestGlossaryIsShort(t *testing.T) {
	_, glossary, found := strings.Cut(documents(t)["services/README.md"], "\n## Glossary\n")
	if !found {
		t.Fatal("services/README.md has no glossary")
	}
	glossary, _, _ = strings.Cut(glossary, "\n## ")
	terms := make(map[string]bool)
	for row := range strings.Lines(glossary) {
		if columns := strings.Split(row, "|"); len(columns) > 2 && word.MatchString(columns[1]) && strings.TrimSpace(columns[1]) != "Term" {
			term := strings.TrimSpace(columns[1])
			if terms[term] {
				t.Errorf("the glossary has %q twice", term)
			}
			terms[term] = true
		}
	}
	if len(terms) == 0 || len(terms) > glossaryTerms {
		t.Errorf("the glossary has %d terms, want 1 to %d", len(terms), glossaryTerms)
	}
}

// Every decision has its four parts and its line in the index.
func TestDecisionsAreComplete(t *testing.T) {
	texts := documents(t)
	index := texts["services/decisions/README.md"]
	for name, text := range texts {
		page, found := strings.CutPrefix(name, "services/decisions/")
		if !found || page == "README.md" {
			continue
		}
		for _, part := range []string{"\n## Context\n", "\n## Decision\n", "\n## Consequences\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q", name, strings.TrimSpace(part))
			}
		}
		if !regexp.MustCompile(`(?m)^(Accepted|Superseded by .*), \d{4}-\d\d-\d\d\.$`).MatchString(text) {
			t.Errorf("%s: want its status and date, such as: Accepted, 2026-11-21.", name)
		}
		if !strings.Contains(index, "("+page+")") {
			t.Errorf("services/decisions/README.md has no line for %s", page)
		}
	}
}
