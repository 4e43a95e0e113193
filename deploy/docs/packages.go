package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A node is a Go package of a service.
type node struct {
	path     string // relative to the root of the map, slash-separated
	name     string
	synopsis string   // first sentence of the package comment, without "Package <name> "
	imports  []string // paths of the packages of the same map that it imports
	district bool     // holds doc.go alone and packages below it
	depth    int      // longest chain of imports that leads to it; 0 for what nothing imports
}

// forTests reports whether only tests import the package.
func (n *node) forTests() bool { return strings.HasSuffix(n.name, "test") }

// folder returns the package's folder directly below the root.
func (n *node) folder() string {
	top, _, _ := strings.Cut(n.path, "/")
	return top
}

// packages returns the packages below root by path. prefix is the import path of root.
func packages(root, prefix string) (map[string]*node, error) {
	nodes := make(map[string]*node)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "dbsql"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if nodes[rel] == nil {
			nodes[rel] = &node{path: rel}
		}
		return nodes[rel].read(path, prefix)
	})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.synopsis == "" {
			return nil, fmt.Errorf("%s: package %s has no package comment", filepath.Join(root, n.path), n.name)
		}
		n.imports = slices.DeleteFunc(n.imports, func(path string) bool { return nodes[path] == nil || path == n.path })
		slices.Sort(n.imports)
		n.imports = slices.Compact(n.imports)
		n.district = groupsPackages(filepath.Join(root, n.path), n.path, nodes)
	}
	setDepths(nodes)
	return nodes, nil
}

// read adds what a source file says of its package.
func (n *node) read(path, prefix string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	n.name = file.Name.Name
	if ast.IsGenerated(file) {
		return nil
	}
	if file.Doc != nil {
		n.synopsis = strings.TrimPrefix(new(doc.Package).Synopsis(file.Doc.Text()), "Package "+n.name+" ")
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if rel, ours := strings.CutPrefix(imported, prefix+"/"); ours {
			n.imports = append(n.imports, rel)
		}
	}
	return nil
}

// groupsPackages reports whether a folder groups packages: it stands directly below the root, its only source file is
// doc.go, and there are packages below it.
func groupsPackages(dir, path string, nodes map[string]*node) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "doc.go" || strings.Contains(path, "/") {
		return false
	}
	for other := range nodes {
		if strings.HasPrefix(other, path+"/") {
			return true
		}
	}
	return false
}

// setDepths sets the depth of each package. Go allows no cycle between packages, so the recursion ends.
func setDepths(nodes map[string]*node) {
	var sink func(n *node, depth int)
	sink = func(n *node, depth int) {
		n.depth = max(n.depth, depth)
		for _, path := range n.imports {
			if nodes[path].depth <= n.depth {
				sink(nodes[path], n.depth+1)
			}
		}
	}
	for _, n := range nodes {
		if !n.forTests() {
			sink(n, n.depth)
		}
	}
}

// modulePath returns the module path of a folder's go.mod.
func modulePath(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, found := strings.CutPrefix(line, "module "); found {
			return strings.TrimSpace(path), nil
		}
	}
	return "", fmt.Errorf("%s: go.mod has no module line", dir)
}
