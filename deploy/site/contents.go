package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed contents.yaml
var contentsText []byte

// A group is a part of the contents: pages for one kind of reader.
type group struct {
	ID    string // its anchor on the first page; made of the title if it is empty
	Title string
	For   string // who reads it
	Files []line
	pages []*page
}

// A line of the contents names a document, or those of a folder, and may have a title that says more than the
// document's own.
type line struct{ pattern, title string }

// UnmarshalYAML implements yaml.Unmarshaler: a line is a pattern, or a pattern with a title.
func (l *line) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.MappingNode && len(node.Content) == 2 {
		l.pattern, l.title = node.Content[0].Value, node.Content[1].Value
		return nil
	}
	return node.Decode(&l.pattern)
}

// site is the site that is being made.
type site struct {
	root   string
	groups []*group
	byFile map[string]*page // by the path of the Markdown file
	images map[string][]byte
}

// read reads all documents of the repository at root.
func read(root string) (*site, error) {
	s := &site{root: root, byFile: make(map[string]*page), images: make(map[string][]byte)}
	decoder := yaml.NewDecoder(bytes.NewReader(contentsText))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s.groups); err != nil {
		return nil, fmt.Errorf("contents.yaml: %w", err)
	}
	made, err := references(root)
	if err != nil {
		return nil, err
	}
	paths := make(map[string]string)
	for _, g := range s.groups {
		g.ID = cmp.Or(g.ID, "for-"+slug(g.Title))
		for _, named := range g.Files {
			files, err := s.matching(named.pattern, made)
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				p, err := s.readPage(file, g, made[file])
				if err != nil {
					return nil, err
				}
				if other := paths[p.path]; other != "" {
					return nil, fmt.Errorf("%s and %s have the same page %s", other, file, p.path)
				}
				paths[p.path] = file
				p.title = cmp.Or(named.title, p.title)
			}
		}
	}
	return s, s.complete(made)
}

// matching returns the documents that a pattern of the contents names: one, or those of a folder that no line has named.
func (s *site) matching(pattern string, made map[string][]byte) ([]string, error) {
	if made[pattern] != nil {
		return []string{pattern}, nil
	}
	found, err := filepath.Glob(filepath.Join(s.root, pattern))
	if err != nil {
		return nil, fmt.Errorf("contents.yaml: %s: %w", pattern, err)
	}
	var files []string
	for _, name := range found {
		file, err := filepath.Rel(s.root, name)
		if err != nil {
			return nil, err
		}
		if file = filepath.ToSlash(file); s.byFile[file] == nil {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("contents.yaml: %s: no such document, or it is listed twice", pattern)
	}
	return files, nil
}

// readPage reads a document, or takes a made one, and puts it into a group.
func (s *site) readPage(file string, g *group, text []byte) (*page, error) {
	if text == nil {
		var err error
		if text, err = os.ReadFile(filepath.Join(s.root, file)); err != nil {
			return nil, err
		}
	}
	p, err := newPage(file, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p.group = g
	g.pages = append(g.pages, p)
	s.byFile[file] = p
	return p, nil
}

// skipped are folders that hold no documents of the repository.
var skipped = []string{".git", ".bin", ".cache", ".local", "node_modules", "testdata"}

// forms are Markdown files that authors fill in, not documents.
var forms = []string{".github/pull_request_template.md"}

// complete reports documents that the contents lack.
func (s *site) complete(made map[string][]byte) error {
	for file := range made {
		if s.byFile[file] == nil {
			return fmt.Errorf("contents.yaml lacks %s", file)
		}
	}
	return filepath.WalkDir(s.root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		file, err := filepath.Rel(s.root, name)
		if file = filepath.ToSlash(file); err == nil && s.byFile[file] == nil && !slices.Contains(forms, file) {
			err = fmt.Errorf("contents.yaml lacks %s", file)
		}
		return err
	})
}

// pathOf returns the path of the page of a document: that of the file, without the folders that only sort.
func pathOf(file string) string {
	switch file {
	case "README.md":
		return "index.html"
	case "services/README.md":
		return "house.html"
	case "deploy/README.md":
		return "deploy/index.html"
	case "deploy/examples/README.md":
		return "examples.html"
	}
	name := strings.ToLower(strings.TrimSuffix(file, ".md"))
	for _, folder := range []string{"services/", "deploy/examples/", ".github/"} {
		name = strings.TrimPrefix(name, folder)
	}
	name = strings.Replace(name, "/docs/", "/", 1)
	if before, found := strings.CutSuffix(name, "/readme"); found {
		name = before + "/index"
	}
	return name + ".html"
}
