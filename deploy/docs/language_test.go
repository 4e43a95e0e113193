package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// metaphors are words that no identifier holds, with the field's term for each.
var metaphors = map[string]string{
	"desk": "controller, reporter, service", "book": "manager, store", "wheel": "overrides", "trial": "sample, test delivery",
	"witness": "recorder", "saw": "observe", "drawing": "image request", "drawn": "image result",
	"cells": "KV", "bell": "notifier", "pulse": "timer", "granting": "grants", "chatter": "chat provider",
	"tell": "record, notify", "tells": "records", "told": "recorded", "heard": "received", "hear": "receive", "beat": "keep-alive, heartbeat", "ring": "notify",
	"siege": "hostile traffic", "crowd": "load generator", "scene": "fixture", "blow": "kill", "shelf": "store", "album": "store",
	"keeper": "manager", "custodian": "manager",
}

// vagueTypes are names that no type has: each once stood for something that has a name of its own.
var vagueTypes = []string{"room", "Room", "Folder", "parts", "gate", "Words", "Turn", "Account", "Watch", "Standing"}

// people are words that no text of the code holds: a sentence names the caller, the operator or the replica that it means.
var people = regexp.MustCompile(`\b([Nn]obody|[Ss]omebody|[Ww]hoever)\b`)

// sources returns the paths of the repository's own files of some extensions: no generated code, no fixtures.
func sources(t *testing.T, extensions ...string) (paths []string) {
	t.Helper()
	skipped := []string{"dbsql", "testdata", "node_modules", "results", "migrations"}
	for _, dir := range []string{"services", "deploy", "proto"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains(skipped, entry.Name()):
				return fs.SkipDir
			case slices.Contains(extensions, filepath.Ext(path)) && entry.Name() != "language_test.go":
				paths = append(paths, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// wordsOf splits an identifier in mixed caps into its words in lower case.
func wordsOf(name string) []string {
	var text strings.Builder
	before := 'A'
	for _, r := range name {
		if unicode.IsUpper(r) && !unicode.IsUpper(before) || r == '_' {
			text.WriteByte(' ')
		}
		text.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.Fields(strings.ReplaceAll(text.String(), "_", " "))
}

// Names are the field's terms: no identifier is made of a metaphor, and no type has a vague name.
func TestNamesAreTheFieldsTerms(t *testing.T) {
	files := token.NewFileSet()
	for _, path := range sources(t, ".go") {
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.TypeSpec:
				if slices.Contains(vagueTypes, node.Name.Name) {
					t.Errorf("%s: type %s: want a name that says what it is", files.Position(node.Pos()), node.Name.Name)
				}
			case *ast.Ident:
				for _, word := range wordsOf(node.Name) {
					if term, banned := metaphors[word]; banned && !strings.HasPrefix(node.Name, "Test") {
						t.Errorf("%s: %s: want the field's term (%s)", files.Position(node.Pos()), node.Name, term)
					}
				}
			}
			return true
		})
	}
}

// Comments, and the texts of everything but tests, name those whom they mean.
func TestTextsNamePeople(t *testing.T) {
	for _, path := range sources(t, ".go", ".sql", ".proto", ".yaml", ".html", ".js", ".md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasSuffix(path, "_test.go") { // Names of cases and invented ids are the test's own.
				_, line, _ = strings.Cut(line, "// ")
			}
			if word := people.FindString(line); word != "" && !strings.Contains(line, unixUser) {
				t.Errorf("%s:%d: %q: want the one who is meant", path, i+1, word)
			}
		}
	}
}

// unixUser is the line that names the user of that name.
const unixUser = `wanted = []string{"postgres", "nobody"}`

// The doc of a function that returns a boolean alone says what it reports, and each package's doc stands in the file
// that is named for it.
func TestDocsFollowTheConventions(t *testing.T) {
	files := token.NewFileSet()
	documented := make(map[string]string) // the file with the package's doc, by folder
	for _, path := range sources(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc != nil {
			documented[filepath.Dir(path)] = filepath.Base(path)
			if want := file.Name.Name + ".go"; file.Name.Name != "main" && filepath.Base(path) != want && filepath.Base(path) != "doc.go" {
				t.Errorf("%s: the package's doc belongs in %s or doc.go", path, want)
			}
		}
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || f.Doc == nil || !returnsBool(f) {
				continue
			}
			if doc := f.Doc.Text(); !strings.Contains(doc, "reports whether") && !strings.Contains(doc, "implements ") {
				t.Errorf("%s: the doc of %s: want \"%s reports whether …\"", files.Position(f.Pos()), f.Name.Name, f.Name.Name)
			}
		}
	}
	if len(documented) < 50 {
		t.Errorf("%d packages have a doc", len(documented))
	}
}

func returnsBool(f *ast.FuncDecl) bool {
	results := f.Type.Results
	if results == nil || len(results.List) != 1 || len(results.List[0].Names) > 1 {
		return false
	}
	name, ok := results.List[0].Type.(*ast.Ident)
	return ok && name.Name == "bool"
}
